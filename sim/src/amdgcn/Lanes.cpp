//===- Lanes.cpp - The table of lane-wise operations ----------------------===//
#include "amdgcn/Lanes.h"

#include "amdgcn/Matrix.h"

#include <unordered_map>
#include <vector>

using namespace kvc::sim::amdgcn;

#define KVCSIM_ROWS(ISA)                                                                                               \
  namespace kvc::sim::amdgcn::ISA {                                                                                    \
  void addRows(std::vector<LaneRow> &rows);                                                                            \
  MatrixLoops loops();                                                                                                 \
  }
KVCSIM_ROWS(isaBase)
#if defined(__x86_64__)
KVCSIM_ROWS(isaAvx2)
KVCSIM_ROWS(isaAvx512)
#endif

/// The best of the extensions that the host has.
static void choose(std::vector<LaneRow> &rows, MatrixLoops &matrix) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    isaAvx512::addRows(rows);
    matrix = isaAvx512::loops();
    return;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) {
    isaAvx2::addRows(rows);
    matrix = isaAvx2::loops();
    return;
  }
#endif
  isaBase::addRows(rows);
  matrix = isaBase::loops();
}

const MatrixLoops &kvc::sim::amdgcn::matrixLoops() {
  static const MatrixLoops chosen = [] {
    std::vector<LaneRow> rows;
    MatrixLoops matrix{};
    choose(rows, matrix);
    return matrix;
  }();
  return chosen;
}

/// Names that later instruction sets gave to the same operation.
static constexpr std::pair<std::string_view, std::string_view> aliases[] = {
    {"v_add_nc_u32", "v_add_u32"},
    {"v_sub_nc_u32", "v_sub_u32"},
    {"v_subrev_nc_u32", "v_subrev_u32"},
    {"v_add_nc_u16", "v_add_u16"},
    {"v_sub_nc_u16", "v_sub_u16"},
    {"v_add_nc_i16", "v_add_i16"},
    {"v_sub_nc_i16", "v_sub_i16"},
    {"v_add_nc_i32", "v_add_i32"},
    {"v_sub_nc_i32", "v_sub_i32"},
    {"v_add_co_ci_u32", "v_addc_co_u32"},
    {"v_sub_co_ci_u32", "v_subb_co_u32"},
    {"v_subrev_co_ci_u32", "v_subbrev_co_u32"},
    {"v_max_num_f32", "v_max_f32"},
    {"v_min_num_f32", "v_min_f32"},
    {"v_max_num_f16", "v_max_f16"},
    {"v_min_num_f16", "v_min_f16"},
    {"v_max_num_f64", "v_max_f64"},
    {"v_min_num_f64", "v_min_f64"},
    {"v_max3_num_f32", "v_max3_f32"},
    {"v_min3_num_f32", "v_min3_f32"},
    {"v_max3_num_f16", "v_max3_f16"},
    {"v_min3_num_f16", "v_min3_f16"},
    {"v_med3_num_f32", "v_med3_f32"},
    {"v_med3_num_f16", "v_med3_f16"},
    {"v_minmax_num_f32", "v_minmax_f32"},
    {"v_maxmin_num_f32", "v_maxmin_f32"},
    {"v_minmax_num_f16", "v_minmax_f16"},
    {"v_maxmin_num_f16", "v_maxmin_f16"},
    {"v_pk_max_num_f16", "v_pk_max_f16"},
    {"v_pk_min_num_f16", "v_pk_min_f16"},
    {"v_cvt_pk_rtz_f16_f32", "v_cvt_pkrtz_f16_f32"},
    {"v_cvt_pk_norm_i16_f32", "v_cvt_pknorm_i16_f32"},
    {"v_cvt_pk_norm_u16_f32", "v_cvt_pknorm_u16_f32"},
    {"v_cvt_floor_i32_f32", "v_cvt_flr_i32_f32"},
    {"v_cvt_nearest_i32_f32", "v_cvt_rpi_i32_f32"},
    {"v_clz_i32_u32", "v_ffbh_u32"},
    {"v_ctz_i32_b32", "v_ffbl_b32"},
    {"v_cls_i32", "v_ffbh_i32"},
    {"v_mad_co_u64_u32", "v_mad_u64_u32"},
    {"v_mad_co_i64_i32", "v_mad_i64_i32"},
    {"v_mul_dx9_zero_f32", "v_mul_legacy_f32"},
    {"v_fma_dx9_zero_f32", "v_fma_legacy_f32"},
};

const LaneRow *kvc::sim::amdgcn::findLaneRow(std::string_view name) {
  static const std::vector<LaneRow> rows = [] {
    std::vector<LaneRow> made;
    MatrixLoops matrix{};
    choose(made, matrix);
    return made;
  }();
  static const std::unordered_map<std::string_view, const LaneRow *> byName = [] {
    std::unordered_map<std::string_view, const LaneRow *> map;
    for (const LaneRow &row : rows) {
      map.emplace(row.name, &row);
    }
    for (const auto &[alias, original] : aliases) {
      map.emplace(alias, map.at(original));
    }
    return map;
  }();
  auto found = byName.find(name);
  return found == byName.end() ? nullptr : found->second;
}
