// What has no lowering to teams yet says so.
// RUN: kvc-opt %s --split-input-file --verify-diagnostics --kvc-pipeline="target=sm_80 stop-after=vector"

!int8 = !kvcache.cache<heads = 2, dim = 64, page = 16, k = int8, v = f16>
func.func @quantised(%q: tensor<?x8x64xf32>, %c: !int8, %b: !kvcache.batch) -> tensor<?x8x64xf32> {
  // expected-error @+1 {{'tile.operand' op of format int8 has no lowering to teams yet: expects f16 or bf16}}
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32} : (tensor<?x8x64xf32>, !int8, !kvcache.batch) -> tensor<?x8x64xf32>
  return %o : tensor<?x8x64xf32>
}

// -----

!odd = !kvcache.cache<heads = 2, dim = 40, page = 16, k = f16, v = f16>
func.func @channels(%q: tensor<?x8x40xf32>, %c: !odd, %b: !kvcache.batch) -> tensor<?x8x40xf32> {
  // expected-error @+1 {{of 40 channels has no lowering to teams yet: expects a multiple of 16}}
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32} : (tensor<?x8x40xf32>, !odd, !kvcache.batch) -> tensor<?x8x40xf32>
  return %o : tensor<?x8x40xf32>
}

// -----

!kv = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16>
func.func @selected(%q: tensor<?x8x64xf32>, %c: !kv, %b: !kvcache.batch, %s: !kvcache.selection<token>) -> tensor<?x8x64xf32> {
  // expected-error @+1 {{has no lowering to teams yet}}
  %o = kvcache.attention %q over %c at %b select %s {scale = 0.125 : f32} : (tensor<?x8x64xf32>, !kv, !kvcache.batch, !kvcache.selection<token>) -> tensor<?x8x64xf32>
  return %o : tensor<?x8x64xf32>
}

// -----

!wide = !kvcache.cache<heads = 1, dim = 576, v_dim = 512, page = 16, k = f16, v = f16>
func.func @wide(%q: tensor<?x8x576xf32>, %c: !wide, %b: !kvcache.batch) -> tensor<?x8x512xf32> {
  // expected-error @+1 {{has no lowering to teams yet: its accumulator and queries are 400 of 255 registers of a lane}}
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32} : (tensor<?x8x576xf32>, !wide, !kvcache.batch) -> tensor<?x8x512xf32>
  return %o : tensor<?x8x512xf32>
}

// -----

!turned = !kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, rope = #kvcache.rope<base = 10000.0 : f32, dims = 64, pairing = half>>
func.func @rotated_when_loaded(%q: tensor<?x8x64xf32>, %c: !turned, %b: !kvcache.batch) -> tensor<?x8x64xf32> {
  // expected-error @+1 {{of keys that are rotated when they are loaded has no lowering to teams yet}}
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32} : (tensor<?x8x64xf32>, !turned, !kvcache.batch) -> tensor<?x8x64xf32>
  return %o : tensor<?x8x64xf32>
}
