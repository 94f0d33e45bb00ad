//===- LinearTest.cpp - Linear layers against sums in double precision ----===//
//
// Every encoding x vector length x numbers of rows around the sizes where the kernel changes its way, with columns and
// K that fill no vector, tile, panel or block.
//
//===----------------------------------------------------------------------===//
#include "Harness.h"

#include "gguf/BlockFormats.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <random>

using namespace kvc;
using namespace kvc::test;

namespace {

std::string typeOf(const gguf::BlockFormat &format, int64_t columns, int64_t inner) {
  std::string shape = llvm::formatv("{0}x{1}xf32", columns, inner);
  return format.name == "F32" ? "tensor<" + shape + ">"
                              : "tensor<" + shape + ", #kvcache.encoded<\"" + std::string(format.encoding) + "\">>";
}

/// y = x w^T, or with a residual y = r + x w^T.
std::string linear(const gguf::BlockFormat &format, int64_t columns, int64_t inner, bool residual) {
  std::string x = llvm::formatv("tensor<?x{0}xf32>", inner), y = llvm::formatv("tensor<?x{0}xf32>", columns);
  std::string w = typeOf(format, columns, inner);
  std::string text = R"(
    #mk = affine_map<(m, n, k) -> (m, k)>
    #nk = affine_map<(m, n, k) -> (n, k)>
    #mn = affine_map<(m, n, k) -> (m, n)>
    #both = affine_map<(m, n) -> (m, n)>
    func.func @f(%x: X, %r: Y) -> Y {
      %w = kvcache.weight "w" : W
      %c0 = arith.constant 0 : index
      %zero = arith.constant 0.0 : f32
      %rows = tensor.dim %x, %c0 : X
      %e = tensor.empty(%rows) : Y
      %start = linalg.fill ins(%zero : f32) outs(%e : Y) -> Y
      %y = linalg.matmul indexing_maps = [#mk, #nk, #mn] ins(%x, %w : X, W) outs(%start : Y) -> Y
    )" + std::string(!residual ? "return %y : Y }" : R"(
      %z = linalg.generic {indexing_maps = [#both, #both, #both], iterator_types = ["parallel", "parallel"]}
          ins(%r, %y : Y, Y) outs(%e : Y) {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %s = arith.addf %a, %b : f32
        linalg.yield %s : f32
      } -> Y
      return %z : Y
    })");
  // Types stand for themselves after a space.
  auto replace = [&](std::string what, const std::string &with) {
    for (const char *behind : {",", ")", " "}) {
      for (size_t at = 0; (at = text.find(" " + what + behind, at)) != std::string::npos;) {
        text.replace(at + 1, what.size(), with);
      }
    }
    for (size_t at = 0; (at = text.find(" " + what + "\n", at)) != std::string::npos;) {
      text.replace(at + 1, what.size(), with);
    }
  };
  replace("X", x), replace("Y", y), replace("W", w);
  return text;
}

/// Blocks of random codes with scales of a sensible size.
std::vector<std::byte> randomBlocks(const gguf::BlockFormat &format, int64_t values, std::mt19937 &random) {
  std::vector<std::byte> bytes(size_t(values / format.valuesPerBlock * format.bytesPerBlock));
  std::uniform_real_distribution<float> small(-0.1f, 0.1f);
  auto put = [&](size_t at, auto value) { std::memcpy(&bytes[at], &value, sizeof(value)); };
  if (format.valuesPerBlock == 1) {
    for (size_t at = 0; at < bytes.size(); at += format.bytesPerBlock) {
      float value = small(random);
      if (format.name == "F32") {
        put(at, value);
      } else if (format.name == "F16") {
        put(at, toHalf(value));
      } else {
        put(at, uint16_t(std::bit_cast<uint32_t>(value) >> 16));
      }
    }
    return bytes;
  }
  for (std::byte &byte : bytes) {
    byte = std::byte(random());
  }
  static const llvm::StringSet<> withMin = {"Q4_1", "Q5_1", "Q4_K", "Q5_K"};
  for (size_t block = 0; block < bytes.size(); block += format.bytesPerBlock) {
    put(block + (format.name == "Q6_K" ? 208 : 0), toHalf(small(random)));
    if (withMin.contains(llvm::StringRef(format.name))) {
      put(block + 2, toHalf(small(random)));
    }
  }
  return bytes;
}

struct Case {
  const gguf::BlockFormat *format;
  llvm::StringLiteral target;
};

class LinearTest : public ::testing::TestWithParam<Case> {};

TEST_P(LinearTest, MatchesSumsInDouble) {
  const gguf::BlockFormat &format = *GetParam().format;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  // More columns than one item, a last strip that is not full; K of an odd number of blocks or of single values.
  int64_t columns = 77, inner = format.valuesPerBlock == 1 ? 53 : 3 * format.valuesPerBlock;
  int64_t items = 3;
  Kernel kernel(linear(format, columns, inner, /*residual=*/true), GetParam().target);
  ASSERT_TRUE(bool(kernel));
  std::vector<std::byte> weight = randomBlocks(format, columns * inner, random);
  std::vector<float> w(size_t(columns * inner));
  int64_t rowBytes = int64_t(weight.size()) / columns;
  ASSERT_TRUE(gguf::dequantizeRow(format, weight, w).ok());
  for (int64_t rows : {1, 2, 3, 4, 5, 17, 64, 130}) {
    std::vector<float> x(size_t(rows * inner)), r(size_t(rows * columns)), y(size_t(rows * columns), NAN);
    for (float &value : x) {
      value = normal(random);
    }
    for (float &value : r) {
      value = normal(random);
    }
    int64_t unit = format.name == "F32" ? 4 : 1;
    std::vector<Memref> arguments = {{x.data(), {rows, inner}},
                                     {weight.data(), {columns, rowBytes / unit}},
                                     {r.data(), {rows, columns}},
                                     {y.data(), {rows, columns}}};
    kernel(arguments, items * ((rows + 127) / 128));
    double worst = 0;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        double sum = r[i * columns + j], size = std::abs(sum);
        for (int64_t k = 0; k < inner; ++k) {
          double product = double(x[i * inner + k]) * double(w[j * inner + k]);
          sum += product;
          size += std::abs(product);
        }
        double error = std::abs(y[i * columns + j] - sum) / size;
        worst = std::isnan(error) ? INFINITY : std::max(worst, error);
      }
    }
    EXPECT_LT(worst, 2e-6) << rows << " rows";
  }
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const gguf::BlockFormat &format : gguf::blockFormats()) {
    for (llvm::StringLiteral target : targets) {
      if (format.decodeBlock) {
        out.push_back({&format, target});
      }
    }
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Encodings, LinearTest, ::testing::ValuesIn(cases()), [](const auto &info) {
  std::string name = std::string(info.param.format->name) + "_" + info.param.target.str();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

} // namespace
