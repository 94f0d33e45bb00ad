//===- LlamaConfig.cpp - Metadata and tensors of a Llama model ------------===//
//
// Everything in the file that could change what the model computes is either
// understood or an error: nothing is skipped.
//
//===----------------------------------------------------------------------===//
#include "Llama.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace kvc::import {

std::string layerTensor(int64_t layer, StringRef part) { return llvm::formatv("blk.{0}.{1}.weight", layer, part); }

namespace {

/// Larger sizes are not models but damage; products of two of them fit 64 bits.
constexpr int64_t maxSize = int64_t(1) << 28;

StringRef toRef(std::string_view text) { return {text.data(), text.size()}; }

class Reader {
public:
  Reader(const gguf::File &file, Location loc) : file(file), loc(loc) {}

  FailureOr<LlamaConfig> run() {
    LlamaConfig c;
    if (failed(sizes(c)) || failed(constants(c)) || failed(otherKeys()) || failed(tensors(c))) {
      return failure();
    }
    return c;
  }

private:
  InFlightDiagnostic error() { return emitError(loc); }

  bool has(StringRef key) const { return file.find(std::string_view("llama." + key.str())) != nullptr; }

  /// Reads an integer from 1 to maxSize; an absent key gives `fallback`, unless that is 0.
  LogicalResult size(StringRef name, int64_t &value, int64_t fallback = 0) {
    std::string key = "llama." + name.str();
    known.insert(key);
    if (!file.find(key) && fallback) {
      value = fallback;
      return success();
    }
    Result<uint64_t> number = file.getUnsigned(key);
    if (!number.ok()) {
      return error() << number.message();
    }
    if (*number < 1 || *number > uint64_t(maxSize)) {
      return error() << "expects 1 to " << maxSize << " for key '" << key << "', but got " << *number;
    }
    value = int64_t(*number);
    return success();
  }

  /// Reads a positive, finite number.
  LogicalResult positive(StringRef name, double &value, double fallback = 0) {
    std::string key = "llama." + name.str();
    known.insert(key);
    if (!file.find(key) && fallback != 0) {
      value = fallback;
      return success();
    }
    Result<double> number = file.getFloat(key);
    if (!number.ok()) {
      return error() << number.message();
    }
    if (!(*number > 0) || !std::isfinite(*number)) {
      return error() << "expects a positive number for key '" << key << "', but got " << *number;
    }
    value = *number;
    return success();
  }

  LogicalResult sizes(LlamaConfig &c) {
    if (failed(size("block_count", c.layers)) || failed(size("embedding_length", c.width)) ||
        failed(size("feed_forward_length", c.ffn)) || failed(size("attention.head_count", c.heads)) ||
        failed(size("attention.head_count_kv", c.kvHeads, c.heads)) || failed(size("context_length", c.context))) {
      return failure();
    }
    if (c.heads % c.kvHeads) {
      return error() << "expects a number of query heads that is a multiple of the " << c.kvHeads
                     << " key/value heads, but got " << c.heads;
    }
    int64_t headDim = c.width / c.heads;
    if (!has("attention.key_length") && c.width % c.heads) {
      return error() << "expects a width that is a multiple of the " << c.heads << " heads, but got " << c.width;
    }
    if (failed(size("attention.key_length", c.keyDim, headDim)) ||
        failed(size("attention.value_length", c.valueDim, headDim)) ||
        failed(size("rope.dimension_count", c.ropeDims, c.keyDim))) {
      return failure();
    }
    if (c.ropeDims > c.keyDim || c.ropeDims % 2) {
      return error() << "expects an even number of at most " << c.keyDim
                     << " for key 'llama.rope.dimension_count', but got " << c.ropeDims;
    }
    return success();
  }

  LogicalResult constants(LlamaConfig &c) {
    constexpr double defaultRopeBase = 10000;
    return success(succeeded(positive("attention.layer_norm_rms_epsilon", c.normEpsilon)) &&
                   succeeded(positive("rope.freq_base", c.ropeBase, defaultRopeBase)));
  }

  /// Keys that may be present when they say that a feature is off, and any other key of the architecture.
  LogicalResult otherKeys() {
    known.insert("llama.vocab_size"); // checked against the table of embeddings
    for (std::string_view view : file.keys()) {
      StringRef key = toRef(view);
      if (!key.starts_with("llama.") || known.contains(key)) {
        continue;
      }
      const gguf::Value &value = *file.find(view);
      bool off = false;
      if (key == "llama.rope.scaling.type" && value.type == gguf::ValueType::string) {
        off = value.strings.front() == "none";
      } else if (key == "llama.rope.scale_linear" || key == "llama.rope.scaling.factor") {
        Result<double> factor = file.getFloat(view);
        off = factor.ok() && *factor == 1;
      } else if (key == "llama.expert_count" || key == "llama.expert_used_count") {
        Result<uint64_t> count = file.getUnsigned(view);
        off = count.ok() && *count == 0;
      }
      if (!off) {
        return error() << "expects metadata of a dense Llama model without position scaling, but got the key '" << key
                       << "', which the importer does not understand";
      }
    }
    return success();
  }

  /// Checks the shape ({rows, columns}, or {columns} for a vector) and the type of a tensor.
  LogicalResult tensor(StringRef name, ArrayRef<int64_t> shape) {
    const gguf::Tensor *t = file.findTensor(std::string_view(name.data(), name.size()));
    if (!t) {
      return error() << "expects tensor '" << name << "', but it is absent";
    }
    used.insert(name);
    auto asShape = [](auto &os, ArrayRef<int64_t> dims) { llvm::interleave(dims, os, "x"); };
    SmallVector<int64_t> dims;
    for (uint64_t dim : llvm::reverse(t->dims)) {
      dims.push_back(int64_t(std::min<uint64_t>(dim, std::numeric_limits<int64_t>::max())));
    }
    if (ArrayRef<int64_t>(dims) != shape) {
      std::string want, got;
      llvm::raw_string_ostream wantStream(want), gotStream(got);
      asShape(wantStream, shape);
      asShape(gotStream, dims);
      return error() << "expects shape " << want << " (rows x columns) for tensor '" << name << "', but got " << got;
    }
    if (!t->format->decodeBlock) {
      return error() << "expects a tensor type that kvc can decode for tensor '" << name << "', but got "
                     << toRef(t->format->name);
    }
    if (shape.size() == 1 && t->format->name != "F32") {
      return error() << "expects type F32 for vector '" << name << "', but got " << toRef(t->format->name);
    }
    return success();
  }

  LogicalResult tensors(LlamaConfig &c) {
    StringRef table = "token_embd.weight";
    const gguf::Tensor *embedding = file.findTensor("token_embd.weight");
    if (!embedding || embedding->dims.size() != 2 || embedding->dims[1] > uint64_t(maxSize)) {
      return error() << "expects tensor '" << table << "' with 2 dimensions of at most " << maxSize << ", but it is "
                     << (embedding ? "different" : "absent");
    }
    c.vocabulary = int64_t(embedding->dims[1]);
    int64_t declared = 0;
    if (failed(size("vocab_size", declared, c.vocabulary))) {
      return failure();
    }
    if (declared != c.vocabulary) {
      return error() << "expects key 'llama.vocab_size' to be the " << c.vocabulary << " rows of '" << table
                     << "', but got " << declared;
    }
    c.tiedOutput = !file.findTensor("output.weight");
    if (failed(tensor(table, {c.vocabulary, c.width})) || failed(tensor("output_norm.weight", {c.width})) ||
        (!c.tiedOutput && failed(tensor("output.weight", {c.vocabulary, c.width})))) {
      return failure();
    }
    int64_t q = c.heads * c.keyDim, k = c.kvHeads * c.keyDim, v = c.kvHeads * c.valueDim, o = c.heads * c.valueDim;
    // The first tensor that is absent ends this, however many layers the metadata claim.
    for (int64_t i = 0; i < c.layers; ++i) {
      if (failed(tensor(layerTensor(i, "attn_norm"), {c.width})) ||
          failed(tensor(layerTensor(i, "attn_q"), {q, c.width})) ||
          failed(tensor(layerTensor(i, "attn_k"), {k, c.width})) ||
          failed(tensor(layerTensor(i, "attn_v"), {v, c.width})) ||
          failed(tensor(layerTensor(i, "attn_output"), {c.width, o})) ||
          failed(tensor(layerTensor(i, "ffn_norm"), {c.width})) ||
          failed(tensor(layerTensor(i, "ffn_gate"), {c.ffn, c.width})) ||
          failed(tensor(layerTensor(i, "ffn_up"), {c.ffn, c.width})) ||
          failed(tensor(layerTensor(i, "ffn_down"), {c.width, c.ffn}))) {
        return failure();
      }
    }
    for (const gguf::Tensor &t : file.tensors()) {
      if (!used.contains(toRef(t.name))) {
        return error() << "expects only the tensors of a dense Llama model without biases, but got '" << toRef(t.name)
                       << "'";
      }
    }
    return success();
  }

  const gguf::File &file;
  Location loc;
  llvm::StringSet<> known; ///< keys
  llvm::StringSet<> used;  ///< tensors
};

} // namespace

FailureOr<LlamaConfig> readLlamaConfig(const gguf::File &file, Location loc) { return Reader(file, loc).run(); }

} // namespace kvc::import
