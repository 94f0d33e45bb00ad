// Types and attributes: how they print, and every constraint on them (the name of a function starts with its label).
// RUN: kvc-opt %s -split-input-file -verify-diagnostics | FileCheck %s

// The types of the module have names; each is printed once, before the functions.
// CHECK: !kv = !kvcache.cache<heads = 8, dim = 128, page = 16, k = f16, v = int8>
// CHECK: !kv1 = !kvcache.cache<heads = 3, dim = 64, page = 32, k = int2<axis = channel>, v = int2, residual = 128>
// CHECK: !kv2 = !kvcache.cache<heads = 8, dim = 128, page = 1, k = bf16, v = f32, positions = stored, window = 1024, sinks = 4>
// CHECK: !kv3 = !kvcache.cache<heads = 1, dim = 576, v_dim = 512, page = 64, k = bf16, v = alias<from = 64>>
// CHECK: !kv4 = !kvcache.cache<heads = 1, dim = 128, page = 16, k = int4<hadamard>, v = f16, planes = [minmax, mean]>
// CHECK: !kv5 = !kvcache.cache<heads = 1, dim = 2, page = 3, k = f16, v = f16>
// CHECK: #rope = #kvcache.rope<base = 5.000000e+05 : f32, dims = 64, pairing = adjacent>
// CHECK: #rope1 = #kvcache.rope<base = 1.000000e+04 : f32, dims = 64, pairing = half>
// CHECK: !kv6 = !kvcache.cache<heads = 1, dim = 576, v_dim = 512, page = 64, k = int4<group = 64, axis = channel, symmetric, scale = bf16>, v = int8<group = 128, scale = f32>, residual = 64, tail = bf16, positions = stored, tables = per_head, rope = #rope, planes = [minmax, score, norm]>

// Defaults are not printed.
// CHECK-LABEL: func private @defaults
// CHECK-SAME: (!kv)
func.func private @defaults(!kvcache.cache<heads = 8, dim = 128, v_dim = 128, page = 16, k = f16, v = int8<group = 32, axis = token, scale = f16>, residual = 0, tail = f16, positions = implicit, tables = per_sequence, window = 0, sinks = 0, planes = []>)

// CHECK-LABEL: func private @kivi
// CHECK-SAME: (!kv1)
func.func private @kivi(!kvcache.cache<heads = 3, dim = 64, page = 32, k = int2<axis = channel>, v = int2, residual = 128>)

// CHECK-LABEL: func private @everything
// CHECK-SAME: (!kv6)
func.func private @everything(!kvcache.cache<heads = 1, dim = 576, v_dim = 512, page = 64, k = int4<group = 64, axis = channel, symmetric, scale = bf16>, v = int8<scale = f32, group = 128>, residual = 64, tail = bf16, positions = stored, tables = per_head, rope = #kvcache.rope<base = 5.0e5 : f32, dims = 64, pairing = adjacent>, planes = [norm, minmax, score]>)

// CHECK-LABEL: func private @ring
// CHECK-SAME: (!kv2)
func.func private @ring(!kvcache.cache<heads = 8, dim = 128, page = 1, k = bf16, v = f32, positions = stored, window = 1024, sinks = 4>)

// CHECK-LABEL: func private @not_carried_out
// CHECK-SAME: (!kv3, !kv4)
func.func private @not_carried_out(!kvcache.cache<heads = 1, dim = 576, v_dim = 512, page = 64, k = bf16, v = alias<from = 64>>, !kvcache.cache<heads = 1, dim = 128, page = 16, k = int4<hadamard>, v = f16, planes = [mean, minmax]>)

// CHECK-LABEL: func private @others
// CHECK-SAME: (!kvcache.batch, !kvcache.selection<page>, !kvcache.selection<token>, !kvcache.site<q>, !kvcache.site<lse>, !kvcache.memory<!kv5>)
func.func private @others(!kvcache.batch, !kvcache.selection<page>, !kvcache.selection<token>, !kvcache.site<q>, !kvcache.site<lse>, !kvcache.memory<!kvcache.cache<heads = 1, dim = 2, page = 3, k = f16, v = f16>>)

// CHECK-LABEL: func private @attributes
// CHECK-SAME: a = #kvcache.format<int4<axis = channel>>, b = #rope1, c = #kvcache.param<"budget">, d = #kvcache.stat<max>
func.func private @attributes() attributes {a = #kvcache.format<int4<axis = channel>>, b = #kvcache.rope<base = 10000.0 : f32, dims = 64, pairing = half>, c = #kvcache.param<"budget">, d = #kvcache.stat<max>}

// The placeholder of a method.
// CHECK-LABEL: func private @rope_of_a_site
// CHECK-SAME: r = #kvcache.rope<site>
func.func private @rope_of_a_site() attributes {r = #kvcache.rope<site>}

// -----

// expected-error@+1 {{expects heads of 1 to 1024, but got 0}}
func.func private @cache_c1_heads(!kvcache.cache<dim = 64, page = 16, k = f16, v = f16>)

// -----

// expected-error@+1 {{expects dim of 1 to 1024, but got 0}}
func.func private @cache_c2_dim(!kvcache.cache<heads = 2, page = 16, k = f16, v = f16>)

// -----

// expected-error@+1 {{expects v_dim of 1 to 1024, but got -1}}
func.func private @cache_c2_v_dim(!kvcache.cache<heads = 2, dim = 64, v_dim = -1, page = 16, k = f16, v = f16>)

// -----

// expected-error@+1 {{expects a page of 1 to 256 slots, but got 257}}
func.func private @cache_c3_page(!kvcache.cache<heads = 2, dim = 64, page = 257, k = f16, v = f16>)

// -----

// expected-error@+1 {{expects storage formats for k and v, but got none for v}}
func.func private @cache_c4_format(!kvcache.cache<heads = 2, dim = 64, page = 16, k = f16>)

// -----

// expected-error@+1 {{expects the group of v to divide its 72 channels, but got 32}}
func.func private @cache_c5_group(!kvcache.cache<heads = 2, dim = 64, v_dim = 72, page = 16, k = f16, v = int4>)

// -----

// expected-error@+1 {{expects a page that is a multiple of the 32 tokens of a group of k, but got 16}}
func.func private @cache_c6_page(!kvcache.cache<heads = 2, dim = 64, page = 16, k = int4<axis = channel>, v = int4>)

// -----

// expected-error@+1 {{expects a residual of 0 to 65536 tokens, but got -1}}
func.func private @cache_c7_residual(!kvcache.cache<heads = 2, dim = 64, page = 16, k = int4, v = int4, residual = -1>)

// -----

// expected-error@+1 {{expects a tail of type f32, f16 or bf16, but got 'i8'}}
func.func private @cache_c8_tail(!kvcache.cache<heads = 2, dim = 64, page = 16, k = int4, v = int4, tail = i8>)

// -----

// expected-error@+1 {{expects window >= 0 and sinks >= 0, sinks only with a window, but got window 0 and sinks 4}}
func.func private @cache_c9_sinks(!kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, sinks = 4>)

// -----

// expected-error@+1 {{expects positions = stored of a ring, but got implicit positions}}
func.func private @cache_c10_positions(!kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, window = 64>)

// -----

// expected-error@+1 {{expects formats without a tail in a ring, but got a residual or per-channel groups}}
func.func private @cache_c11_ring(!kvcache.cache<heads = 2, dim = 64, page = 32, k = int4<axis = channel>, v = int4, positions = stored, window = 64>)

// -----

// expected-error@+1 {{expects rope of at most 64 dims, but got 128}}
func.func private @cache_c12_rope(!kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, rope = #kvcache.rope<base = 1.0e4 : f32, dims = 128, pairing = half>>)

// -----

// expected-error@+1 {{expects a rope with base and dims in a cache type, but got a method's placeholder}}
func.func private @cache_c12_rope_of_a_site(!kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, rope = #kvcache.rope<site>>)

// -----

// expected-error@+1 {{expects window and sinks that fit 32 bits, but got 2147483648 and 0}}
func.func private @cache_c13_window(!kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = stored, window = 2147483648>)

// -----

// expected-error-re@+1 {{expects a storage format (f32, f16, bf16, int8, {{.*}}), but got 'int5'}}
func.func private @format_c1_name(!kvcache.cache<heads = 2, dim = 64, page = 16, k = int5, v = f16>)

// -----

// expected-error@+1 {{expects a group of 1 to 1024 that is a multiple of 4 codes, but got 6}}
func.func private @format_c2_group(!kvcache.cache<heads = 2, dim = 64, page = 16, k = int2<group = 6>, v = f16>)

// -----

// expected-error@+1 {{expects a scale of type f32, f16 or bf16, but got 'f64'}}
func.func private @format_c3_scale(!kvcache.cache<heads = 2, dim = 64, page = 16, k = int4<scale = f64>, v = f16>)

// -----

// expected-error@+1 {{expects a finite rope base above 1, but got 1.000000e+00 : f32}}
func.func private @rope_attr_c1_base() attributes {r = #kvcache.rope<base = 1.0 : f32, dims = 64, pairing = half>}

// -----

// expected-error@+1 {{expects an even number of rope dims of at least 2, but got 0}}
func.func private @rope_attr_c2_dims() attributes {r = #kvcache.rope<base = 1.0e4 : f32, dims = 0, pairing = half>}

// -----

// expected-error@+1 {{expects the name of a parameter, but got an empty one}}
func.func private @param_c1_name() attributes {p = #kvcache.param<"">}

// -----

// expected-error@+1 {{expects an encoding f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k or q6_k, but got 'q9'}}
func.func private @encoded_c1_name() -> tensor<32xf32, #kvcache.encoded<"q9">>

// -----

// expected-error@+1 {{expects elements of type f32 with an encoding, but got 'f16'}}
func.func private @encoded_c2_element_type() -> tensor<32xf16, #kvcache.encoded<"q4_1">>

// -----

// expected-error@+1 {{expects a last dimension that is a multiple of the 256 elements of a block, but got 576}}
func.func private @encoded_c3_block() -> tensor<4x576xf32, #kvcache.encoded<"q4_k">>

// -----

// expected-error@+1 {{expects a field of a cache type, but got 'head'}}
func.func private @unknown_field(!kvcache.cache<head = 2, dim = 64, page = 16, k = f16, v = f16>)

// -----

// expected-error@+1 {{expects implicit or stored, but got 'explicit'}}
func.func private @unknown_positions(!kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, positions = explicit>)

// -----

// expected-error@+1 {{expects a plane minmax, mean, score or norm, but got 'median'}}
func.func private @unknown_plane(!kvcache.cache<heads = 2, dim = 64, page = 16, k = f16, v = f16, planes = [median]>)

// -----

// expected-error@+1 {{expects no parameters of format 'f16'}}
func.func private @parameters_of_a_plain_format(!kvcache.cache<heads = 2, dim = 64, page = 16, k = f16<group = 32>, v = f16>)

// -----

// expected-error@+1 {{expects group, axis, symmetric, scale or hadamard, but got 'bits'}}
func.func private @unknown_format_parameter(!kvcache.cache<heads = 2, dim = 64, page = 16, k = int4<bits = 3>, v = f16>)

// -----

// expected-error@+1 {{expects axis token or channel, but got 'head'}}
func.func private @unknown_axis(!kvcache.cache<heads = 2, dim = 64, page = 16, k = int4<axis = head>, v = f16>)

// -----

// expected-error@+1 {{expects an alias of 512 of the 576 channels of a key, but got those from 65}}
func.func private @cache_c14_alias(!kvcache.cache<heads = 1, dim = 576, v_dim = 512, page = 64, k = bf16, v = alias<from = 65>>)

// -----

// expected-error@+1 {{expects a power of two as the channels of k with hadamard, but got 96}}
func.func private @cache_c15_hadamard(!kvcache.cache<heads = 1, dim = 96, page = 64, k = int4<hadamard>, v = bf16>)
