/*===- kernels.c - Kernels that the tests of the runtime call -------------------------------------------------------===
 *
 * Written against docs/contracts/kernel-abi.md, as the compiler's are. Two cache formats: `plain` keeps four f32 per
 * slot; `sealed` keeps the newest slots as f32 in a tail and seals groups of four slots to one signed byte per value.
 * For GPUs the same functions become entries with a parameter for each word, run by one thread per item.
 *===----------------------------------------------------------------------------------------------------------------===*/
#include <stddef.h>
#include <stdint.h>

#define memcpy __builtin_memcpy

#if defined(__NVPTX__)
#define BLOCK_INDEX() __nvvm_read_ptx_sreg_ctaid_x()
#define TEAM
#elif defined(__AMDGCN__)
#define BLOCK_INDEX() __builtin_amdgcn_workgroup_id_x()
#define TEAM __attribute__((amdgpu_flat_work_group_size(1, 64)))
#endif
#ifdef BLOCK_INDEX
#define WORDS2(F) F(0), F(1)
#define WORDS3(F) WORDS2(F), F(2)
#define WORDS4(F) WORDS3(F), F(3)
#define WORDS19(F)                                                                                                     \
  WORDS4(F), F(4), F(5), F(6), F(7), F(8), F(9), F(10), F(11), F(12), F(13), F(14), F(15), F(16), F(17), F(18)
#define WORDS20(F) WORDS19(F), F(19)
#define WORDS21(F) WORDS20(F), F(20)
#define PARAMETER(i) uint64_t word##i
#define ARGUMENT(i) word##i
#define KERNEL(name, words)                                                                                            \
  static void name##_item(const uint64_t *slots, int64_t item, void *scratch);                                         \
  TEAM __attribute__((device_kernel)) void name(WORDS##words(PARAMETER)) {                                             \
    const uint64_t slots[] = {WORDS##words(ARGUMENT)};                                                                 \
    _Alignas(64) char scratch[4096];                                                                                   \
    name##_item(slots, BLOCK_INDEX(), scratch);                                                                        \
  }                                                                                                                    \
  static void name##_item(const uint64_t *slots, int64_t item, void *scratch)
#else
#define KERNEL(name, words) void name(const uint64_t *slots, int64_t item, void *scratch)
#endif

enum { width = 4, page_slots = 4, tail_slots = 8, seal_group = 4 };

struct cache {
  uint8_t *pages;
  int64_t pages_size;
  int32_t *table;
  int64_t tables, max_pages;
  int32_t *lengths;
  int64_t lengths_size;
  int32_t *sealed;
  int64_t sealed_size;
  uint8_t *tails;
  int64_t tails_size;
  int32_t *tail_table;
  int64_t tail_table_size;
};

struct batch {
  const int32_t *query_offsets;
  int64_t query_offsets_size;
  const int32_t *sequences;
  int64_t sequences_size;
  const int32_t *positions;
  int64_t positions_size;
};

static const uint64_t *take(void *to, const uint64_t *slots, size_t size) {
  memcpy(to, slots, size);
  return slots + size / sizeof(uint64_t);
}

static void *pointer(uint64_t word) { return (void *)(uintptr_t)word; }

/* (x: tensor<?xf32>, factor: f32, y: tensor<?xf32>), items of 64 elements */
KERNEL(scale, 4) {
  const float *x = pointer(slots[0]);
  int64_t n = (int64_t)slots[1];
  float factor;
  memcpy(&factor, &slots[2], sizeof(factor));
  float *y = pointer(slots[3]);
  for (int64_t i = item * 64; i < n && i < (item + 1) * 64; ++i) {
    y[i] = x[i] * factor;
  }
}

/* (x: tensor<4xf32>, y: tensor<4xf32>, z: tensor<4xf32>): z = x + y, through scratch of 4096 bytes; one item per
 * element */
KERNEL(add_scratch, 3) {
  const float *x = pointer(slots[0]), *y = pointer(slots[1]);
  float *z = pointer(slots[2]);
  float *work = scratch;
  for (int i = 0; i < 1024; ++i) {
    work[i] = x[item] / 1024;
  }
  float sum = (uintptr_t)scratch % 64 == 0 ? 0 : 1000;
  for (int i = 0; i < 1024; ++i) {
    sum += work[i];
  }
  z[item] = sum + y[item];
}

/* (i: i64, j: i32, f: f32, out: tensor<3xf64>), one item */
KERNEL(scalars, 4) {
  double *out = pointer(slots[3]);
  float f;
  memcpy(&f, &slots[2], sizeof(f));
  out[0] = (double)(int64_t)slots[0];
  out[1] = (double)(int64_t)slots[1];
  out[2] = f;
}

/* (x: tensor<?xf32>), one item: fails where the first element is negative */
KERNEL(trap_negative, 2) {
  const float *x = pointer(slots[0]);
  if (slots[1] > 0 && x[0] < 0) {
    __builtin_trap();
  }
}

/* (cache, batch, rows: tensor<?x4xf32>), one item per entry */
KERNEL(append_plain, 21) {
  struct cache c;
  struct batch b;
  slots = take(&b, take(&c, slots, sizeof(c)), sizeof(b));
  const float *rows = pointer(slots[0]);
  int32_t sequence = b.sequences[item];
  for (int32_t row = b.query_offsets[item]; row < b.query_offsets[item + 1]; ++row) {
    int64_t slot = c.lengths[sequence];
    int64_t page = c.table[sequence * c.max_pages + slot / page_slots];
    memcpy(c.pages + page * 64 + slot % page_slots * 16, rows + (int64_t)row * width, 16);
    c.lengths[sequence] = c.sealed[sequence] = (int32_t)slot + 1;
  }
}

static float plain_value(const struct cache *c, int32_t sequence, int64_t slot, int channel) {
  int64_t page = c->table[sequence * c->max_pages + slot / page_slots];
  float value;
  memcpy(&value, c->pages + page * 64 + slot % page_slots * 16 + channel * 4, sizeof(value));
  return value;
}

/* (cache, batch, out: tensor<?xf32>), one item per entry: the sum over all slots and channels */
KERNEL(sum_plain, 21) {
  struct cache c;
  struct batch b;
  slots = take(&b, take(&c, slots, sizeof(c)), sizeof(b));
  int32_t sequence = b.sequences[item];
  float sum = 0;
  for (int64_t slot = 0; slot < c.lengths[sequence]; ++slot) {
    for (int channel = 0; channel < width; ++channel) {
      sum += plain_value(&c, sequence, slot, channel);
    }
  }
  ((float *)pointer(slots[0]))[item] = sum;
}

/* (cache, batch, keep: i64), one item per entry: drops what lies behind `keep` slots */
KERNEL(keep_plain, 20) {
  struct cache c;
  struct batch b;
  slots = take(&b, take(&c, slots, sizeof(c)), sizeof(b));
  int32_t sequence = b.sequences[item];
  if (c.lengths[sequence] > (int64_t)slots[0]) {
    c.lengths[sequence] = c.sealed[sequence] = (int32_t)slots[0];
  }
}

/* (cache, batch), one item per entry: writes a length that no cache can have */
KERNEL(break_length, 19) {
  struct cache c;
  struct batch b;
  take(&b, take(&c, slots, sizeof(c)), sizeof(b));
  c.lengths[b.sequences[item]] = -7;
}

static float *tail_row(const struct cache *c, int32_t sequence, int64_t slot) {
  return (float *)(void *)(c->tails + (int64_t)c->tail_table[sequence] * (tail_slots * 16) + slot % tail_slots * 16);
}

static int8_t *sealed_row(const struct cache *c, int32_t sequence, int64_t slot) {
  int64_t page = c->table[sequence * c->max_pages + slot / page_slots];
  return (int8_t *)(c->pages + page * 64 + slot % page_slots * width);
}

/* (cache, batch, rows: tensor<?x4xf32>), one item per entry */
KERNEL(append_sealed, 21) {
  struct cache c;
  struct batch b;
  slots = take(&b, take(&c, slots, sizeof(c)), sizeof(b));
  const float *rows = pointer(slots[0]);
  int32_t sequence = b.sequences[item];
  for (int32_t row = b.query_offsets[item]; row < b.query_offsets[item + 1]; ++row) {
    if (c.lengths[sequence] - c.sealed[sequence] == tail_slots) {
      for (int i = 0; i < seal_group; ++i, ++c.sealed[sequence]) {
        for (int channel = 0; channel < width; ++channel) {
          sealed_row(&c, sequence, c.sealed[sequence])[channel] =
              (int8_t)tail_row(&c, sequence, c.sealed[sequence])[channel];
        }
      }
    }
    memcpy(tail_row(&c, sequence, c.lengths[sequence]++), rows + (int64_t)row * width, 16);
  }
}

/* (cache, batch, out: tensor<?xf32>), one item per entry */
KERNEL(sum_sealed, 21) {
  struct cache c;
  struct batch b;
  slots = take(&b, take(&c, slots, sizeof(c)), sizeof(b));
  int32_t sequence = b.sequences[item];
  float sum = 0;
  for (int64_t slot = 0; slot < c.lengths[sequence]; ++slot) {
    for (int channel = 0; channel < width; ++channel) {
      sum +=
          slot < c.sealed[sequence] ? sealed_row(&c, sequence, slot)[channel] : tail_row(&c, sequence, slot)[channel];
    }
  }
  ((float *)pointer(slots[0]))[item] = sum;
}

/* (cache, batch, keep: tensor<1xi32>), one item per entry: opens the last sealed group again where it must */
KERNEL(truncate_sealed, 20) {
  struct cache c;
  struct batch b;
  slots = take(&b, take(&c, slots, sizeof(c)), sizeof(b));
  int32_t sequence = b.sequences[item], keep = ((const int32_t *)pointer(slots[0]))[item];
  if (keep < c.sealed[sequence]) {
    c.sealed[sequence] = keep / seal_group * seal_group;
    for (int32_t slot = c.sealed[sequence]; slot < keep; ++slot) {
      for (int channel = 0; channel < width; ++channel) {
        tail_row(&c, sequence, slot)[channel] = sealed_row(&c, sequence, slot)[channel];
      }
    }
  }
  c.lengths[sequence] = keep;
}
