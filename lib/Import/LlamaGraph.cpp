//===- LlamaGraph.cpp - The graph of a Llama model ------------------------===//
//
// Three entry functions over the same layers; every repeated computation is a
// private function, so that the graph reads like the model's description.
//
//===----------------------------------------------------------------------===//
#include "Llama.h"

#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;

namespace kvc::import {

namespace {

constexpr int64_t dynamic = ShapedType::kDynamic;
constexpr auto parallel = utils::IteratorType::parallel;
constexpr auto reduction = utils::IteratorType::reduction;

/// An entry function. `phase` is that of its attention sites.
struct Entry {
  StringRef name;
  StringRef phase;
  bool selectsRows; ///< logits of the rows that an operand lists, not of all
};
constexpr Entry entries[] = {{"prefill", "prefill", true}, {"decode", "decode", false}, {"logits", "prefill", false}};

class GraphBuilder {
public:
  GraphBuilder(const gguf::File &file, const LlamaConfig &config, Location loc)
      : file(file), c(config), b(loc, loc.getContext()), f32(b.getF32Type()) {}

  OwningOpRef<ModuleOp> run(const GGUFImportOptions &options) {
    std::string valueDim = c.valueDim == c.keyDim ? "" : llvm::formatv("v_dim = {0}, ", c.valueDim).str();
    std::string cache =
        llvm::formatv("!kvcache.cache<heads = {0}, dim = {1}, {2}{3}>", c.kvHeads, c.keyDim, valueDim, options.cache);
    cacheType = parseType(cache, b.getContext());
    if (!cacheType) {
      return nullptr; // the parser has said why
    }
    OwningOpRef<ModuleOp> owner = ModuleOp::create(b, b.getLoc());
    module = *owner;
    module->setAttr("kvc.model", modelAttr());
    for (const Entry &entry : entries) {
      buildEntry(entry);
    }
    return owner;
  }

private:
  //===--------------------------------------------------------------------===//
  // Types and values
  //===--------------------------------------------------------------------===//

  RankedTensorType rows(ArrayRef<int64_t> shape) {
    SmallVector<int64_t> dims = {dynamic};
    dims.append(shape.begin(), shape.end());
    return RankedTensorType::get(dims, f32);
  }

  DictionaryAttr modelAttr() {
    auto i64 = [&](StringRef name, int64_t value) { return b.getNamedAttr(name, b.getI64IntegerAttr(value)); };
    auto f = [&](StringRef name, double value) { return b.getNamedAttr(name, b.getF32FloatAttr(float(value))); };
    return b.getDictionaryAttr(
        {b.getNamedAttr("architecture", b.getStringAttr("llama")), i64("layers", c.layers), i64("width", c.width),
         i64("ffn", c.ffn), i64("heads", c.heads), i64("kv_heads", c.kvHeads), i64("dim", c.keyDim),
         i64("v_dim", c.valueDim), i64("vocabulary", c.vocabulary), i64("context", c.context),
         f("norm_epsilon", c.normEpsilon), f("rope_base", c.ropeBase), i64("rope_dims", c.ropeDims)});
  }

  /// A tensor of the file, once in each function.
  Value weight(StringRef name) {
    Value &value = weights[name];
    if (!value) {
      const gguf::Tensor &t = *file.findTensor(std::string_view(name.data(), name.size()));
      SmallVector<int64_t> shape(llvm::reverse(t.dims));
      Attribute encoding;
      if (t.format->name != "F32") {
        encoding = kvcache::EncodedAttr::get(b.getContext(), StringRef(t.format->encoding));
      }
      value = kvcache::WeightOp::create(b, RankedTensorType::get(shape, f32, encoding), b.getStringAttr(name));
    }
    return value;
  }

  Value dim(Value tensor) { return tensor::DimOp::create(b, tensor, 0); }

  /// An uninitialised tensor with as many rows as `like`.
  Value empty(RankedTensorType type, Value like) { return tensor::EmptyOp::create(b, type, ValueRange{dim(like)}); }

  Value zeros(RankedTensorType type, Value like) {
    Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
    return linalg::FillOp::create(b, zero, empty(type, like)).getResult(0);
  }

  Value constant(OpBuilder &at, double value) {
    return arith::ConstantOp::create(at, b.getLoc(), at.getF32FloatAttr(float(value)));
  }

  AffineMap map(unsigned dims, ArrayRef<unsigned> results) {
    SmallVector<AffineExpr> exprs;
    for (unsigned result : results) {
      exprs.push_back(b.getAffineDimExpr(result));
    }
    return AffineMap::get(dims, 0, exprs, b.getContext());
  }

  using Body = function_ref<Value(ImplicitLocOpBuilder &, ValueRange)>;

  /// A linalg.generic of one result.
  Value generic(ValueRange inputs, Value output, ArrayRef<AffineMap> maps, ArrayRef<utils::IteratorType> iterators,
                Body body) {
    return linalg::GenericOp::create(b, output.getType(), inputs, output, maps, iterators,
                                     [&](OpBuilder &inner, Location loc, ValueRange args) {
                                       ImplicitLocOpBuilder at(loc, inner);
                                       linalg::YieldOp::create(at, body(at, args));
                                     })
        .getResult(0);
  }

  //===--------------------------------------------------------------------===//
  // Private functions
  //===--------------------------------------------------------------------===//

  /// Calls the private function of that name; `body` builds it on the first call.
  Value call(const std::string &name, Type result, ValueRange operands, function_ref<Value(ValueRange)> body) {
    if (!module.lookupSymbol(name)) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToEnd(module.getBody());
      auto function = func::FuncOp::create(b, name, b.getFunctionType(operands.getTypes(), result));
      function.setPrivate();
      b.setInsertionPointToStart(function.addEntryBlock());
      func::ReturnOp::create(b, body(function.getArguments()));
    }
    return func::CallOp::create(b, name, TypeRange(result), operands).getResult(0);
  }

  /// x[i, :] = table[tokens[i], :]. Ids are clamped to the table: kernels never read outside it.
  Value embed(Value tokens, Value table) {
    return call("embed", rows({c.width}), {tokens, table}, [&](ValueRange args) {
      AffineMap row = map(2, {0}), both = map(2, {0, 1});
      return generic(
          args[0], empty(rows({c.width}), args[0]), {row, both}, {parallel, parallel},
          [&](ImplicitLocOpBuilder &at, ValueRange elements) -> Value { return extractRow(at, args[1], elements[0]); });
    });
  }

  /// table[clamp(row, 0, rows - 1), column of the iteration]
  Value extractRow(ImplicitLocOpBuilder &at, Value table, Value row) {
    Value zero = arith::ConstantIndexOp::create(at, 0), one = arith::ConstantIndexOp::create(at, 1);
    Value index = arith::IndexCastOp::create(at, at.getIndexType(), row);
    Value last = arith::SubIOp::create(at, at.createOrFold<tensor::DimOp>(table, 0), one);
    Value clamped = arith::MinSIOp::create(at, arith::MaxSIOp::create(at, index, zero), last);
    Value column = linalg::IndexOp::create(at, 1);
    return tensor::ExtractOp::create(at, table, ValueRange{clamped, column});
  }

  /// y[i, :] = x[rows[i], :]. Clamped likewise.
  Value gatherRows(Value x, Value which) {
    return call("gather_rows", rows({c.width}), {x, which}, [&](ValueRange args) {
      AffineMap row = map(2, {0}), both = map(2, {0, 1});
      return generic(
          args[1], empty(rows({c.width}), args[1]), {row, both}, {parallel, parallel},
          [&](ImplicitLocOpBuilder &at, ValueRange elements) -> Value { return extractRow(at, args[0], elements[0]); });
    });
  }

  /// x / sqrt(mean(x^2) + epsilon) * scale
  Value rmsNorm(Value x, StringRef scale) {
    auto type = rows({c.width});
    return call(llvm::formatv("rms_norm_{0}", c.width), type, {x, weight(scale)}, [&](ValueRange args) {
      AffineMap both = map(2, {0, 1}), row = map(2, {0}), column = map(2, {1});
      Value sums = generic(args[0], zeros(rows({}), args[0]), {both, row}, {parallel, reduction},
                           [](ImplicitLocOpBuilder &at, ValueRange e) -> Value {
                             return arith::AddFOp::create(at, e[1], arith::MulFOp::create(at, e[0], e[0]));
                           });
      return generic({args[0], sums, args[1]}, empty(type, args[0]), {both, row, column, both}, {parallel, parallel},
                     [&](ImplicitLocOpBuilder &at, ValueRange e) -> Value {
                       Value mean = arith::DivFOp::create(at, e[1], constant(at, double(c.width)));
                       Value root =
                           math::RsqrtOp::create(at, arith::AddFOp::create(at, mean, constant(at, c.normEpsilon)));
                       return arith::MulFOp::create(at, arith::MulFOp::create(at, e[0], root), e[2]);
                     });
    });
  }

  /// x w^T; w is outputs x inputs.
  Value linear(Value x, StringRef name) {
    Value w = weight(name);
    auto weightType = cast<RankedTensorType>(w.getType());
    auto encoded = dyn_cast_or_null<kvcache::EncodedAttr>(weightType.getEncoding());
    int64_t outputs = weightType.getDimSize(0), inputs = weightType.getDimSize(1);
    std::string function =
        llvm::formatv("linear_{0}x{1}_{2}", inputs, outputs, encoded ? encoded.getName() : StringRef("f32"));
    return call(function, rows({outputs}), {x, w}, [&](ValueRange args) {
      return linalg::MatmulTransposeBOp::create(b, b.getLoc(), args, ValueRange{zeros(rows({outputs}), args[0])})
          .getResult(0);
    });
  }

  /// silu(gate) * up
  Value gated(Value gate, Value up) {
    auto type = rows({c.ffn});
    return call(llvm::formatv("silu_mul_{0}", c.ffn), type, {gate, up}, [&](ValueRange args) {
      AffineMap both = map(2, {0, 1});
      return generic(args, empty(type, args[0]), {both, both, both}, {parallel, parallel},
                     [&](ImplicitLocOpBuilder &at, ValueRange e) -> Value {
                       Value exp = math::ExpOp::create(at, arith::NegFOp::create(at, e[0]));
                       Value silu = arith::DivFOp::create(at, e[0], arith::AddFOp::create(at, exp, constant(at, 1)));
                       return arith::MulFOp::create(at, silu, e[1]);
                     });
    });
  }

  Value add(Value x, Value y) {
    auto type = rows({c.width});
    return call(llvm::formatv("add_{0}", c.width), type, {x, y}, [&](ValueRange args) {
      AffineMap both = map(2, {0, 1});
      return generic(
          args, empty(type, args[0]), {both, both, both}, {parallel, parallel},
          [](ImplicitLocOpBuilder &at, ValueRange e) -> Value { return arith::AddFOp::create(at, e[0], e[1]); });
    });
  }

  //===--------------------------------------------------------------------===//
  // Entry functions
  //===--------------------------------------------------------------------===//

  Value splitHeads(Value x, Value count, int64_t heads, int64_t channels) {
    SmallVector<OpFoldResult> shape = {count, b.getIndexAttr(heads), b.getIndexAttr(channels)};
    SmallVector<ReassociationIndices> groups = {{0}, {1, 2}};
    return tensor::ExpandShapeOp::create(b, rows({heads, channels}), x, groups, shape);
  }

  /// One layer: x and the cache after it.
  std::pair<Value, Value> layer(int64_t i, Value x, Value cache, Value batch, Value count, StringRef phase) {
    auto name = [&](StringRef part) { return layerTensor(i, part); };
    Value h = rmsNorm(x, name("attn_norm"));
    Value q = splitHeads(linear(h, name("attn_q")), count, c.heads, c.keyDim);
    Value k = splitHeads(linear(h, name("attn_k")), count, c.kvHeads, c.keyDim);
    Value v = splitHeads(linear(h, name("attn_v")), count, c.kvHeads, c.valueDim);
    // The converter permuted the rows of Q and K so that RoPE rotates neighbours; keys are stored in the model's own
    // order.
    auto rope = kvcache::RopeAttr::get(b.getContext(), b.getF32FloatAttr(float(c.ropeBase)), c.ropeDims,
                                       kvcache::Pairing::AdjacentToHalf);
    auto site = kvcache::AttendOp::create(b, rows({c.heads, c.valueDim}), cacheType, q, k, v, cache, batch,
                                          b.getI64IntegerAttr(i), b.getStringAttr(phase),
                                          b.getF32FloatAttr(float(1 / std::sqrt(double(c.keyDim)))), rope, Attribute());
    SmallVector<ReassociationIndices> groups = {{0}, {1, 2}};
    Value a = tensor::CollapseShapeOp::create(b, site.getOut(), groups);
    x = add(x, linear(a, name("attn_output")));
    h = rmsNorm(x, name("ffn_norm"));
    Value ffn = gated(linear(h, name("ffn_gate")), linear(h, name("ffn_up")));
    return {add(x, linear(ffn, name("ffn_down"))), site.getResult()};
  }

  void buildEntry(const Entry &entry) {
    auto ids = RankedTensorType::get({dynamic}, b.getI32Type());
    SmallVector<Type> inputs = {ids};
    if (entry.selectsRows) {
      inputs.push_back(ids);
    }
    inputs.push_back(kvcache::BatchType::get(b.getContext()));
    inputs.append(c.layers, cacheType);
    SmallVector<Type> results = {rows({c.vocabulary})};
    results.append(c.layers, cacheType);

    b.setInsertionPointToEnd(module.getBody());
    auto function = func::FuncOp::create(b, entry.name, b.getFunctionType(inputs, results));
    b.setInsertionPointToStart(function.addEntryBlock());
    weights.clear();

    ArrayRef<BlockArgument> arguments = function.getArguments();
    Value tokens = arguments.consume_front();
    Value which = entry.selectsRows ? Value(arguments.consume_front()) : Value();
    Value batch = arguments.consume_front();
    Value table = weight("token_embd.weight");
    Value x = embed(tokens, table);
    Value count = dim(tokens);
    SmallVector<Value> returned = {Value()};
    for (int64_t i = 0; i < c.layers; ++i) {
      auto [next, cache] = layer(i, x, arguments[i], batch, count, entry.phase);
      x = next;
      returned.push_back(cache);
    }
    if (which) {
      x = gatherRows(x, which);
    }
    x = rmsNorm(x, "output_norm.weight");
    returned[0] = linear(x, c.tiedOutput ? "token_embd.weight" : "output.weight");
    func::ReturnOp::create(b, returned);
  }

  const gguf::File &file;
  const LlamaConfig &c;
  ImplicitLocOpBuilder b;
  Type f32;
  Type cacheType;
  ModuleOp module;
  llvm::StringMap<Value> weights; ///< of the function that is being built
};

} // namespace

OwningOpRef<ModuleOp> buildLlamaGraph(const gguf::File &file, const LlamaConfig &config,
                                      const GGUFImportOptions &options, Location loc) {
  return GraphBuilder(file, config, loc).run(options);
}

} // namespace kvc::import
