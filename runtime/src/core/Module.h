//===- Module.h - A loaded artifact -----------------------------*- C++ -*-===//
//
// An artifact on a device: the code of the best target, the plan of that
// target, constants in device memory, and weights bound from a GGUF file.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_CORE_MODULE_H
#define KVC_CORE_MODULE_H

#include "artifact/Artifact.h"
#include "core/Cache.h"
#include "core/Temporaries.h"

#include <unordered_map>

namespace kvc::gguf {
class File;
}

namespace kvc::rt {

/// Addresses of the tensors that functions take from a GGUF file.
struct Weights {
  std::shared_ptr<const gguf::File> file;
  std::vector<Memory> copies; ///< of what the device cannot read in the file
  std::unordered_map<std::string, const void *> addresses;
};

/// Immutable but for the weights, so any number of threads may use it.
class Module {
public:
  /// `target` forces one; empty = what the device forces, else the best.
  static Result<std::shared_ptr<Module>> create(std::shared_ptr<Device> device, artifact::Artifact artifact,
                                                const std::string &target);

  const std::shared_ptr<Device> &device() const { return moduleDevice; }
  std::string_view targetName() const { return viewOf(target->name()); }
  std::string_view provenance() const { return viewOf(artifact.module().provenance()); }
  const Code &code() const { return *moduleCode; }
  std::string_view kernelName(size_t index) const { return viewOf(target->kernels()->Get(index)->name()); }
  Temporaries &temporaries() const { return *moduleTemporaries; }
  const void *constant(size_t index) const { return constants[index].data(); }

  size_t functionCount() const { return functions.size(); }
  const fb::Function &function(size_t index) const { return *functions[index]; }
  /// See Lengths.h.
  bool mayRoundLengths(size_t index) const { return roundable[index]; }
  /// Errors: notFound, with the names that there are.
  Result<size_t> findFunction(std::string_view name) const;

  const std::vector<std::shared_ptr<const CacheSpec>> &cacheSpecs() const { return specs; }

  /// Maps the file and resolves every weight of every function: names, types
  /// and sizes must be those of the artifact.
  Status bindWeights(const std::string &path);
  std::shared_ptr<const Weights> weights() const;

  static std::string_view viewOf(const flatbuffers::String *string) {
    return string ? std::string_view(string->data(), string->size()) : std::string_view();
  }

private:
  explicit Module(artifact::Artifact artifact) : artifact(std::move(artifact)) {}
  Status chooseTarget(const std::string &forced);
  Status loadCode();
  Status loadConstants();
  Status bindWeight(const fb::Tensor &tensor, Weights &weights) const;

  std::shared_ptr<Device> moduleDevice;
  artifact::Artifact artifact;
  const fb::Target *target = nullptr;
  std::shared_ptr<Code> moduleCode;
  std::vector<const fb::Function *> functions;
  std::vector<bool> roundable; // by function
  std::vector<std::shared_ptr<const CacheSpec>> specs;
  std::vector<Memory> constants;
  std::shared_ptr<Temporaries> moduleTemporaries;
  mutable std::mutex mutex; // of boundWeights
  std::shared_ptr<const Weights> boundWeights;
};

} // namespace kvc::rt

#endif // KVC_CORE_MODULE_H
