//===- VerifyTest.cpp - Tests of the semantic verifier --------------------===//
//
// Each rule of the schema: a module that breaks it is refused with its place.
//
//===----------------------------------------------------------------------===//
#include "support/TestModule.h"

#include <array>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

namespace kvc::artifact {
namespace {

using ::testing::HasSubstr;
using namespace fb;

class Verify : public ::testing::Test {
protected:
  ModuleT module = test::testModule();

  FunctionT &function(const std::string &name) {
    for (auto &function : module.plans[0]->functions) {
      if (function->name == name) {
        return *function;
      }
    }
    throw std::runtime_error("no function " + name);
  }
  TensorT &tensor(FunctionT &function, size_t value) { return *function.values[value]->type.AsTensor(); }
  DispatchT &dispatch(FunctionT &function, size_t step) { return *function.steps[step]->action.AsDispatch(); }
  int32_t add(FunctionT &function, ExprOp op, int32_t a = 0, int32_t b = 0, int64_t value = 0) {
    function.exprs.emplace_back(op, a, b, value);
    return int32_t(function.exprs.size() - 1);
  }
  void refuse(const std::string &text) {
    Result<std::vector<uint8_t>> result = seal(test::pack(module));
    ASSERT_FALSE(result.ok()) << "expected an error with: " << text;
    EXPECT_EQ(result.status().code(), StatusCode::corrupt);
    EXPECT_THAT(result.message(), HasSubstr(text));
  }
  void accept() {
    Result<std::vector<uint8_t>> result = seal(test::pack(module));
    EXPECT_TRUE(result.ok()) << result.message();
  }
};

TEST_F(Verify, TheTestModuleIsGood) { accept(); }

TEST_F(Verify, Targets) {
  module.targets.clear();
  refuse("at least one target");
}
TEST_F(Verify, Boxes) {
  std::vector<BoxMap> &boxes = module.targets[1]->kernels[0]->boxes;
  auto map = [](uint64_t offset, uint64_t stride, uint32_t extent, uint32_t size, uint32_t swizzle) {
    const std::array<uint64_t, 4> strides{stride, stride, stride, stride};
    const std::array<uint32_t, 4> extents{extent, extent, extent, extent};
    const std::array<uint32_t, 5> box{swizzle / 2, size, size, size, size};
    return BoxMap(offset, strides, extents, box, /*word=*/0, swizzle);
  };
  boxes = {map(16, 64, 8, 256, 128)};
  accept();
  for (const BoxMap &bad : {map(8, 64, 8, 8, 128), map(16, 24, 8, 8, 128), map(16, uint64_t(1) << 40, 8, 8, 128),
                            map(16, 0, 8, 8, 128), map(16, 64, 0, 8, 128), map(16, 64, 8, 0, 128),
                            map(16, 64, 8, 257, 128), map(16, 64, 8, 8, 16), map(16, 64, 8, 8, 256)}) {
    boxes = {bad};
    refuse("expects boxes of 1 to 256 elements in rows of a panel");
  }
  const std::array<uint64_t, 4> strides{64, 64, 64, 64};
  const std::array<uint32_t, 4> extents{8, 8, 8, 8};
  const std::array<uint32_t, 5> wide{64, 8, 8, 8, 8};
  boxes = {BoxMap(0, strides, extents, wide, /*word=*/0, /*swizzle=*/64)};
  refuse("but got others for map 0");
  boxes.clear();
  module.targets[0]->kernels[0]->boxes = {map(16, 64, 8, 8, 128)};
  refuse("for GPUs only, but got 1 for a CPU");
}
TEST_F(Verify, TargetNames) {
  module.targets[0]->name = "";
  refuse("target name");
}
TEST_F(Verify, TargetPlan) {
  module.targets[0]->plan = 1;
  refuse("one of 1 plans, but got 1");
}
TEST_F(Verify, TargetLayouts) {
  module.targets[0]->layouts.pop_back();
  refuse("a layout for each of 3 caches, but got 2");
}
TEST_F(Verify, KernelIndex) {
  dispatch(function("scale"), 0).kernel = 1000;
  refuse("function 'scale': step 0: expects one of 11 kernels, but got 1000");
}
TEST_F(Verify, KernelNames) {
  module.targets[0]->kernels[0]->name = std::string("a\0b", 3);
  refuse("kernel name");
}
TEST_F(Verify, KernelScratch) {
  module.targets[0]->kernels[0]->scratch_bytes = std::numeric_limits<uint64_t>::max();
  refuse("bytes of scratch");
}
TEST_F(Verify, PageBytes) {
  for (uint64_t bytes : {uint64_t(0), uint64_t(63), uint64_t(1) << 60}) {
    module.targets[0]->layouts[0]->page_bytes = bytes;
    refuse("multiple of 64");
  }
}
TEST_F(Verify, Payload) {
  for (double payload : {-1.0, 65.0, double(NAN), double(INFINITY)}) {
    module.targets[0]->layouts[0]->page_payload_bytes = payload;
    refuse("page payload");
  }
}
TEST_F(Verify, Tails) {
  module.targets[0]->layouts[1]->tail_bytes = 0;
  refuse("tail_bytes for tail_slots = 8");
}
TEST_F(Verify, TailsOfCachesWithoutOne) {
  module.targets[0]->layouts[0]->tail_bytes = 64;
  refuse("tail_bytes for tail_slots = 0");
}
TEST_F(Verify, TailPayload) {
  module.targets[0]->layouts[1]->tail_slot_payload_bytes = 17;
  refuse("tail slots that fit");
}
TEST_F(Verify, CacheHeads) {
  module.caches[0]->kv_heads = 0;
  refuse("KV heads");
}
TEST_F(Verify, CacheTables) {
  module.caches[0]->tables_per_sequence = 3;
  refuse("1 or 2 tables");
}
TEST_F(Verify, CachePageSlots) {
  module.caches[0]->page_slots = 257;
  refuse("1 to 256 slots");
}
TEST_F(Verify, CacheResidual) {
  module.caches[1]->residual = 9;
  refuse("at most tail_slots");
}
TEST_F(Verify, CacheNames) {
  module.caches[1]->name = "plain";
  refuse("caches of different names");
}
TEST_F(Verify, TruncateFunction) {
  module.caches[1]->truncate_function = "nothing";
  refuse("expects a function 'nothing'");
}
TEST_F(Verify, FunctionNames) {
  function("scale").name = "chain";
  refuse("functions of different names");
}
TEST_F(Verify, CacheValue) {
  function("append").values[0]->type.AsCache()->spec = 3;
  refuse("function 'append': value 0: expects one of 3 cache specs, but got 3");
}
TEST_F(Verify, ScalarType) {
  function("scale").values[1]->type.AsScalar()->dtype = DType::f64;
  refuse("scalar of type i32, i64 or f32, but got f64");
}
TEST_F(Verify, ComputedFloat) {
  function("scale").values[1]->type.AsScalar()->expr = 0;
  refuse("value 1: expects an integer for a computed scalar");
}
TEST_F(Verify, ElementType) {
  tensor(function("scale"), 0).dtype = DType(99);
  refuse("element type, but got 99");
}
TEST_F(Verify, Rank) {
  tensor(function("scale"), 0).dims.assign(17, Dim(1, -1));
  refuse("at most 16 dimensions");
}
TEST_F(Verify, NegativeSize) {
  tensor(function("scale"), 0).dims[0] = Dim(-2, -1);
  refuse("a size or -1 for dimension 0, but got -2");
}
TEST_F(Verify, BufferWithoutSize) {
  tensor(function("scale"), 2).dims[0] = Dim(-1, -1);
  refuse("value 2: expects one of");
}
TEST_F(Verify, BufferSizeOutOfRange) {
  tensor(function("scale"), 2).dims[0] = Dim(-1, 1000);
  refuse("but got 1000");
}
TEST_F(Verify, HugeStaticTensor) {
  tensor(function("scale"), 2).dims.assign(3, Dim(int64_t(1) << 40, -1));
  refuse("a tensor of at most");
}
TEST_F(Verify, SelfReferringSize) {
  FunctionT &f = function("scale");
  f.exprs[0] = Expr(ExprOp::dim, 2, 0, 0);
  tensor(f, 2).dims[0] = Dim(-1, 0);
  refuse("expression 0: expects operands among the 0 earlier expressions, but got 0");
}
TEST_F(Verify, ForwardExpression) {
  FunctionT &f = function("scale");
  int32_t node = add(f, ExprOp::add, 0, int32_t(f.exprs.size()));
  refuse("expression " + std::to_string(node));
}
TEST_F(Verify, DeepExpression) {
  FunctionT &f = function("scale");
  int32_t node = 0;
  for (int i = 0; i < 1001; ++i) {
    node = add(f, ExprOp::add, node, node);
  }
  refuse("a nesting of at most 1000");
}
TEST_F(Verify, ExpressionKinds) {
  size_t size = function("scale").exprs.size();
  auto bad = [&](ExprOp op, int32_t a, int32_t b, const char *text) {
    FunctionT &f = function("append");
    f.exprs.emplace_back(op, a, b, 0);
    refuse(text);
    f.exprs.pop_back();
  };
  bad(ExprOp::dim, 0, 0, "a tensor value and one of its axes, but got value 0");
  bad(ExprOp::dim, 2, 2, "axis 2");
  bad(ExprOp::dim, 2, -1, "axis -1");
  bad(ExprOp::dim, -1, 0, "value -1");
  bad(ExprOp::scalar, 2, 0, "integer scalar value");
  bad(ExprOp::element, 2, 0, "i32 or i64 tensor");
  bad(ExprOp::rows, 0, 0, "a batch value");
  bad(ExprOp::entries, 99, 0, "a batch value");
  bad(ExprOp::max_rows, 2, 0, "a batch value");
  bad(ExprOp::single_rows, 2, 0, "a batch value");
  bad(ExprOp::tables, 1, 0, "a cache value");
  bad(ExprOp::max_pages, 2, 0, "a cache value");
  bad(ExprOp::max_length, 0, 0, "a cache and a batch value");
  bad(ExprOp(77), 0, 0, "a known operation, but got 77");
  EXPECT_EQ(function("scale").exprs.size(), size);
}
TEST_F(Verify, ConstantIndex) {
  tensor(function("add_constant"), 1).constant = 5;
  refuse("one of 1 constants, but got 5");
}
TEST_F(Verify, ConstantSize) {
  tensor(function("add_constant"), 1).dims[0] = Dim(5, -1);
  refuse("static shape of 16 bytes");
}
TEST_F(Verify, WeightSize) {
  tensor(function("add_weight"), 1).weight_bytes = 8;
  refuse("static shape of 8 bytes");
}
TEST_F(Verify, WeightName) {
  tensor(function("add_weight"), 1).weight = "";
  refuse("weight name");
}
TEST_F(Verify, ViewBase) {
  FunctionT &f = function("chain");
  size_t view = f.values.size() - 1;
  tensor(f, view).base = int32_t(view);
  refuse("an earlier tensor value as the base");
}
TEST_F(Verify, PortValue) {
  function("scale").arguments[0]->value = 50;
  refuse("argument 0: expects one of 3 values");
}
TEST_F(Verify, PortOfABuffer) {
  function("scale").arguments[0]->value = 2;
  refuse("argument 0: expects a value of its own that the caller gives");
}
TEST_F(Verify, PortTwice) {
  function("scale").arguments[1]->value = 0;
  refuse("argument 1: expects a value of its own");
}
TEST_F(Verify, PortNameTwice) {
  function("scale").arguments[1]->name = "x";
  refuse("a name of its own");
}
TEST_F(Verify, ArgumentWithoutPort) {
  function("scale").arguments.pop_back();
  refuse("value 1: expects an argument that gives it");
}
TEST_F(Verify, CacheWithoutDefinition) {
  function("keep_old").steps.erase(function("keep_old").steps.begin());
  refuse("result 1: expects a cache that is defined");
}
TEST_F(Verify, OperandIndex) {
  dispatch(function("scale"), 0).operands[0] = 9;
  refuse("step 0: operand 0: expects one of 3 values, but got 9");
}
TEST_F(Verify, ItemsIndex) {
  dispatch(function("scale"), 0).items = -1;
  refuse("step 0: expects one of");
}
TEST_F(Verify, FreedTwice) {
  function("chain").steps[2]->free = {4};
  function("chain").steps[1]->free = {4};
  refuse("step 2");
}
TEST_F(Verify, UsedAfterFree) {
  FunctionT &f = function("chain");
  f.steps[0]->free = f.steps[1]->free;
  f.steps[1]->free.clear();
  refuse("step 1: operand 0: value 2 is used after it was freed");
}
TEST_F(Verify, ViewUsedAfterFree) {
  FunctionT &f = function("chain");
  f.steps[2]->free = {3};
  f.results.pop_back();
  refuse("result 1: value 5 is used after it was freed");
}
TEST_F(Verify, FreedArgument) {
  function("scale").steps[0]->free = {0};
  refuse("expects to free a buffer or a clone once, but got value 0");
}
TEST_F(Verify, FreedCacheArgument) {
  function("append").steps[1]->free = {0};
  refuse("expects to free a buffer or a clone once");
}
TEST_F(Verify, ReserveKinds) {
  ReserveT &reserve = *function("append").steps[0]->action.AsReserve();
  reserve.cache = 1;
  refuse("step 0: expects a cache that is defined");
  reserve.cache = 0;
  reserve.batch = 0;
  refuse("step 0: expects a batch, but got value 0");
  reserve.batch = 1;
  reserve.mode = ReserveMode(9);
  refuse("a known mode, but got 9");
}
TEST_F(Verify, ReserveLengths) {
  ReserveT &reserve = *function("append").steps[0]->action.AsReserve();
  reserve.mode = ReserveMode::lengths;
  refuse("expects lengths that are an i32 vector, an argument or a constant, but got value -1");
  reserve.lengths = 0;
  refuse("expects lengths that are an i32 vector, an argument or a constant, but got value 0");
}
TEST_F(Verify, CreateOntoAnArgument) {
  CreateT create;
  create.source = create.result = 0;
  create.batch = 1;
  function("append").steps[0]->action.Set(std::move(create));
  refuse("nothing else defines as the created one, but got value 0");
}
TEST_F(Verify, CloneOfAnotherSpec) {
  function("keep_old").values[1]->type.AsCache()->spec = 1;
  refuse("a clone with cache spec 0, but got 1");
}
TEST_F(Verify, CloneOntoAnArgument) {
  CloneT &clone = *function("keep_old").steps[0]->action.AsClone();
  clone.result = clone.source;
  refuse("nothing else defines");
}
TEST_F(Verify, ForkNodes) {
  function("fork").steps[0]->action.AsFork()->destination = 99;
  refuse("expects one of 2 expressions, but got 99");
}
TEST_F(Verify, Checks) {
  FunctionT &append = function("append");
  append.checks.push_back(std::make_unique<CheckT>());
  CheckT &check = *append.checks[0];
  check.left = check.right = add(append, ExprOp::constant);
  accept();
  check.step = 9;
  refuse("check 0: expects a step from 0 to 2, but got 9");
  check.step = 1;
  check.relation = Relation(9);
  refuse("a known relation, but got 9");
  check.relation = Relation::at_least;
  check.right = 99;
  refuse("but got 99");
  check.right = check.left;
  append.checks.push_back(std::make_unique<CheckT>(check));
  append.checks[1]->step = 0;
  refuse("check 1: expects a step from 1 to 2, but got 0");
}
TEST_F(Verify, BatchResult) {
  function("append").results[0]->value = 1;
  refuse("result 0: expects a tensor, a cache or a scalar");
}

} // namespace
} // namespace kvc::artifact
