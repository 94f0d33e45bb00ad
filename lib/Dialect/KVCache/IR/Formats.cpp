//===- Formats.cpp - The table of storage formats -------------------------===//
//
// Adding a format: a row here, a page in docs/spec/formats.md, a case in the tests.
//
//===----------------------------------------------------------------------===//
#include "kvc/Dialect/KVCache/IR/KVCache.h"

using namespace kvc::kvcache;

static constexpr FormatRow formatTable[] = {
    // name    kind                        bits codes bytes
    {"f32", FormatRow::Kind::F32, 32, 1, 4},     {"f16", FormatRow::Kind::F16, 16, 1, 2},
    {"bf16", FormatRow::Kind::BF16, 16, 1, 2},   {"int8", FormatRow::Kind::Integer, 8, 1, 1},
    {"int4", FormatRow::Kind::Integer, 4, 2, 1}, {"int3", FormatRow::Kind::Integer, 3, 8, 3},
    {"int2", FormatRow::Kind::Integer, 2, 4, 1},
};

llvm::ArrayRef<FormatRow> kvc::kvcache::getFormatTable() { return formatTable; }

const FormatRow *kvc::kvcache::lookupFormat(llvm::StringRef name) {
  for (const FormatRow &row : formatTable) {
    if (row.name == name) {
      return &row;
    }
  }
  return nullptr;
}
