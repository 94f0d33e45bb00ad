/*===- kvc_runtime.h - C interface of the kvc runtime ------------------------------------------------------------------
 *
 * Runs compiled modules (.kvca): devices, modules, paged KV caches, batches of sequences, calls.
 * No LLVM is behind it. docs/runtime.md is the guide.
 *
 * Errors. Every function that can fail returns a kvc_status_t; kvc_last_error_message() gives the text for the calling
 * thread. On failure output parameters are set to NULL or 0. Bad arguments (NULL handles, wrong counts, indices out of
 * range) give KVC_INVALID_ARGUMENT or KVC_OUT_OF_RANGE, never a crash; a handle that was released must not be used.
 *
 * Ownership. A function that gives a handle gives one reference; `..._release` drops it (NULL is allowed), in any
 * order: a module keeps its device alive, a cache its module, a value its memory.
 *
 * Threads.
 *  - Devices, modules and batches may be used by any number of threads at a time. kvc_module_bind_weights may run
 * beside calls: a call uses the weights that were bound when it began.
 *  - Caches and contexts may be used by several threads too: operations on one cache, or on caches that share pages
 *    (clones), take turns. What that means for the order of appends to one sequence is for the caller to arrange.
 *  - A handle may be released while others use the object through other references, not through the same one.
 *  - Values are read-only; a message lives until the next failure in the same thread.
 *  - Results of a call do not depend on the number of threads of the device.
 *
 * Codes and kinds are int32_t with named constants, so that any number may arrive and is refused.
 *
 * Options. Structures that may grow begin with `struct_size`, set to sizeof; a field that is zero takes its default.
 *===------------------------------------------------------------------------------------------------------------------*/
#ifndef KVC_RUNTIME_H
#define KVC_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define KVC_API
#else
#define KVC_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* --- Status ------------------------------------------------------------------------------------------------------- */

typedef int32_t kvc_status_t;
enum {
  KVC_OK = 0,
  KVC_INVALID_ARGUMENT = 1, /* the caller passed something that cannot be used */
  KVC_OUT_OF_RANGE = 2,     /* an index, length or capacity was exceeded */
  KVC_NOT_FOUND = 3,        /* a file, name or symbol does not exist */
  KVC_CORRUPT = 4,          /* a file is damaged, truncated or hostile */
  KVC_UNSUPPORTED = 5,      /* valid, but not possible here: the CPU, the module */
  KVC_EXHAUSTED = 6,        /* no memory, page or sequence is left */
  KVC_IO = 7,               /* the operating system refused */
  KVC_INTERNAL = 8          /* a bug of kvc or of compiled code */
};

/* Text of the last failure in this thread; "" if there was none. Never NULL. */
KVC_API const char *kvc_last_error_message(void);
/* "ok", "invalid argument", ... */
KVC_API const char *kvc_status_name(kvc_status_t status);
/* "0.1.0" */
KVC_API const char *kvc_version(void);

/* --- Types -------------------------------------------------------------------------------------------------------- */

typedef struct kvc_device kvc_device_t;
typedef struct kvc_module kvc_module_t;
typedef struct kvc_cache kvc_cache_t;
typedef struct kvc_batch kvc_batch_t;
typedef struct kvc_context kvc_context_t;
typedef struct kvc_value kvc_value_t;

typedef int32_t kvc_dtype_t;
enum {
  KVC_I8 = 0,
  KVC_U8 = 1,
  KVC_I16 = 2,
  KVC_I32 = 3,
  KVC_I64 = 4,
  KVC_F16 = 5,
  KVC_BF16 = 6,
  KVC_F32 = 7,
  KVC_F64 = 8,
  KVC_I1 = 9 /* one byte, 0 or 1 */
};

/* Bytes of an element; 0 for a number that is not a dtype. */
KVC_API size_t kvc_dtype_size(kvc_dtype_t dtype);
/* "f32", ...; "?" for a number that is not a dtype. */
KVC_API const char *kvc_dtype_name(kvc_dtype_t dtype);

#define KVC_MAX_RANK 16

/* Host memory: row major, contiguous, aligned to its element (otherwise it is copied). */
typedef struct kvc_tensor {
  kvc_dtype_t dtype;
  int32_t rank;
  const int64_t *dims; /* rank sizes */
  const void *data;    /* may be NULL if there are no elements */
} kvc_tensor_t;

typedef int32_t kvc_kind_t;
enum { KVC_TENSOR = 0, KVC_CACHE = 1, KVC_BATCH = 2, KVC_INTEGER = 3, KVC_REAL = 4 };

/* --- Devices ------------------------------------------------------------------------------------------------------ */

typedef struct kvc_device_options {
  size_t struct_size;
  int32_t threads; /* CPU threads that run kernels, the caller included; 0 = one per CPU the process may use */
  const char
      *target; /* insist on this target of an artifact (NULL: the environment variable KVC_TARGET, else the best) */
} kvc_device_options_t;

/* Opens a device by name: "cpu". `options` may be NULL. The environment variable KVC_CPU lowers the level of the CPU
 * that is assumed (x86-64, x86-64-v3, x86-64-v4, ...). */
KVC_API kvc_status_t kvc_device_create(const char *name, const kvc_device_options_t *options, kvc_device_t **device);
KVC_API void kvc_device_release(kvc_device_t *device);
KVC_API const char *kvc_device_name(const kvc_device_t *device);
/* KVC_OK when the device runs code of this target (x86-64-v3, ...); the message of KVC_UNSUPPORTED says what it lacks.
 */
KVC_API kvc_status_t kvc_device_supports(const kvc_device_t *device, const char *target);

/* While profiling is on, every dispatch to the device is kept. For development: it costs time and memory, and launches
 * on a simulated device take turns. */
KVC_API kvc_status_t kvc_device_set_profiling(kvc_device_t *device, int32_t on);
/* What was dispatched since the last call, in order: a JSON array of objects with "function", "kernel", "device" (the
 * one that ran it), "items", "seconds" of the host's clock, from GPUs "device_seconds" between two events around the
 * kernel (sim:...: the time that the simulation took) and, from devices that count (sim:...), "counters": the object
 * that sim/README.md describes. The text lives until the thread's next call. */
KVC_API kvc_status_t kvc_device_take_profile(kvc_device_t *device, const char **json);

/* While it is on, a GPU replays the launches of a call as one graph when the same came before: the same kernels, sizes
 * and buffers, as in decode steps. Results have the same bits. Off at first; KVC_UNSUPPORTED on a device without graphs
 * (cpu, hip:N). Profiling launches kernels one by one. */
KVC_API kvc_status_t kvc_device_set_graphs(kvc_device_t *device, int32_t on);
/* Graphs that the device has captured so far, and how often it has launched one. */
KVC_API kvc_status_t kvc_device_get_graph_counts(const kvc_device_t *device, int64_t *captured, int64_t *launched);

/* --- Modules ------------------------------------------------------------------------------------------------------ */

typedef struct kvc_module_options {
  size_t struct_size;
  const char *target; /* insist on this target; NULL: what the device insists on, else the best that it supports */
} kvc_module_options_t;

/* Loads an artifact. `options` may be NULL. KVC_CORRUPT for damaged files; KVC_UNSUPPORTED where the device can run
 * none of the targets (a CPU below x86-64-v3). The code of an artifact runs in this process: load only what you trust.
 */
KVC_API kvc_status_t kvc_module_load_file(kvc_device_t *device, const char *path, const kvc_module_options_t *options,
                                          kvc_module_t **module);
/* The same from memory, which is copied. */
KVC_API kvc_status_t kvc_module_load_bytes(kvc_device_t *device, const void *bytes, size_t size,
                                           const kvc_module_options_t *options, kvc_module_t **module);
KVC_API void kvc_module_release(kvc_module_t *module);

/* Binds the weights to the tensors of a GGUF file, which is mapped, not copied. The file must stay as it is. */
KVC_API kvc_status_t kvc_module_bind_weights(kvc_module_t *module, const char *gguf_path);

/* The target that was chosen, and what the compiler says of the module's origin. */
KVC_API const char *kvc_module_target(const kvc_module_t *module);
KVC_API const char *kvc_module_provenance(const kvc_module_t *module);

KVC_API size_t kvc_module_function_count(const kvc_module_t *module);
/* NULL if out of range. */
KVC_API const char *kvc_module_function_name(const kvc_module_t *module, size_t function);
KVC_API kvc_status_t kvc_module_find_function(const kvc_module_t *module, const char *name, size_t *function);

/* An argument or a result of a function. */
typedef struct kvc_port {
  const char *name;    /* "" if it has none */
  const char *ir_type; /* "" if it is not known */
  kvc_kind_t kind;
  kvc_dtype_t dtype;          /* tensors and numbers */
  int32_t rank;               /* tensors */
  int64_t dims[KVC_MAX_RANK]; /* -1 = dynamic */
  size_t cache_spec;          /* caches */
} kvc_port_t;

KVC_API kvc_status_t kvc_module_argument_count(const kvc_module_t *module, size_t function, size_t *count);
KVC_API kvc_status_t kvc_module_result_count(const kvc_module_t *module, size_t function, size_t *count);
KVC_API kvc_status_t kvc_module_argument(const kvc_module_t *module, size_t function, size_t index, kvc_port_t *port);
KVC_API kvc_status_t kvc_module_result(const kvc_module_t *module, size_t function, size_t index, kvc_port_t *port);

/* The type of a cache, as compiled for the target of the module. */
typedef struct kvc_cache_spec {
  const char *name;
  const char *ir_type;
  int32_t kv_heads;
  int32_t tables_per_sequence; /* 1, or one per KV head */
  int32_t page_slots;
  int32_t tail_slots; /* 0 = no tail */
  int32_t residual;
  int32_t seal_group;
  uint64_t page_bytes;
  uint64_t tail_bytes;
} kvc_cache_spec_t;

KVC_API size_t kvc_module_cache_spec_count(const kvc_module_t *module);
KVC_API kvc_status_t kvc_module_cache_spec(const kvc_module_t *module, size_t index, kvc_cache_spec_t *spec);

/* --- Caches ------------------------------------------------------------------------------------------------------- */

typedef struct kvc_cache_options {
  size_t struct_size;
  int32_t sequences;  /* sequences are numbered 0 .. sequences-1; all start empty */
  int64_t max_length; /* slots per sequence (per table) */
  int64_t pages;      /* of the pool; 0 = every sequence can be full (memory is taken as it is touched) */
  int64_t tails;      /* of the pool; 0 = one per table */
} kvc_cache_options_t;

/* The cache of one layer for several sequences. */
KVC_API kvc_status_t kvc_cache_create(kvc_module_t *module, size_t cache_spec, const kvc_cache_options_t *options,
                                      kvc_cache_t **cache);
KVC_API void kvc_cache_release(kvc_cache_t *cache);
/* A second cache that shares all pages; whoever writes first copies. */
KVC_API kvc_status_t kvc_cache_clone(kvc_cache_t *cache, kvc_cache_t **clone);

/* `destination` (what it held is dropped) becomes a copy of `source` that shares all pages and the tail. A fork
 * of a sequence to itself changes nothing. */
KVC_API kvc_status_t kvc_cache_fork(kvc_cache_t *cache, int32_t source, int32_t destination);
/* Drops the slots from `length` on. KVC_UNSUPPORTED where sealed slots would have to be opened and the module has no
 * function for that; length 0 always works. */
KVC_API kvc_status_t kvc_cache_truncate(kvc_cache_t *cache, int32_t sequence, int64_t length);
/* Drops everything of a sequence: it is empty and whole again, also after a failed call. */
KVC_API kvc_status_t kvc_cache_clear(kvc_cache_t *cache, int32_t sequence);
/* Slots in use of a table; `head` is 0 where there is one table per sequence. */
KVC_API kvc_status_t kvc_cache_length(kvc_cache_t *cache, int32_t sequence, int32_t head, int64_t *length);
/* Tokens ever appended and not truncated: the position of the next one. */
KVC_API kvc_status_t kvc_cache_position(kvc_cache_t *cache, int32_t sequence, int64_t *position);

typedef struct kvc_cache_statistics {
  int64_t pages_used, pages_capacity; /* of the pool, clones included */
  int64_t tails_used, tails_capacity;
  int64_t slots_used;       /* over all tables; shared slots count each time */
  double bytes_used;        /* of all slots with their scales, in pages and tails (shared ones once), and of the tables;
                               the padding of the last page is not counted */
  uint64_t bytes_allocated; /* pages and tails in use as they lie in the pool, and the tables */
} kvc_cache_statistics_t;

KVC_API kvc_status_t kvc_cache_get_statistics(kvc_cache_t *cache, kvc_cache_statistics_t *statistics);

/* The arrays of a cache (docs/contracts/kernel-abi.md, section 2) on the host. tables = sequences *
 * tables_per_sequence; max_pages = ceil(max_length / page_slots). */
typedef struct kvc_cache_tables {
  size_t struct_size;
  int64_t tables, max_pages;
  int32_t *table;      /* [tables][max_pages], -1 = none */
  int32_t *lengths;    /* [tables] */
  int32_t *sealed;     /* [tables] */
  int32_t *tail_table; /* [tables], -1 = none */
  int64_t *positions;  /* [sequences], see kvc_cache_position */
} kvc_cache_tables_t;

/* The sizes of the arrays. */
KVC_API kvc_status_t kvc_cache_table_shape(kvc_cache_t *cache, int32_t *sequences, int64_t *tables, int64_t *max_pages);
/* Copies the arrays out; a NULL array is skipped. */
KVC_API kvc_status_t kvc_cache_get_tables(kvc_cache_t *cache, const kvc_cache_tables_t *tables);
/* Replaces all tables after checking them: pages and tails exist, are named once and are not another cache's; there is
 * a page for each sealed slot and a tail for the others; lengths fit. On failure nothing changes. */
KVC_API kvc_status_t kvc_cache_set_tables(kvc_cache_t *cache, const kvc_cache_tables_t *tables);

typedef int32_t kvc_cache_part_t;
enum { KVC_PAGES = 0, KVC_TAILS = 1 };
/* Raw bytes of the pools. Page i begins at i * page_bytes. */
KVC_API kvc_status_t kvc_cache_read(kvc_cache_t *cache, kvc_cache_part_t part, uint64_t offset, void *data,
                                    uint64_t size);
KVC_API kvc_status_t kvc_cache_write(kvc_cache_t *cache, kvc_cache_part_t part, uint64_t offset, const void *data,
                                     uint64_t size);

/* --- Batches ------------------------------------------------------------------------------------------------------ */

/* Which rows of the tensors of a call belong to which sequence: `rows[i]` rows of `sequences[i]`, in this order. Rows
 * and entries may be zero; no sequence stands twice. `positions` has one number per row (0 = first token of the
 * sequence). */
KVC_API kvc_status_t kvc_batch_create(kvc_device_t *device, size_t entries, const int32_t *sequences,
                                      const int32_t *rows, const int32_t *positions, kvc_batch_t **batch);
/* The same with the positions that follow what the cache already holds. */
KVC_API kvc_status_t kvc_batch_create_next(kvc_cache_t *cache, size_t entries, const int32_t *sequences,
                                           const int32_t *rows, kvc_batch_t **batch);
KVC_API void kvc_batch_release(kvc_batch_t *batch);
KVC_API int32_t kvc_batch_entries(const kvc_batch_t *batch);
KVC_API int32_t kvc_batch_rows(const kvc_batch_t *batch);

/* --- Calls -------------------------------------------------------------------------------------------------------- */

typedef struct kvc_argument {
  const char *name; /* NULL: the next argument that no name takes */
  kvc_kind_t kind;
  kvc_tensor_t tensor;
  kvc_cache_t *cache;
  kvc_batch_t *batch;
  int64_t integer;
  float real;
} kvc_argument_t;

/* Runs a function. `results` has room for `result_count` handles, the number that the function returns; each is
 * released by the caller. A cache that is updated in place is returned as another reference to the same cache.
 *
 * What fails before anything was changed (wrong arguments, a pool that cannot hold the new slots) leaves all caches as
 * they were. A call that fails later leaves the sequences of its batch incomplete: they are refused until they are
 * cleared; other sequences are not touched. */
KVC_API kvc_status_t kvc_module_call(kvc_module_t *module, size_t function, const kvc_argument_t *arguments,
                                     size_t argument_count, kvc_value_t **results, size_t result_count);

KVC_API void kvc_value_release(kvc_value_t *value);
KVC_API kvc_kind_t kvc_value_kind(const kvc_value_t *value);
/* Views that live as long as the value. KVC_INVALID_ARGUMENT if it is of another kind. */
KVC_API kvc_status_t kvc_value_tensor(const kvc_value_t *value, kvc_tensor_t *tensor);
KVC_API kvc_status_t kvc_value_integer(const kvc_value_t *value, int64_t *integer);
KVC_API kvc_status_t kvc_value_real(const kvc_value_t *value, float *real);
/* Another reference. */
KVC_API kvc_status_t kvc_value_cache(const kvc_value_t *value, kvc_cache_t **cache);

/* --- Contexts: the caches of all layers -----------------------------------------------------------------------------
 */

/* Makes a cache for each cache argument of `function` (of `options->pages` pages each). Sequences come and go over all
 * of them together. Functions whose cache arguments have the same types in the same order can be called with it. */
KVC_API kvc_status_t kvc_context_create(kvc_module_t *module, size_t function, const kvc_cache_options_t *options,
                                        kvc_context_t **context);
KVC_API void kvc_context_release(kvc_context_t *context);
/* Another reference to the module. */
KVC_API kvc_status_t kvc_context_module(kvc_context_t *context, kvc_module_t **module);

KVC_API size_t kvc_context_cache_count(const kvc_context_t *context);
/* Another reference to the cache of layer `index`. */
KVC_API kvc_status_t kvc_context_cache(kvc_context_t *context, size_t index, kvc_cache_t **cache);

/* A sequence that was not in use, empty. KVC_EXHAUSTED if all are in use. */
KVC_API kvc_status_t kvc_sequence_create(kvc_context_t *context, int32_t *sequence);
KVC_API kvc_status_t kvc_sequence_free(kvc_context_t *context, int32_t sequence);
/* A new sequence that shares what `source` holds. */
KVC_API kvc_status_t kvc_sequence_fork(kvc_context_t *context, int32_t source, int32_t *sequence);
/* As kvc_cache_truncate, in all layers or in none. */
KVC_API kvc_status_t kvc_sequence_truncate(kvc_context_t *context, int32_t sequence, int64_t length);
/* Tokens appended so far: the position of the next one. */
KVC_API kvc_status_t kvc_sequence_position(kvc_context_t *context, int32_t sequence, int64_t *position);
/* A batch of sequences of this context, with the positions that come next. */
KVC_API kvc_status_t kvc_context_batch(kvc_context_t *context, size_t entries, const int32_t *sequences,
                                       const int32_t *rows, kvc_batch_t **batch);
/* Sums over the caches. */
KVC_API kvc_status_t kvc_context_get_statistics(kvc_context_t *context, kvc_cache_statistics_t *statistics);
/* As kvc_module_call; the caches of the context stand for the cache arguments, and results that are caches are left
 * out. */
KVC_API kvc_status_t kvc_context_call(kvc_context_t *context, size_t function, const kvc_argument_t *arguments,
                                      size_t argument_count, kvc_value_t **results, size_t result_count);

#ifdef __cplusplus
}
#endif

#endif /* KVC_RUNTIME_H */
