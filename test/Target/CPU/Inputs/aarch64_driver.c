/*===- aarch64_driver.c - Calls the kernels of aarch64.mlir, without a C library -----------------------------------===
 *
 * The steps of the plan of @decode by hand, against docs/contracts/kernel-abi.md: what the runtime does on machines that
 * it is built for. Reads aarch64.py's arrays from standard input, writes the result to standard output.
 *===---------------------------------------------------------------------------------------------------------------===*/
#include <stddef.h>
#include <stdint.h>

enum {
  queryHeads = 8,
  heads = 2,
  dim = 64,
  pageSlots = 16,
  split = 1024,      /* slots that a span of attention has at least */
  spanWords = 6,     /* of its record in the plan, and of that of a sequence */
  listWords = 2,
  rowsOfAppend = 64, /* rows that an item of append stores */
  maxEntries = 8,
  maxPages = 128,
  pageRoom = 8192, /* more than the bytes of a page */
};

void append(const uint64_t *slots, int64_t item, void *scratch);
void advance(const uint64_t *slots, int64_t item, void *scratch);
void attention_plan(const uint64_t *slots, int64_t item, void *scratch);
void attention_decode(const uint64_t *slots, int64_t item, void *scratch);
void attention_merge(const uint64_t *slots, int64_t item, void *scratch);

static int64_t systemCall(int64_t number, int64_t a, int64_t b, int64_t c) {
  register int64_t x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
}
enum { callRead = 63, callWrite = 64, callExit = 93 };

static _Noreturn void stop(int status) {
  systemCall(callExit, status, 0, 0);
  __builtin_trap();
}

__attribute__((no_builtin)) void *memset(void *to, int value, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    ((volatile uint8_t *)to)[i] = (uint8_t)value;
  }
  return to;
}

/* Everything begins at multiples of 64 bytes, as buffers of the runtime do. */
static _Alignas(64) uint8_t pages[maxEntries * maxPages * pageRoom], input[8 << 20], buffers[1 << 20], scratch[256 << 10];
static _Alignas(64) int32_t table[maxEntries][maxPages], lengths[maxEntries], sealed[maxEntries], tailTable[maxEntries];

typedef struct {
  int32_t *offsets, *sequences, *positions;
  int64_t entries, rows, maxRows;
} Batch;

static uint64_t address(const void *memory) { return (uint64_t)(uintptr_t)memory; }

static uint64_t *putBatch(uint64_t *to, const Batch *batch) {
  const uint64_t words[] = {address(batch->offsets),      batch->entries + 1, address(batch->sequences),
                            batch->entries,               address(batch->positions), batch->rows};
  for (int i = 0; i < 6; ++i) {
    *to++ = words[i];
  }
  return to;
}

static uint64_t *putCache(uint64_t *to, int64_t tables) {
  const uint64_t words[] = {address(pages),  sizeof(pages), address(table), tables, maxPages, address(lengths), tables,
                            address(sealed), tables,        address(pages), 0,      address(tailTable),        tables};
  for (int i = 0; i < 13; ++i) {
    *to++ = words[i];
  }
  return to;
}

static uint64_t *putRows(uint64_t *to, const void *memory, int64_t rows) {
  *to++ = address(memory);
  *to++ = rows;
  return to;
}

typedef void Kernel(const uint64_t *slots, int64_t item, void *scratch);

/* The last item first: their order means nothing. */
static void dispatch(Kernel *kernel, const uint64_t *slots, int64_t items) {
  for (int64_t item = items - 1; item >= 0; --item) {
    memset(scratch, 0xff, sizeof(scratch));
    kernel(slots, item, scratch);
  }
}

/* reserve, append, advance */
static void appendRows(const Batch *batch, const void *k, const void *v, int64_t tables) {
  static int32_t nextPage = maxEntries * maxPages;
  uint64_t slots[32], *end = slots;
  for (int64_t i = 0; i < batch->entries; ++i) {
    int32_t sequence = batch->sequences[i], rows = batch->offsets[i + 1] - batch->offsets[i];
    for (int64_t page = 0; page * pageSlots < lengths[sequence] + rows; ++page) {
      if (table[sequence][page] < 0) {
        table[sequence][page] = --nextPage;
      }
    }
  }
  int64_t pieces = (batch->maxRows + rowsOfAppend - 1) / rowsOfAppend + 1;
  end = putBatch(putRows(putRows(end, k, batch->rows), v, batch->rows), batch);
  *end++ = pieces;
  putCache(end, tables);
  dispatch(append, slots, batch->entries * heads * pieces);
  putCache(putBatch(slots, batch), tables);
  dispatch(advance, slots, batch->entries);
}

static void attend(const Batch *batch, const void *q, int64_t tables, float *out) {
  int64_t longest = 1;
  for (int64_t i = 0; i < batch->entries; ++i) {
    int32_t length = lengths[batch->sequences[i]];
    longest = length > longest ? length : longest;
  }
  /* All entries have one row. A CPU has more processors than there is work for. */
  int64_t mostOfSequence = (longest + split - 1) / split, partRows = mostOfSequence * batch->entries;
  float *parts = (float *)buffers, *sums = parts + partRows * queryHeads * dim;
  int32_t *spans = (int32_t *)(sums + partRows * queryHeads), *lists = spans + partRows * spanWords;
  uint64_t slots[40];
  uint64_t *end = putBatch(slots, batch);
  *end++ = (1 << 24) * 2 / heads;
  end = putCache(end, tables);
  putRows(putRows(end, spans, partRows), lists, batch->entries);
  dispatch(attention_plan, slots, batch->entries);
  end = putCache(putRows(putBatch(putRows(slots, q, batch->rows), batch), spans, partRows), tables);
  putRows(putRows(putRows(end, out, batch->rows), parts, partRows), sums, partRows);
  dispatch(attention_decode, slots, partRows * heads);
  end = putRows(putBatch(putRows(putRows(slots, parts, partRows), sums, partRows), batch), lists, batch->entries);
  putRows(end, out, batch->rows);
  dispatch(attention_merge, slots, mostOfSequence > 1 ? batch->entries * queryHeads : 0);
}

static uint8_t *take(uint8_t **at, int64_t bytes) {
  uint8_t *here = *at;
  *at += (bytes + 63) / 64 * 64;
  return here;
}

__attribute__((used)) static void run(void) {
  int64_t size = 0, got;
  while ((got = systemCall(callRead, 0, (int64_t)(input + size), (int64_t)sizeof(input) - size)) > 0) {
    size += got;
  }
  uint8_t *at = input;
  const int32_t *header = (int32_t *)take(&at, 4 * sizeof(int32_t));
  int64_t entries = header[0];
  Batch prompt = {.entries = entries, .rows = header[1], .maxRows = header[2]};
  Batch step = {.entries = entries, .rows = entries, .maxRows = 1};
  if (size < 64 || entries < 1 || entries > maxEntries || header[2] >= maxPages * pageSlots) {
    stop(2);
  }
  for (Batch *batch = &prompt; batch; batch = batch == &prompt ? &step : NULL) {
    batch->offsets = (int32_t *)take(&at, (entries + 1) * 4);
    batch->sequences = (int32_t *)take(&at, entries * 4);
    batch->positions = (int32_t *)take(&at, batch->rows * 4);
  }
  const int64_t row = heads * dim * 4, queryRow = queryHeads * dim * 4;
  const void *k0 = take(&at, prompt.rows * row), *v0 = take(&at, prompt.rows * row);
  const void *q = take(&at, entries * queryRow), *k = take(&at, entries * row), *v = take(&at, entries * row);
  if (at != input + size) {
    stop(3);
  }
  memset(pages, 0xff, sizeof(pages)); /* NaN, where nothing is written */
  memset(table, 0xff, sizeof(table));
  static _Alignas(64) float out[maxEntries * queryHeads * dim];
  appendRows(&prompt, k0, v0, entries);
  appendRows(&step, k, v, entries);
  attend(&step, q, entries, out);
  int64_t bytes = entries * queryRow;
  stop(systemCall(callWrite, 1, (int64_t)out, bytes) == bytes ? 0 : 4);
}

__asm__(".globl _start\n_start: mov x29, xzr\n bl run\n");
