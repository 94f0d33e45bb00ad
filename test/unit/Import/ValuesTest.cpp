//===- ValuesTest.cpp - What the imported graph computes ------------------===//
//
// A small model with random weights runs on the oracle; its logits must be
// those of a forward pass that is written out here.
//
//===----------------------------------------------------------------------===//
#include "SmallModel.h"
#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "kvc/Import/GGUF.h"
#include "kvc/InitAll.h"
#include "kvc/Reference/Reference.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace kvc;

namespace {

constexpr int layers = 2, width = 32, heads = 4, kvHeads = 2, dim = 8, ffn = 64, vocabulary = 5;
constexpr double ropeBase = 50000, epsilon = double(1e-5f);

using Vector = std::vector<double>;

/// The decoded rows of a tensor.
std::vector<Vector> decode(const gguf::File &file, const std::string &name) {
  const gguf::Tensor &t = *file.findTensor(name);
  std::vector<Vector> out;
  std::vector<float> row(t.columns());
  for (uint64_t i = 0; i < t.rows(); ++i) {
    EXPECT_TRUE(gguf::dequantizeRow(*t.format, t.data.subspan(i * t.rowSize(), t.rowSize()), row).ok());
    out.emplace_back(row.begin(), row.end());
  }
  return out;
}

//===----------------------------------------------------------------------===//
// The forward pass, one token at a time
//===----------------------------------------------------------------------===//

class Forward {
public:
  explicit Forward(const gguf::File &file) : file(file) {}

  /// The logits after one more token of the sequence.
  Vector next(int token) {
    Vector x = decode(file, "token_embd.weight")[token];
    for (int i = 0; i < layers; ++i) {
      auto weight = [&](const char *part) { return decode(file, "blk." + std::to_string(i) + "." + part + ".weight"); };
      Vector h = norm(x, weight("attn_norm")[0]);
      Vector q = rotate(multiply(weight("attn_q"), h)), k = rotate(multiply(weight("attn_k"), h));
      keys[i].push_back(k);
      values[i].push_back(multiply(weight("attn_v"), h));
      add(x, multiply(weight("attn_output"), attend(q, keys[i], values[i])));
      h = norm(x, weight("ffn_norm")[0]);
      Vector gate = multiply(weight("ffn_gate"), h), up = multiply(weight("ffn_up"), h);
      for (int j = 0; j < ffn; ++j) {
        gate[j] *= up[j] / (1 + std::exp(-gate[j]));
      }
      add(x, multiply(weight("ffn_down"), gate));
    }
    ++position;
    return multiply(decode(file, "token_embd.weight"), norm(x, decode(file, "output_norm.weight")[0]));
  }

private:
  static Vector multiply(const std::vector<Vector> &rows, const Vector &x) {
    Vector y;
    for (const Vector &row : rows) {
      y.push_back(0);
      for (size_t j = 0; j < x.size(); ++j) {
        y.back() += row[j] * x[j];
      }
    }
    return y;
  }
  static void add(Vector &x, const Vector &y) {
    for (size_t j = 0; j < x.size(); ++j) {
      x[j] += y[j];
    }
  }
  static Vector norm(const Vector &x, const Vector &scale) {
    double squares = 0;
    for (double value : x) {
      squares += value * value;
    }
    Vector y = x;
    for (int j = 0; j < width; ++j) {
      y[j] *= scale[j] / std::sqrt(squares / width + epsilon);
    }
    return y;
  }
  Vector rotate(Vector x) const {
    for (size_t j = 0; j < x.size(); j += 2) {
      double angle = position * std::pow(ropeBase, -double(j % dim) / dim);
      double a = x[j], b = x[j + 1];
      x[j] = a * std::cos(angle) - b * std::sin(angle);
      x[j + 1] = a * std::sin(angle) + b * std::cos(angle);
    }
    return x;
  }
  static Vector attend(const Vector &q, const std::vector<Vector> &keys, const std::vector<Vector> &values) {
    Vector out(heads * dim, 0.0);
    for (int h = 0; h < heads; ++h) {
      int shared = h / (heads / kvHeads) * dim;
      double total = 0;
      for (size_t t = 0; t < keys.size(); ++t) {
        double score = 0;
        for (int j = 0; j < dim; ++j) {
          score += q[h * dim + j] * keys[t][shared + j];
        }
        double p = std::exp(score / std::sqrt(double(dim)));
        total += p;
        for (int j = 0; j < dim; ++j) {
          out[h * dim + j] += p * values[t][shared + j];
        }
      }
      for (int j = 0; j < dim; ++j) {
        out[h * dim + j] /= total;
      }
    }
    return out;
  }

  const gguf::File &file;
  std::vector<Vector> keys[layers], values[layers];
  int position = 0;
};

//===----------------------------------------------------------------------===//
// The graph
//===----------------------------------------------------------------------===//

/// Makes plain attention of every site: append, then attend to everything.
void spliceDense(ModuleOp module) {
  SmallVector<kvcache::AttendOp> sites;
  module.walk([&](kvcache::AttendOp site) { sites.push_back(site); });
  for (kvcache::AttendOp site : sites) {
    OpBuilder b(site);
    Location loc = site.getLoc();
    kvcache::RopeAttr rope = site.getRopeAttr();
    Value query = kvcache::RopeOp::create(b, loc, site.getQuery().getType(), site.getQuery(), site.getBatch(), rope);
    Value cache = kvcache::AppendOp::create(b, loc, site.getCache().getType(), site.getCache(), site.getKey(),
                                            site.getValue(), site.getBatch(), rope);
    auto attention = kvcache::AttentionOp::create(
        b, loc, TypeRange(site.getOut().getType()), query, ValueRange(cache), site.getBatch(), ValueRange(), Value(),
        Value(), ValueRange(), site.getScaleAttr(), b.getUnitAttr(), Attribute(), Attribute(), DenseI64ArrayAttr(),
        ArrayAttr(), kvcache::StatAttr(), Attribute(), Attribute(), Attribute(), Attribute());
    site.replaceAllUsesWith(ValueRange{attention.getResults()[0], cache});
    site.erase();
  }
}

/// A block of random, moderate values.
std::string randomBlock(const gguf::BlockFormat &format, std::mt19937 &random) {
  std::string bytes;
  auto number = [&](double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); };
  if (format.name == "F32") {
    gguf::test::Builder::put(bytes, float(number(0.5, 1.5)));
    return bytes;
  }
  // Half-precision scales from 2^-6 to 2^-4, then for Q4_1 a negative minimum.
  gguf::test::Builder::put(bytes, uint16_t(0x2400 + random() % 0x800));
  if (format.name == "Q4_1") {
    gguf::test::Builder::put(bytes, uint16_t(0xa400 + random() % 0x1000));
  }
  while (bytes.size() < format.bytesPerBlock) {
    bytes += char(random());
  }
  return bytes;
}

TEST(ImportValues, MatchAWrittenOutForwardPass) {
  std::mt19937 random(11);
  test::Model model;
  model.block = [&](const gguf::BlockFormat &format) { return randomBlock(format, random); };
  std::string bytes = model.bytes();
  Result<gguf::File> file = gguf::File::parse(gguf::test::asBytes(bytes), "small.gguf");
  ASSERT_TRUE(file.ok()) << file.message();

  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  auto module = importGGUF(*file, &context, {.cache = "page = 16, k = f32, v = f32"});
  ASSERT_TRUE(module);
  spliceDense(*module);

  reference::Options options;
  options.weights = [&](kvcache::WeightOp op) -> FailureOr<reference::Tensor> {
    std::vector<double> flat;
    for (const Vector &row : decode(*file, op.getName().str())) {
      flat.insert(flat.end(), row.begin(), row.end());
    }
    return reference::Tensor::ofFloats(cast<RankedTensorType>(op.getType()).getShape(), std::move(flat));
  };
  auto cacheType = cast<kvcache::CacheType>(module->lookupSymbol<func::FuncOp>("decode").getArgumentTypes()[2]);
  reference::Datum empty(reference::Cache::empty(cacheType, 2, 64));
  auto ints = [](std::vector<int64_t> values) {
    return reference::Datum(reference::Tensor::ofInts({int64_t(values.size())}, values));
  };
  auto run = [&](StringRef entry, std::vector<reference::Datum> inputs) {
    FailureOr<SmallVector<reference::Datum>> results = reference::run(*module, entry, inputs, options);
    EXPECT_TRUE(succeeded(results)) << entry.str();
    return failed(results) ? SmallVector<reference::Datum>() : *results;
  };
  auto expectRow = [](const reference::Datum &logits, int64_t row, const Vector &want) {
    double largest = 0;
    for (int j = 0; j < vocabulary; ++j) {
      largest = std::max(largest, std::abs(want[j]));
      EXPECT_NEAR(logits.asTensor().at({row, j}), want[j], 1e-4 * (1 + std::abs(want[j]))) << "row " << row;
    }
    EXPECT_GT(largest, 1e-3); // a graph of zeros would show nothing
  };

  // Two sequences of 3 and 2 tokens, then one more token each.
  reference::Batch batch{{0, 3, 5}, {0, 1}, {0, 1, 2, 0, 1}};
  reference::Datum tokens = ints({1, 4, 2, 3, 3});
  Forward first(*file), second(*file);
  std::vector<Vector> want = {first.next(1), first.next(4), first.next(2), second.next(3), second.next(3)};

  auto all = run("logits", {tokens, batch, empty, empty});
  ASSERT_EQ(all.size(), 3u);
  for (int64_t row = 0; row < 5; ++row) {
    expectRow(all[0], row, want[row]);
  }
  auto last = run("prefill", {tokens, ints({2, 4}), batch, empty, empty});
  ASSERT_EQ(last.size(), 3u);
  expectRow(last[0], 0, want[2]);
  expectRow(last[0], 1, want[4]);
  auto step = run("decode", {ints({0, 1}), reference::Batch{{0, 1, 2}, {0, 1}, {3, 2}}, last[1], last[2]});
  ASSERT_EQ(step.size(), 3u);
  expectRow(step[0], 0, first.next(0));
  expectRow(step[0], 1, second.next(1));

  // Ids outside the vocabulary are clamped to it.
  auto clamped = run("decode", {ints({-7, 99}), reference::Batch{{0, 1, 2}, {0, 1}, {0, 0}}, empty, empty});
  ASSERT_EQ(clamped.size(), 3u);
  expectRow(clamped[0], 0, Forward(*file).next(0));
  expectRow(clamped[0], 1, Forward(*file).next(vocabulary - 1));
}

} // namespace
