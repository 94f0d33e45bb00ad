//===- InitAll.h - The one list of dialects and passes ----------*- C++ -*-===//
//
// Every tool and binding registers what it needs through these two functions.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_INITALL_H
#define KVC_INITALL_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace kvc {

/// Dialects, external interface models and translations.
void registerAllDialects(mlir::DialectRegistry &registry);
/// Passes and named pipelines.
void registerAllPasses();

} // namespace kvc

#endif // KVC_INITALL_H
