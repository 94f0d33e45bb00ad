// What does not fit a team says so.
// RUN: kvc-opt %s --split-input-file --verify-diagnostics --kvc-pipeline="target=sm_86 stop-after=vector"

!wide = !kvcache.cache<heads = 1, dim = 576, v_dim = 512, page = 16, k = f32, v = f32>
func.func @wide(%q: tensor<?x8x576xf32>, %c: !wide, %b: !kvcache.batch) -> tensor<?x8x512xf32> {
  // expected-error @+1 {{expects a schedule of at most 101376 bytes of staging memory on sm_86, but got}}
  %o = kvcache.attention %q over %c at %b {scale = 0.125 : f32} : (tensor<?x8x576xf32>, !wide, !kvcache.batch) -> tensor<?x8x512xf32>
  return %o : tensor<?x8x512xf32>
}
