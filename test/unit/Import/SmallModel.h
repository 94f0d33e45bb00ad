//===- SmallModel.h - A Llama model of a few kilobytes ----------*- C++ -*-===//
//
// Writes the GGUF file of a small model, right or wrong on purpose.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TEST_UNIT_IMPORT_SMALLMODEL_H
#define KVC_TEST_UNIT_IMPORT_SMALLMODEL_H

#include "gguf/Builder.h"

#include <functional>
#include <string>
#include <vector>

namespace kvc::test {

constexpr uint32_t f32Id = 0, q4_1Id = 3, q8_0Id = 8, iq4_xsId = 23;

/// A model of two layers: width 32, 4 heads and 2 KV heads of 8 channels, FFN 64, vocabulary 5.
struct Model {
  std::string architecture = "llama";
  uint32_t layers = 2, heads = 4, kvHeads = 2;
  bool untied = false;
  uint32_t embeddingType = q8_0Id;
  std::string without;                                         ///< a tensor to leave out
  std::function<std::string(const gguf::BlockFormat &)> block; ///< bytes of a block; absent: zeros
  std::function<void(gguf::test::Builder &)> more;             ///< further keys and tensors
  uint64_t keyDim = 8;                                         ///< channels of a query or key head
  uint64_t queryRows = 0;                                      ///< 0: as they should be

  std::string bytes() const {
    gguf::test::Builder b;
    b.key("general.architecture", architecture.c_str());
    b.key("llama.block_count", layers);
    b.key("llama.embedding_length", uint32_t(32));
    b.key("llama.feed_forward_length", uint32_t(64));
    b.key("llama.attention.head_count", heads);
    b.key("llama.attention.head_count_kv", kvHeads);
    b.key("llama.context_length", uint32_t(128));
    b.key("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    b.key("llama.rope.freq_base", 50000.0f);
    if (keyDim != 8) {
      b.key("llama.attention.key_length", uint32_t(keyDim));
    }
    if (more) {
      more(b);
    }
    auto tensor = [&](const std::string &name, const std::vector<uint64_t> &dims, uint32_t type) {
      if (name == without) {
        return;
      }
      const gguf::BlockFormat &format = *gguf::findBlockFormat(type);
      uint64_t values = dims.size() == 1 ? dims[0] : dims[0] * dims[1];
      uint64_t blocks = (values + format.valuesPerBlock - 1) / format.valuesPerBlock;
      std::string data;
      for (uint64_t i = 0; i < blocks; ++i) {
        data += block ? block(format) : std::string(format.bytesPerBlock, '\0');
      }
      b.tensor(name, dims, type, data);
    };
    tensor("token_embd.weight", {32, 5}, embeddingType);
    tensor("output_norm.weight", {32}, f32Id);
    if (untied) {
      tensor("output.weight", {32, 5}, f32Id);
    }
    for (int i = 0; i < 2; ++i) {
      std::string prefix = "blk." + std::to_string(i) + ".";
      tensor(prefix + "attn_norm.weight", {32}, f32Id);
      tensor(prefix + "attn_q.weight", {32, queryRows ? queryRows : 4 * keyDim}, q4_1Id);
      tensor(prefix + "attn_k.weight", {32, 2 * keyDim}, q4_1Id);
      tensor(prefix + "attn_v.weight", {32, 16}, q8_0Id);
      tensor(prefix + "attn_output.weight", {32, 32}, q4_1Id);
      tensor(prefix + "ffn_norm.weight", {32}, f32Id);
      tensor(prefix + "ffn_gate.weight", {32, 64}, q4_1Id);
      tensor(prefix + "ffn_up.weight", {32, 64}, q4_1Id);
      tensor(prefix + "ffn_down.weight", {64, 32}, q4_1Id);
    }
    return b.finish();
  }
};

} // namespace kvc::test

#endif // KVC_TEST_UNIT_IMPORT_SMALLMODEL_H
