//===- Session.h - One run of a kernel --------------------------*- C++ -*-===//
//
// A run is a sequence of calls on one set of caches, on the device and on the oracle side by side; every result is
// compared. The pools of the device's caches are full of garbage before the first call.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TEST_DIFFERENTIAL_SESSION_H
#define KVC_TEST_DIFFERENTIAL_SESSION_H

#include "Compare.h"
#include "Kernel.h"

#include "kvc/Support/Npy.h"

namespace kvc::differential {

/// Worst errors by the row of the table of tolerances.
using ErrorTable = std::map<const Tolerance *, Errors>;

/// The arguments of a call that are no caches, and what it shall return.
struct CallArguments {
  reference::Batch batch;
  std::map<Role, NpyArray> arrays;
  /// By result: the bounds of its row times its growth, what the oracle returned (of a cache: nothing), and what is
  /// left open of its elements.
  std::vector<Errors> bounds;
  std::vector<reference::Tensor> wanted;
  std::vector<std::vector<Freedom>> freedoms;
};

class Session {
public:
  static constexpr int64_t sequences = 3;

  /// Both must outlive the session; `code` is the kernel's artifact on a device.
  Session(Kernel &kernel, kvc_device_t *device, kvc_module_t *code, const CaseId &id, reference::Evaluator &oracle);

  /// Empty when all results are right.
  std::string run();

  ErrorTable errors;
  /// A hash of all bits that the device returned.
  uint64_t bits = 0xcbf29ce484222325;
  /// What was called, in order.
  std::vector<std::pair<const Function *, CallArguments>> calls;
  /// Slots of each table of the caches.
  int64_t capacity = 0;

private:
  using Rows = std::vector<int64_t>; // by sequence; -1: not in the batch

  std::string createCaches();
  void program();
  void step(Rows rows);
  void change();
  void dump();
  void call(FunctionKind kind, const reference::Batch &batch);

  reference::Batch batchOf(const Rows &rows, bool prefix = false);
  CallArguments argumentsOf(const Function &function, const reference::Batch &batch);
  NpyArray arrayOf(Role role, const Function &function, const reference::Batch &batch, int64_t denseSlots);
  NpyArray normal(llvm::ArrayRef<int64_t> shape, bool mayBeSpoiled = true);
  /// Replaces some elements, as the axis of inputs says.
  void spoil(std::vector<double> &values);
  /// What the bounds of a result of attention are multiplied with.
  double growthOf(ResultKind kind, const CallArguments &arguments, const reference::Datum &attended) const;
  /// What inputs that are not finite leave open of a result of attention, for each of its elements; empty: nothing.
  std::vector<Freedom> freedomsOf(ResultKind kind, const CallArguments &arguments, const reference::Datum &attended,
                                  const reference::Tensor &want) const;
  /// Whether a value of a slot that the entry's rows may see is not finite: [query heads, channels].
  std::vector<bool> spoiledValues(int64_t sequence, const reference::Datum &attended) const;
  /// Slots of the longest table of a batch after the function's append, if it has one.
  int64_t longest(const Function &function, const reference::Batch &batch) const;
  std::string callOracle(const Function &function, const CallArguments &arguments,
                         llvm::SmallVector<reference::Datum> &results);
  std::string callDevice(const Function &function, const CallArguments &arguments,
                         std::vector<runtime::ValueHandle> &results);

  Kernel &kernel;
  kvc_device_t *device;
  kvc_module_t *code;
  const CaseId &id;
  const Meaning &meaning;
  reference::Evaluator &oracle;
  mlir::func::FuncOp functionOf(const Function &function);
  Random random;
  std::string failure;

  /// The position of the next token of each sequence.
  std::vector<int64_t> clock = std::vector<int64_t>(sequences), prefixClock = clock;
  reference::Datum cache, prefix;
  runtime::CacheHandle deviceCache, devicePrefix;
};

/// An array as an argument of the oracle.
reference::Datum datumOf(const NpyArray &array);

/// One function that does all calls of a session, `case`, and its arguments: writes case.mlir, NAME.npy, command.txt (a
/// `kvc-run module` command) and fails.sh (a test for kvc-reduce, with `mutants` the options of broken parts) into a
/// folder.
llvm::Error writeCase(const Kernel &kernel, const Session &session, const CaseId &id, llvm::StringRef folder,
                      llvm::StringRef mutants);

} // namespace kvc::differential

#endif // KVC_TEST_DIFFERENTIAL_SESSION_H
