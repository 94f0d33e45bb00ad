//===- Decoder.cpp - From parsed PTX to programs --------------------------===//
#include "ptx/Decoder.h"

#include "common/Fault.h"
#include "ptx/DecoderImpl.h"

#include <algorithm>
#include <bit>

using namespace kvc::sim;
using namespace kvc::sim::ptx;

std::string_view kvc::sim::ptx::nameOf(Class c) {
  static constexpr std::string_view names[] = {
      "integer",     "f32",        "f64",    "half",      "special",   "convert",   "compare",   "logic",    "move",
      "shuffle",     "vote",       "mma",    "ld.global", "st.global", "ld.shared", "st.shared", "ld.other", "st.other",
      "matrix-load", "async-copy", "atomic", "barrier",   "fence",     "control",   "other"};
  static_assert(std::size(names) == static_cast<size_t>(Class::Count));
  return names[static_cast<size_t>(c)];
}

void Program::alignConstants() {
  constantStorage.assign(constants.size() + 64, 0);
  const auto start = reinterpret_cast<uintptr_t>(constantStorage.data());
  alignedConstants = constantStorage.data() + ((64 - start % 64) % 64);
  std::copy(constants.begin(), constants.end(), alignedConstants);
}

Target kvc::sim::ptx::parseTarget(std::string_view name) {
  Target target;
  std::string digits;
  size_t i = 3;
  while (i < name.size() && std::isdigit(static_cast<unsigned char>(name[i]))) {
    digits += name[i++];
  }
  if (name.substr(0, 3) != "sm_" || digits.empty() || digits.size() > 4 || i + 1 < name.size()) {
    fail(FaultKind::InvalidValue, "expects a target such as sm_80 or sm_90a, but got {}", name);
  }
  target.sm = unsigned(std::stoul(digits));
  target.suffix = i < name.size() ? name[i] : 0;
  return target;
}

// Groups of modifiers that patterns name.
struct Group {
  std::string_view name;
  std::vector<std::string_view> members;
};
/// m64n8k16 and so on: every multiple of 8 up to 256, every k.
static std::vector<std::string_view> warpgroupShapes() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> made;
    for (int n = 8; n <= 256; n += 8) {
      for (int k : {8, 16, 32}) {
        made.push_back(fmt::format("m64n{}k{}", n, k));
      }
    }
    return made;
  }();
  return {names.begin(), names.end()};
}
static const std::vector<Group> &groups() {
  static const std::vector<Group> table = {
      {"int", {"u16", "s16", "u32", "s32", "u64", "s64"}},
      {"int16x2", {"u16x2", "s16x2"}},
      {"int32", {"u32", "s32"}},
      {"int3264", {"u32", "s32", "u64", "s64"}},
      {"int1632", {"u16", "s16", "u32", "s32"}},
      {"sint", {"s16", "s32", "s64"}},
      {"bits", {"pred", "b16", "b32", "b64"}},
      {"shift", {"b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64"}},
      {"b3264", {"b32", "b64"}},
      {"half", {"f16", "bf16", "f16x2", "bf16x2"}},
      {"f16", {"f16", "f16x2"}},
      {"bf16", {"bf16", "bf16x2"}},
      {"f", {"f32", "f64"}},
      {"rnd", {"rn", "rz", "rm", "rp"}},
      {"irnd", {"rni", "rzi", "rmi", "rpi"}},
      {"cmp",
       {"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num",
        "nan"}},
      {"bool", {"and", "or", "xor"}},
      {"scalar", {"b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64"}},
      {"any", {"b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64", "f32", "f64", "b128"}},
      {"mov",
       {"pred", "b16", "b32", "b64", "b128", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64", "f16", "f16x2",
        "bf16", "bf16x2"}},
      {"cvt", {"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64"}},
      {"space",
       {"global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry",
        "param::func"}},
      {"vec", {"v2", "v4", "v8"}},
      {"ldcop", {"ca", "cg", "cs", "lu", "cv"}},
      {"stcop", {"wb", "cg", "cs", "wt"}},
      {"evict", {"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate"}},
      {"l2evict", {"L2::evict_normal", "L2::evict_first", "L2::evict_last"}},
      {"l2pre", {"L2::64B", "L2::128B", "L2::256B"}},
      {"sem", {"weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "sc", "mmio"}},
      {"asem", {"relaxed", "acquire", "release", "acq_rel"}},
      {"scope", {"cta", "cluster", "gpu", "sys"}},
      {"prmt", {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}},
      {"shape8", {"m8n8", "m8n16", "m16n16", "m16n8"}},
      {"num", {"x1", "x2", "x4"}},
      {"wgshape", warpgroupShapes()},
  };
  return table;
}

namespace {

/// One step of a pattern.
struct PatternItem {
  std::vector<std::string_view> choices;
  bool optional = false;
};

struct CompiledRow {
  const Row *row;
  std::vector<PatternItem> items;
};

class Tables {
public:
  Tables() {
    for (auto rows : {integerRows(), floatRows(), halfRows(), moveRows(), convertRows(), controlRows(), memoryRows(),
                      atomicRows(), warpRows(), mmaRows(), asyncRows(), mbarrierRows(), bulkRows(), wgmmaRows()}) {
      for (const Row &row : rows) {
        add(row);
      }
    }
  }

  const std::vector<CompiledRow> *find(std::string_view opcode) const {
    auto found = byOpcode.find(opcode);
    return found == byOpcode.end() ? nullptr : &found->second;
  }

private:
  void add(const Row &row) {
    CompiledRow compiled{&row, {}};
    std::string_view rest = row.pattern;
    std::string_view opcode;
    while (!rest.empty()) {
      const size_t blank = rest.find(' ');
      std::string_view word = rest.substr(0, blank);
      rest = blank == std::string_view::npos ? std::string_view() : rest.substr(blank + 1);
      if (opcode.empty()) {
        opcode = word;
        continue;
      }
      PatternItem item;
      if (word.front() == '[') {
        item.optional = true;
        word = word.substr(1, word.size() - 2);
      }
      while (!word.empty()) {
        const size_t bar = word.find('|');
        const std::string_view choice = word.substr(0, bar);
        word = bar == std::string_view::npos ? std::string_view() : word.substr(bar + 1);
        if (choice.front() == '<') {
          const std::string_view name = choice.substr(1, choice.size() - 2);
          auto group = std::find_if(groups().begin(), groups().end(), [&](const Group &g) { return g.name == name; });
          if (group == groups().end()) {
            fail(FaultKind::Other, "no group {} in the pattern {}", name, row.pattern);
          }
          item.choices.insert(item.choices.end(), group->members.begin(), group->members.end());
        } else {
          item.choices.push_back(choice);
        }
      }
      compiled.items.push_back(std::move(item));
    }
    byOpcode[opcode].push_back(std::move(compiled));
  }

  std::unordered_map<std::string_view, std::vector<CompiledRow>> byOpcode;
};

} // namespace

static const Tables &tables() {
  static const Tables all;
  return all;
}

static bool matches(const std::vector<PatternItem> &items, size_t item, const std::vector<std::string_view> &modifiers,
                    size_t modifier, std::vector<std::string_view> &matched) {
  if (item == items.size()) {
    return modifier == modifiers.size();
  }
  const auto &choices = items[item].choices;
  if (modifier < modifiers.size() && std::find(choices.begin(), choices.end(), modifiers[modifier]) != choices.end()) {
    matched.push_back(modifiers[modifier]);
    if (matches(items, item + 1, modifiers, modifier + 1, matched)) {
      return true;
    }
    matched.pop_back();
  }
  return items[item].optional && matches(items, item + 1, modifiers, modifier, matched);
}

void DecoderImpl::decodeInstruction(const Function &function, const Instruction &source) {
  Inst inst;
  inst.index = uint32_t(program.code.size());
  Build build(*this, source, inst);
  current = &source;
  const auto *rows = tables().find(source.opcode);
  if (!rows) {
    build.refuse(fmt::format("an instruction that the simulator has, but got {}", source.opcode));
  }
  const CompiledRow *chosen = nullptr;
  for (const CompiledRow &row : *rows) {
    build.matched.clear();
    if (matches(row.items, 0, source.modifiers, 0, build.matched)) {
      chosen = &row;
      break;
    }
  }
  if (!chosen) {
    std::string known;
    for (const CompiledRow &row : *rows) {
      known += fmt::format("{}`{}`", known.empty() ? "" : ", ", row.row->pattern);
    }
    build.refuse(fmt::format("modifiers out of {}, but got others", known));
  }
  const Row &row = *chosen->row;
  if (row.sm > target.sm) {
    build.refuse(fmt::format("sm_{} or newer, but got sm_{}", row.sm, target.sm));
  }
  if (row.ptx > module.versionMajor * 10 + module.versionMinor) {
    build.refuse(fmt::format(".version {}.{} or newer, but got {}.{}", row.ptx / 10, row.ptx % 10, module.versionMajor,
                             module.versionMinor));
  }
  inst.kind = row.kind;
  if (source.guard >= 0) {
    inst.guard = registerPlace(source.guard);
    inst.guardNegated = source.guardNegated;
  }
  row.build(build, row);
  build.finish();
  emit(inst, source, function);
  for (const Inst &more : build.after) {
    emit(more, source, function);
  }
}

void DecoderImpl::emit(Inst inst, const Instruction &source, const Function &function) {
  inst.index = uint32_t(program.code.size());
  program.code.push_back(inst);
  program.source.push_back({&source, &function});
}

Place DecoderImpl::constant(uint64_t value, unsigned bytes) {
  const auto key = std::make_pair(value, bytes);
  if (auto found = constants.find(key); found != constants.end()) {
    return found->second;
  }
  const size_t size = bytes == 0 ? 4 : bytes * laneCount;
  const size_t at = (program.constants.size() + 63) / 64 * 64;
  program.constants.resize(at + size);
  if (bytes == 0) {
    const uint32_t mask = value ? allLanes : 0;
    std::memcpy(program.constants.data() + at, &mask, 4);
  }
  for (unsigned lane = 0; bytes != 0 && lane < laneCount; ++lane) {
    std::memcpy(program.constants.data() + at + lane * bytes, &value, std::min(bytes, 8u));
  }
  const Place place = constantBit | Place(at);
  constants.emplace(key, place);
  return place;
}

Place DecoderImpl::specialPlace(Special special) {
  for (auto [known, place] : program.specials) {
    if (known == special) {
      return place;
    }
  }
  const Place place = takeRegisters(4 * laneCount, 64);
  program.specials.emplace_back(special, place);
  return place;
}

Place DecoderImpl::takeRegisters(uint32_t bytes, uint32_t align) {
  const uint32_t at = (program.registerBytes + align - 1) / align * align;
  if (at > (1u << 28)) {
    fail(FaultKind::Unsupported, "{}: expects less than 256 MiB of registers for a warp of {}", module.name,
         program.name);
  }
  program.registerBytes = at + bytes;
  return at;
}

const std::pair<std::string_view, Special> *DecoderImpl::findSpecial(std::string_view name) {
  static constexpr std::pair<std::string_view, Special> table[] = {{"%tid.x", Special::TidX},
                                                                   {"%tid.y", Special::TidY},
                                                                   {"%tid.z", Special::TidZ},
                                                                   {"%ntid.x", Special::NtidX},
                                                                   {"%ntid.y", Special::NtidY},
                                                                   {"%ntid.z", Special::NtidZ},
                                                                   {"%ctaid.x", Special::CtaidX},
                                                                   {"%ctaid.y", Special::CtaidY},
                                                                   {"%ctaid.z", Special::CtaidZ},
                                                                   {"%nctaid.x", Special::NctaidX},
                                                                   {"%nctaid.y", Special::NctaidY},
                                                                   {"%nctaid.z", Special::NctaidZ},
                                                                   {"%laneid", Special::LaneId},
                                                                   {"%warpid", Special::WarpId},
                                                                   {"%nwarpid", Special::NwarpId},
                                                                   {"%smid", Special::SmId},
                                                                   {"%nsmid", Special::NsmId},
                                                                   {"%gridid", Special::GridId},
                                                                   {"%lanemask_eq", Special::LanemaskEq},
                                                                   {"%lanemask_lt", Special::LanemaskLt},
                                                                   {"%lanemask_le", Special::LanemaskLe},
                                                                   {"%lanemask_gt", Special::LanemaskGt},
                                                                   {"%lanemask_ge", Special::LanemaskGe},
                                                                   {"%clusterid.x", Special::ClusterIdX},
                                                                   {"%clusterid.y", Special::ClusterIdY},
                                                                   {"%clusterid.z", Special::ClusterIdZ},
                                                                   {"%nclusterid.x", Special::NclusterIdX},
                                                                   {"%nclusterid.y", Special::NclusterIdY},
                                                                   {"%nclusterid.z", Special::NclusterIdZ},
                                                                   {"%cluster_ctaid.x", Special::ClusterCtaidX},
                                                                   {"%cluster_ctaid.y", Special::ClusterCtaidY},
                                                                   {"%cluster_ctaid.z", Special::ClusterCtaidZ},
                                                                   {"%cluster_nctaid.x", Special::ClusterNctaidX},
                                                                   {"%cluster_nctaid.y", Special::ClusterNctaidY},
                                                                   {"%cluster_nctaid.z", Special::ClusterNctaidZ},
                                                                   {"%cluster_ctarank", Special::ClusterCtaRank},
                                                                   {"%cluster_nctarank", Special::ClusterNctaRank},
                                                                   {"%is_explicit_cluster", Special::IsExplicitCluster},
                                                                   {"%dynamic_smem_size", Special::DynamicSmemSize},
                                                                   {"%total_smem_size", Special::TotalSmemSize},
                                                                   {"WARP_SZ", Special::WarpSize}};
  for (const auto &entry : table) {
    if (entry.first == name) {
      return &entry;
    }
  }
  return nullptr;
}

uint64_t DecoderImpl::addressOf(const Variable &variable) {
  if (auto found = variables.find(&variable); found != variables.end()) {
    return found->second;
  }
  if (auto found = moduleAddresses.find(&variable); found != moduleAddresses.end()) {
    return found->second;
  }
  if (auto found = kernelParameters.find(&variable); found != kernelParameters.end()) {
    return found->second;
  }
  uint64_t address = 0;
  switch (variable.space) {
  case Space::Shared:
    if (variable.bytes == 0) {
      // All of these share the memory behind the static variables, whose size is known at the end.
      dynamicAlign = std::max(dynamicAlign, variable.align);
      return dynamicMarker;
    }
    address = reservedShared + program.staticShared;
    address = (address + variable.align - 1) / variable.align * variable.align;
    if (address + variable.bytes > (1u << clusterRankShift)) {
      fail(FaultKind::Unsupported, "{}: expects static shared memory below 16 MiB, but got {} bytes for {}",
           module.name, variable.bytes, variable.name);
    }
    program.staticShared = uint32_t(address + variable.bytes - reservedShared);
    break;
  case Space::Local:
    address = (std::max(program.localBytes, reservedLocal) + variable.align - 1) / variable.align * variable.align;
    if (address + variable.bytes > (1u << 20)) {
      fail(FaultKind::Unsupported, "{}: expects less than 1 MiB of local memory, but got {} bytes for {}", module.name,
           variable.bytes, variable.name);
    }
    program.localBytes = uint32_t(address + variable.bytes);
    break;
  default:
    fail(FaultKind::Syntax, "{}:{}: expects a variable of this module, but {} is defined elsewhere", module.name,
         current ? current->line : variable.line, variable.name);
  }
  variables.emplace(&variable, address);
  return address;
}

void DecoderImpl::layoutKernelParameters(const Function &kernel) {
  for (const Variable *variable : kernel.params) {
    const auto at = uint32_t((program.parameterBytes + variable->align - 1) / variable->align * variable->align);
    program.parameters.push_back({variable->name, at, uint32_t(variable->bytes), variable->type, variable->isArray});
    program.parameterBytes = at + uint32_t(variable->bytes);
    if (program.parameterBytes > 32764) {
      fail(FaultKind::Unsupported, "{}: expects at most 32764 bytes of parameters, but got more at {}", module.name,
           variable->name);
    }
    kernelParameters.emplace(variable, at);
  }
}

void DecoderImpl::decodeFunction(const Function &function) {
  if (!function.hasBody) {
    fail(FaultKind::Unsupported, "{}:{}: expects the body of {}, but got a declaration{}", module.name, function.line,
         function.name, function.name == "vprintf" ? " (printf needs the driver's function)" : "");
  }
  if (std::find(callStack.begin(), callStack.end(), &function) != callStack.end()) {
    fail(FaultKind::Unsupported, "{}:{}: expects no recursion, but {} calls itself", module.name, function.line,
         function.name);
  }
  if (entryOf.count(&function)) {
    return;
  }
  callStack.push_back(&function);
  // Callees first: calls then know their entry.
  for (const Instruction &instruction : function.body) {
    if (instruction.opcode == "call") {
      for (const Operand &operand : instruction.operands) {
        if (operand.kind == Operand::Kind::Function) {
          const Function *callee = module.find(operand.text);
          if (!callee || !isFailingAssertion(*callee)) {
            decodeFunction(callee ? *callee : function);
          }
        }
      }
    }
  }
  // Registers of the function: every function has its own, since there is no recursion.
  registerBase.clear();
  registerBase.reserve(function.registers.size());
  for (const Register &reg : function.registers) {
    const uint32_t bytes = reg.type == Type::Pred ? 4 : std::max(2u, bytesOf(reg.type)) * laneCount;
    registerBase.push_back(takeRegisters(bytes, reg.type == Type::Pred ? 4 : 64));
  }
  registerTypes = &function;
  entryOf[&function] = int32_t(program.code.size());
  std::vector<int32_t> position;
  const size_t begin = program.code.size();
  for (const Instruction &instruction : function.body) {
    position.push_back(int32_t(program.code.size()));
    decodeInstruction(function, instruction);
  }
  // Falling off the end returns.
  position.push_back(int32_t(program.code.size()));
  Inst end;
  end.flow = function.isEntry ? Flow::Exit : Flow::Return;
  end.kind = Class::Control;
  static const Instruction implicit{-1, false, "ret", {}, {}, 0, {}, "ret"};
  emit(end, implicit, function);
  for (size_t i = begin; i < program.code.size(); ++i) {
    Inst &inst = program.code[i];
    if (inst.flow == Flow::Branch) {
      inst.target = position[function.labels[inst.target]];
    } else if (inst.flow == Flow::BranchIndexed) {
      auto &targets = branchTables[inst.target];
      for (Place &label : targets) {
        label = Place(position[function.labels[label]]);
      }
      inst.aux = program.operandLists.size();
      program.operandLists.push_back(targets);
    }
  }
  for (size_t i = 0; i < function.labels.size(); ++i) {
    program.labels[uint32_t(position[function.labels[i]])] = function.labelNames[i];
  }
  findMeetingPoints(program, int32_t(begin), int32_t(program.code.size()));
  callStack.pop_back();
}

std::unique_ptr<Program> DecoderImpl::run(const Function &kernel) {
  program.name = kernel.name;
  program.module = &module;
  program.kernel = &kernel;
  layoutKernelParameters(kernel);
  decodeFunction(kernel);
  program.dynamicSharedBase =
      uint32_t((reservedShared + program.staticShared + dynamicAlign - 1) / dynamicAlign * dynamicAlign);
  // Constants that stand for the start of dynamic shared memory are known now.
  for (auto [place, bytes, offset] : dynamicConstants) {
    const uint64_t value = program.dynamicSharedBase + offset;
    for (unsigned lane = 0; lane < laneCount; ++lane) {
      std::memcpy(program.constants.data() + (place & ~constantBit) + lane * bytes, &value, bytes);
    }
  }
  program.entry = entryOf.at(&kernel);
  program.alignConstants();
  return std::move(owned);
}

std::unique_ptr<Program> kvc::sim::ptx::decodeKernel(const Module &module, const Function &kernel,
                                                     const VariableAddresses &addresses, Target target) {
  return DecoderImpl(module, addresses, target).run(kernel);
}
