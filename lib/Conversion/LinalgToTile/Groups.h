//===- Groups.h - Which computations share a kernel -------------*- C++ -*-===//
#ifndef KVC_LIB_CONVERSION_LINALGTOTILE_GROUPS_H
#define KVC_LIB_CONVERSION_LINALGTOTILE_GROUPS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace kvc {

/// Linear layers of one x whose results meet in the same element-wise operations: one `tile.linear`.
struct LinearSection {
  llvm::SmallVector<mlir::linalg::LinalgOp> linears;
  llvm::SmallVector<mlir::linalg::GenericOp> epilogue; ///< in order of use
};

/// Operations that become one kernel: sections of one x, or operations over the same rows.
struct Group {
  mlir::Value x; ///< as it was when the group was formed; null for operations over rows
  llvm::SmallVector<LinearSection> sections;
  llvm::SmallVector<mlir::linalg::GenericOp> rowOps;

  llvm::SmallVector<mlir::Operation *> ops() const;
};

/// The discardable attribute that names the function an operation was written in.
inline constexpr llvm::StringLiteral originAttr = "tile.origin";

/// Groups of the block's linalg operations (generic, or linear layers). Replacing each group by one operation leaves no
/// cycle. Fills that only start other operations' results are in no group.
llvm::SmallVector<Group> formGroups(mlir::Block &block);

/// x w^T with static w: maps (m, k), (n, k), (m, n).
bool isLinear(mlir::linalg::LinalgOp op);
/// Iteration i of the first dimension writes row i of every result, and dimension 0 enters maps only as a whole index.
bool isOverRows(mlir::linalg::GenericOp op);

/// What an output starts from: the fill's value and null for uninitialised memory, or the tensor itself.
struct InitialValue {
  mlir::Value fill;   ///< scalar
  mlir::Value tensor; ///< neither: uninitialised
};
InitialValue getInitialValue(mlir::Value init);

/// Operands and captured values.
llvm::SetVector<mlir::Value> getInputs(mlir::Operation *op);

/// An uninitialised tensor of the type and sizes of `init`, a tensor that outlives the group.
mlir::Value createOutput(mlir::ImplicitLocOpBuilder &host, mlir::Value init);
/// Rows of that tensor, an index of the host.
mlir::Value createRowCount(mlir::ImplicitLocOpBuilder &host, mlir::Value init);
/// A name for the group's kernel, from where its operations were written.
std::string getKernelName(const Group &group, llvm::StringRef fallback);

/// Build the kernel and its dispatch before the group's last operation, replace the results and erase the operations.
/// They fail with a diagnostic.
llvm::LogicalResult buildLinearKernel(const Group &group);
llvm::LogicalResult buildRowKernel(const Group &group);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_LINALGTOTILE_GROUPS_H
