//===- Module.h - The module of a kernel configuration ----------*- C++ -*-===//
//
// IR text: functions that append, attend, change the cache and dump it. The same operations can be written into one
// function for a whole sequence of calls, which is how a case is handed to other tools.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TEST_DIFFERENTIAL_MODULE_H
#define KVC_TEST_DIFFERENTIAL_MODULE_H

#include "Axes.h"

#include <map>
#include <optional>
#include <vector>

namespace kvc::differential {

/// What an argument of a function is.
enum class Role {
  Cache,  // the cache that is tested
  Prefix, // the other segment
  Batch,
  Key,         // [rows, KV heads, channels of K]
  Value,       // [rows, KV heads, channels of V]
  Query,       // [rows, query heads, channels of K]
  SinkLogits,  // [query heads]
  Capture,     // f32
  Tree,        // [rows, rows of the largest entry]
  PageScores,  // [entries, KV heads, pages]
  TokenScores, // [entries, KV heads, slots]
  Lengths,     // [entries]
  DenseK,      // [entries, slots, KV heads, channels of K]
  DenseV,      // [entries, slots, KV heads, channels of V]
  Source,      // index
  Destination, // index
};

/// What a result is, which decides how it is compared.
enum class ResultKind { Cache, Out, Lse, Sum, Max, Count, Rows, StoredK, StoredV, Scores, Norms, Plane };

/// What a function does.
enum class FunctionKind { Append, AppendPrefix, Attend, Step, Change, Dump };

struct Function {
  FunctionKind kind;
  llvm::StringLiteral name;
  std::vector<Role> arguments;
  std::vector<ResultKind> results;
};

/// How many slots or pages a selection keeps.
struct Keep {
  int64_t k, first, last;
};

/// What the values of a configuration mean.
struct Meaning {
  explicit Meaning(const Config &config);

  int64_t page, dim, vDim, kvHeads, queryHeads;
  bool perHead, stored;
  /// Whether the newest tokens lie in a tail, and its type.
  bool tail = false;
  std::string tailType;
  /// Page summaries speak of keys as queries meet them: not of those that are rotated when loaded.
  bool bounds;
  int64_t window = 0, sinks = 0; // of the ring
  bool minmax = false, score = false, norm = false;
  std::optional<int64_t> maskWindow;
  Keep keep;
  /// The cache type as IR text; that of the requantized cache.
  std::string cacheType, requantizedType;
};

class Module {
public:
  explicit Module(const Config &config);

  const Config config;
  const Meaning meaning;
  std::vector<Function> functions;

  /// The function of that kind; null when the module has none.
  const Function *find(FunctionKind kind) const;
  /// All functions.
  std::string text() const;
  std::string typeOf(Role role) const;
  std::string typeOf(ResultKind kind) const;
  /// Appends the operations of a function to `body`, with its arguments by those names; the names of its results.
  /// `next` numbers new values.
  std::vector<std::string> emit(const Function &function, const std::map<Role, std::string> &names, std::string &body,
                                unsigned &next) const;

private:
  class Writer;
};

/// Name of an argument in IR, and of its files.
llvm::StringRef nameOf(Role role);
llvm::StringRef nameOf(ResultKind kind);

} // namespace kvc::differential

#endif // KVC_TEST_DIFFERENTIAL_MODULE_H
