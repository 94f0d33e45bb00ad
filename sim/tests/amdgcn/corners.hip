//===- corners.hip - Kernels of rarer instructions ------------------------===//
#include "device.h"

#define WALKS DEVICE
#include "../walk.h"

#define ATOMIC(op, to, value) __hip_atomic_fetch_##op(to, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define LDS_ATOMIC(op, to, value) __hip_atomic_fetch_##op(to, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP)

/// Running sums of a group, in LDS whose size the launch says: two buffers take turns.
KERNEL void scan_dynamic(const int *x, int *out, int n) {
  extern LDS int pool[];
  const int t = thread(), size = (int)__builtin_amdgcn_workgroup_size_x(), i = index();
  pool[t] = i < n ? x[i] : 0;
  barrier();
  int from = 0;
  for (int step = 1; step < size; step *= 2) {
    const int to = size - from;
    pool[to + t] = pool[from + t] + (t >= step ? pool[from + t - step] : 0);
    from = to;
    barrier();
  }
  if (i < n) {
    out[i] = pool[from + t];
  }
}

/// Atomics of 32 and 64 bits, of integers and floats, in global memory and LDS; the same in any order.
KERNEL void mixed_atomics(const int *x, double *sum, float *parts, long *most, ulong *product, uint *wrapped, int n) {
  LDS static ulong inner;
  LDS static float least;
  LDS static uint down;
  LDS static long bits;
  const int i = index();
  if (thread() == 0) {
    inner = 1;
    least = 1e30f;
    down = 7;
    bits = 0;
  }
  barrier();
  if (i < n) {
    const int v = x[i];
    ATOMIC(add, sum, v * 0.5);
    ATOMIC(add, parts, (float)(v & 7));
    ATOMIC(max, most, ((long)v << 33) - v);
    ATOMIC(min, most + 1, ((long)v << 20) + 1);
    ATOMIC(xor, (ulong *)most + 2, ((ulong)(uint)v << 32) * 3);
    __builtin_amdgcn_atomic_inc32(wrapped, 99u, __ATOMIC_RELAXED, "agent");
    LDS_ATOMIC(min, &least, v * 0.25f);
    LDS_ATOMIC(or, &bits, 1l << (v & 63));
    __builtin_amdgcn_atomic_dec32(&down, 7u, __ATOMIC_RELAXED, "workgroup");
    // A product of odd numbers by compare and swap.
    ulong old = 1;
    while (!__hip_atomic_compare_exchange_strong(&inner, &old, old * (2ul * (uint)v + 1), __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                                 __HIP_MEMORY_SCOPE_WORKGROUP)) {
    }
  }
  barrier();
  if (thread() == 0) {
    ulong old = __hip_atomic_load(product, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    while (!__hip_atomic_compare_exchange_strong(product, &old, old * inner, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                                 __HIP_MEMORY_SCOPE_AGENT)) {
    }
    parts[1 + group()] = least;
    wrapped[1 + group()] = down;
    ATOMIC(add, product + 1, (ulong)bits);
  }
}

/// Lanes that are left after some have returned exchange 64 bits; ranks and votes of parts of the wave.
KERNEL void wide_exchange(const long *x, long *out, int *ranks) {
  const int i = index(), wave = (int)__builtin_amdgcn_wavefrontsize(), lane = thread() % wave;
  if (lane % 7 == 5) {
    return;
  }
  const long v = x[i];
  auto from = [](long value, int source) {
    const int low = __builtin_amdgcn_ds_bpermute(4 * source, (int)value);
    const int high = __builtin_amdgcn_ds_bpermute(4 * source, (int)(value >> 32));
    return (long)(((ulong)(uint)high << 32) | (uint)low);
  };
  // From the first lane of each 8, and 7 further; those that have returned give zeros.
  out[4 * i] = from(v, lane & ~7);
  out[4 * i + 1] = from(v * 3, (lane + 7) % 28 + (lane & 32));
  // Lanes send to their mirror image in the half of 32; what nobody sends is zero.
  out[4 * i + 2] = __builtin_amdgcn_ds_permute(4 * ((lane & ~31) | (31 - (lane & 31))), (int)v);
  int mirrored = 0;
  if (lane & 2) {
    mirrored = __builtin_amdgcn_ds_swizzle((int)v, 0x041f);
  }
  out[4 * i + 3] = mirrored;
  const ulong votes = __builtin_amdgcn_ballot_w64(v % 2 == 0);
  const uint below = __builtin_amdgcn_mbcnt_hi((uint)(votes >> 32), __builtin_amdgcn_mbcnt_lo((uint)votes, 0));
  ranks[2 * i] = v % 2 == 0 ? (int)below : -1;
  // Each value of two bits has a turn: the first lane that has it says its low half.
  int first = 0;
  for (bool done = false; !done;) {
    const int turn = __builtin_amdgcn_readfirstlane((int)(v & 3));
    if ((int)(v & 3) == turn) {
      first = __builtin_amdgcn_readfirstlane((int)v);
      done = true;
    }
  }
  ranks[2 * i + 1] = first;
}

/// Deep divergence, with lanes and waves that leave before a barrier of the others.
KERNEL void walks(const unsigned char *program, const int *x, int *out, int *counts, int length) {
  LDS static int total;
  const int i = index();
  if (thread() == 0) {
    total = 0;
  }
  barrier();
  int steps = 0, value = x[i];
  if (value % 3) {
    value = walk(program, length, value, steps);
    if (value < 0 && value % 2 == 0) {
      value = walk(program + 3, length - 3, -value, steps) + 1;
    }
  } else if (value % 5 == 0) {
    value = walk(program + 1, length / 2, value, steps);
  }
  out[i] = value;
  if (steps == 0) {
    return;
  }
  LDS_ATOMIC(add, &total, steps);
  barrier();
  counts[group()] = total;
}

/// Products of bytes, nibbles and shorts, with and without limits; parts of words.
KERNEL void packed_integers(const uint *x, const uint *y, const int *z, int *o, int n) {
  const int i = index();
  if (i >= n) {
    return;
  }
  const uint a = x[i], b = y[i];
  const int c = z[i];
  int *to = o + 10 * i;
#if defined(__GFX9__)
  to[0] = __builtin_amdgcn_sdot4((int)a, (int)b, c, false);
  to[1] = __builtin_amdgcn_sdot4((int)a, (int)b, c, true);
  to[2] = __builtin_amdgcn_sdot8((int)a, (int)b, c, true);
#else
  to[0] = __builtin_amdgcn_sudot4(true, (int)a, true, (int)b, c, false);
  to[1] = __builtin_amdgcn_sudot4(true, (int)a, true, (int)b, c, true);
  to[2] = __builtin_amdgcn_sudot8(true, (int)a, true, (int)b, c, true);
#endif
  to[3] = (int)__builtin_amdgcn_udot4(a, b, (uint)c, true);
  to[4] = (int)__builtin_amdgcn_udot8(a, b, (uint)c, false);
  to[5] = (int)__builtin_amdgcn_sad_u8(a, b, (uint)c);
  to[6] = (int)__builtin_amdgcn_perm(a, b, (uint)c & 0x0c0f0b07u);
  to[7] = (int)__builtin_amdgcn_alignbyte(a, b, (uint)c);
  to[8] = (int)__builtin_amdgcn_ubfe(a, (uint)c & 31, 9) - __builtin_amdgcn_sbfe((int)b, 3, (uint)c & 31);
  to[9] = (int)__builtin_amdgcn_cvt_pk_u8_f32((float)c * 0.0000001f, 2, a);
}

/// Bytes and shorts at odd places: loads into halves of registers, stores of upper halves, LDS by bytes.
KERNEL void bytes_at_odd_places(const unsigned char *x, unsigned char *out, int n) {
  LDS static unsigned char pool[259];
  const int t = thread(), i = index();
  typedef unsigned short __attribute__((aligned(1), may_alias)) odd;
  typedef uint __attribute__((aligned(1), may_alias)) word;
  if (t < 3) {
    pool[256 + t] = 0;
  }
  pool[t] = i < n ? x[i] : 0;
  barrier();
  // Two shorts of LDS that overlap, one of them signed, in one word.
  const uint both = *(const odd *)(pool + t) | (uint)*(const odd *)(pool + t + 1) << 16;
  const int signs = (signed char)pool[t] * (short)*(const odd *)(pool + t + 1);
  barrier();
  if (2 * i + 1 < n) {
    *(odd *)(out + 1 + 10 * i) = (unsigned short)(both >> 16);
    out[3 + 10 * i] = (unsigned char)(both >> 16);
    *(word *)(out + 4 + 10 * i) = (uint)signs;
    *(odd *)(out + 8 + 10 * i) = *(const odd *)(x + 2 * i);
  }
}
