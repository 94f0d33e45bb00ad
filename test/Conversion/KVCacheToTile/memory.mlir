// What bufferisation makes of caches is refused, not lowered as if it were a value.
// RUN: not kvc-opt %s --kvc-stop-after=llvm 2>&1 | FileCheck %s

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>

// CHECK: error: 'kvcache.append' op has no lowering yet for a cache in memory, as bufferisation makes it
func.func @append(%c: !kvcache.memory<!kv>, %k: memref<?x2x64xf32>, %batch: !kvcache.batch) -> !kvcache.memory<!kv> {
  %d = kvcache.append %c, %k, %k at %batch : !kvcache.memory<!kv>, memref<?x2x64xf32>, memref<?x2x64xf32>
  return %d : !kvcache.memory<!kv>
}
