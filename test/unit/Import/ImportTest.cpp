//===- ImportTest.cpp - Tests of the GGUF importer ------------------------===//
//
// Imports small files that the test writes, right and wrong ones, and the real
// model.
//
//===----------------------------------------------------------------------===//
#include "SmallModel.h"
#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "kvc/Import/GGUF.h"
#include "kvc/InitAll.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Parser/Parser.h"
#include "support/Model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace mlir;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

using kvc::gguf::test::Builder;
using kvc::test::Model;

class Import : public ::testing::Test {
protected:
  Import() {
    DialectRegistry registry;
    kvc::registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
      llvm::raw_string_ostream(messages) << diagnostic << '\n';
      return success();
    });
  }

  OwningOpRef<ModuleOp> import(const Model &model, const kvc::GGUFImportOptions &options = {}) {
    bytes = model.bytes();
    messages.clear();
    auto file = kvc::gguf::File::parse(kvc::gguf::test::asBytes(bytes), "small.gguf");
    EXPECT_TRUE(file.ok()) << file.message();
    return kvc::importGGUF(*file, &context, options);
  }

  /// The import fails, and the diagnostic holds that text.
  void expectError(const Model &model, const std::string &text, const kvc::GGUFImportOptions &options = {}) {
    EXPECT_FALSE(import(model, options)) << "expected an error with: " << text;
    EXPECT_THAT(messages, HasSubstr(text));
  }

  static std::string print(ModuleOp module) {
    std::string text;
    llvm::raw_string_ostream(text) << module;
    return text;
  }

  MLIRContext context;
  std::string bytes, messages;
};

TEST_F(Import, HasThreeEntryFunctions) {
  auto module = import({});
  ASSERT_TRUE(module) << messages;
  std::string cache = "!kvcache.cache<heads = 2, dim = 8, page = 16, k = f16, v = f16>";
  for (auto [name, inputs] : {std::pair("prefill", 5), std::pair("decode", 4), std::pair("logits", 4)}) {
    auto function = module->lookupSymbol<func::FuncOp>(name);
    ASSERT_TRUE(function) << name;
    EXPECT_TRUE(function.isPublic());
    EXPECT_EQ(int(function.getNumArguments()), inputs) << name;
    ASSERT_EQ(function.getNumResults(), 3u);
    EXPECT_EQ(cast<RankedTensorType>(function.getResultTypes()[0]).getShape(),
              ArrayRef<int64_t>({ShapedType::kDynamic, 5}));
    EXPECT_EQ(function.getResultTypes()[2], parseType(cache, &context));
    int sites = 0;
    function.walk([&](kvc::kvcache::AttendOp site) {
      EXPECT_EQ(int(site.getLayer()), sites++);
      EXPECT_EQ(site.getPhase(), StringRef(name) == "decode" ? "decode" : "prefill");
      EXPECT_EQ(site.getRope()->getBase().getValueAsDouble(), 50000.0);
      EXPECT_EQ(site.getRope()->getPairing(), kvc::kvcache::Pairing::AdjacentToHalf);
    });
    EXPECT_EQ(sites, 2) << name;
  }
  auto model = (*module)->getAttrOfType<DictionaryAttr>("kvc.model");
  ASSERT_TRUE(model);
  EXPECT_EQ(cast<IntegerAttr>(model.get("kv_heads")).getInt(), 2);
  EXPECT_EQ(cast<IntegerAttr>(model.get("vocabulary")).getInt(), 5);
}

TEST_F(Import, PrintsAndParsesBack) {
  auto module = import({});
  ASSERT_TRUE(module) << messages;
  std::string text = print(*module);
  EXPECT_THAT(text,
              HasSubstr("kvcache.weight \"blk.1.attn_q.weight\" : tensor<32x32xf32, #kvcache.encoded<\"q4_1\">>"));
  EXPECT_THAT(text, HasSubstr("kvcache.weight \"blk.0.attn_norm.weight\" : tensor<32xf32>"));
  EXPECT_THAT(text, HasSubstr("call @linear_32x64_q4_1"));
  EXPECT_THAT(text, HasSubstr("call @rms_norm_32"));
  auto again = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(again) << messages;
  EXPECT_EQ(print(*again), text);
}

TEST_F(Import, OwnOutputMatrixAndCacheType) {
  Model model;
  model.untied = true;
  auto module = import(model, {.cache = "page = 32, k = int4<axis = channel>, v = int4<group = 8>, residual = 128"});
  ASSERT_TRUE(module) << messages;
  std::string text = print(*module);
  EXPECT_THAT(text, HasSubstr("kvcache.weight \"output.weight\" : tensor<5x32xf32>"));
  EXPECT_THAT(text, HasSubstr("k = int4<axis = channel>"));
}

TEST_F(Import, KeysWiderThanValues) {
  Model model;
  model.keyDim = 16;
  auto module = import(model);
  ASSERT_TRUE(module) << messages;
  std::string text = print(*module);
  EXPECT_THAT(text, HasSubstr("heads = 2, dim = 16, v_dim = 8,"));
  EXPECT_THAT(text, HasSubstr("dims = 16, pairing = adjacent_to_half"));
  EXPECT_THAT(text, HasSubstr("scale = 2.500000e-01 : f32"));
}

TEST_F(Import, NamesWhatItDoesNotUnderstand) {
  auto with = [](auto change) {
    Model model;
    change(model);
    return model;
  };
  auto key = [](auto value, const char *name) {
    Model model;
    model.more = [=](Builder &b) { b.key(name, value); };
    return model;
  };
  expectError(with([](Model &m) { m.architecture = "gemma3"; }), "but got 'gemma3'");
  expectError(with([](Model &m) { m.without = "blk.1.ffn_up.weight"; }), "'blk.1.ffn_up.weight', but it is absent");
  expectError(with([](Model &m) { m.without = "token_embd.weight"; }), "'token_embd.weight'");
  expectError(with([](Model &m) { m.layers = 1; }), "but got 'blk.1.");
  expectError(with([](Model &m) { m.layers = 3; }), "'blk.2.attn_norm.weight', but it is absent");
  expectError(with([](Model &m) { m.layers = 1u << 27; }), "'blk.2.attn_norm.weight', but it is absent");
  expectError(with([](Model &m) { m.layers = 0; }), "'llama.block_count', but got 0");
  expectError(with([](Model &m) { m.kvHeads = 3; }), "multiple of the 3 key/value heads");
  expectError(with([](Model &m) { m.heads = m.kvHeads = 5; }), "multiple of the 5 heads");
  expectError(with([](Model &m) { m.queryRows = 31; }), "shape 32x32 (rows x columns) for tensor "
                                                        "'blk.0.attn_q.weight', but got 31x32");
  expectError(with([](Model &m) {
                m.more = [](Builder &b) {
                  b.tensor("blk.0.attn_q.bias", {32}, kvc::test::f32Id, std::string(128, '\0'));
                };
              }),
              "'blk.0.attn_q.bias'");
  expectError(key("yarn", "llama.rope.scaling.type"), "'llama.rope.scaling.type'");
  expectError(key(4.0f, "llama.rope.scaling.factor"), "'llama.rope.scaling.factor'");
  expectError(key(uint32_t(8), "llama.expert_count"), "'llama.expert_count'");
  expectError(key(uint32_t(7), "llama.vocab_size"), "'llama.vocab_size' to be the 5 rows");
  expectError(key(uint32_t(3), "llama.rope.dimension_count"), "even number of at most 8");
  EXPECT_TRUE(import(key("none", "llama.rope.scaling.type"))) << messages;
  EXPECT_TRUE(import(key(1.0f, "llama.rope.scale_linear"))) << messages;
  expectError({}, "expects a storage format", {.cache = "page = 16, k = f17, v = f16"});
}

TEST_F(Import, NamesTensorTypes) {
  Builder b;
  b.key("general.architecture", "llama");
  for (const char *key : {"llama.block_count", "llama.attention.head_count", "llama.context_length"}) {
    b.key(key, uint32_t(1));
  }
  b.key("llama.embedding_length", uint32_t(256));
  b.key("llama.feed_forward_length", uint32_t(256));
  b.key("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  b.tensor("token_embd.weight", {256, 1}, kvc::test::iq4_xsId, std::string(136, '\0'));
  bytes = b.finish();
  auto file = kvc::gguf::File::parse(kvc::gguf::test::asBytes(bytes), "small.gguf");
  ASSERT_TRUE(file.ok()) << file.message();
  EXPECT_FALSE(kvc::importGGUF(*file, &context));
  EXPECT_THAT(messages, HasSubstr("for tensor 'token_embd.weight', but got IQ4_XS"));
}

TEST_F(Import, MissingFile) {
  EXPECT_FALSE(kvc::importGGUF("/nonexistent/model.gguf", &context));
  EXPECT_THAT(messages, HasSubstr("/nonexistent/model.gguf"));
}

TEST_F(Import, TheRealModel) {
  std::string path = kvc::test::smollm2Path();
  if (path.empty()) {
    GTEST_SKIP() << "no model: run utils/setup or set KVC_SMOLLM2_GGUF";
  }
  auto module = kvc::importGGUF(path, &context);
  ASSERT_TRUE(module) << messages;
  int sites = 0, products = 0;
  module->walk([&](kvc::kvcache::AttendOp) { ++sites; });
  module->walk([&](linalg::MatmulOp) { ++products; });
  EXPECT_EQ(sites, 3 * 30);
  EXPECT_EQ(products, 5); // one for each shape and encoding: 576x576, 576x192, 576x1536, 1536x576, 576x49152
}

} // namespace
