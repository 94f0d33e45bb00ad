//===- Datum.cpp - Values of the reference oracle -------------------------===//
#include "kvc/Reference/Datum.h"

#include "llvm/ADT/STLExtras.h"
#include <cassert>

using namespace kvc::reference;

static int64_t product(llvm::ArrayRef<int64_t> shape) {
  int64_t size = 1;
  for (int64_t extent : shape) {
    size *= extent;
  }
  return size;
}

Tensor Tensor::ofFloats(llvm::ArrayRef<int64_t> shape, std::vector<double> values) {
  assert(product(shape) == static_cast<int64_t>(values.size()));
  Tensor tensor;
  tensor.shape.assign(shape.begin(), shape.end());
  tensor.floats = std::move(values);
  return tensor;
}

Tensor Tensor::ofInts(llvm::ArrayRef<int64_t> shape, std::vector<int64_t> values) {
  assert(product(shape) == static_cast<int64_t>(values.size()));
  Tensor tensor;
  tensor.shape.assign(shape.begin(), shape.end());
  tensor.isFloat = false;
  tensor.ints = std::move(values);
  return tensor;
}

Tensor Tensor::filled(llvm::ArrayRef<int64_t> shape, double value) {
  return ofFloats(shape, std::vector<double>(product(shape), value));
}

int64_t Tensor::offset(llvm::ArrayRef<int64_t> indices) const {
  int64_t offset = 0;
  for (auto [index, extent] : llvm::zip(indices, shape)) {
    assert(index >= 0 && index < extent);
    offset = offset * extent + index;
  }
  return offset;
}

Cache Cache::empty(kvcache::CacheType type, int64_t sequences, int64_t capacity) {
  Cache cache;
  cache.type = type;
  cache.capacity = capacity;
  cache.tables.resize(sequences * type.getTablesPerSequence());
  return cache;
}
