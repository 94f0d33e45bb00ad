//===- Module.cpp - A loaded artifact -------------------------------------===//
//
// Choice of the target, loading of code and constants, binding of weights.
//
//===----------------------------------------------------------------------===//
#include "core/Module.h"

#include "core/Lengths.h"

#include "gguf/File.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvc::rt {
namespace {

template <typename T> size_t sizeOfVector(const T *vector) { return vector ? vector->size() : 0; }

std::vector<BoxMap> boxesOf(const fb::Kernel &kernel) {
  std::vector<BoxMap> boxes;
  for (size_t i = 0; i < sizeOfVector(kernel.boxes()); ++i) {
    const fb::BoxMap &from = *kernel.boxes()->Get(static_cast<flatbuffers::uoffset_t>(i));
    BoxMap &to = boxes.emplace_back(BoxMap{.word = from.word(), .swizzle = from.swizzle(), .offset = from.offset()});
    std::copy(from.strides()->begin(), from.strides()->end(), to.strides.begin());
    std::copy(from.extents()->begin(), from.extents()->end(), to.extents.begin());
    std::copy(from.box()->begin(), from.box()->end(), to.box.begin());
  }
  return boxes;
}

CodeFormat formatOf(fb::CodeKind kind) {
  switch (kind) {
  case fb::CodeKind::shared_object:
    return CodeFormat::sharedObject;
  case fb::CodeKind::cubin:
    return CodeFormat::cubin;
  case fb::CodeKind::hsaco:
    return CodeFormat::hsaco;
  }
  return CodeFormat::sharedObject; // the verifier knows these kinds only
}

} // namespace

Result<std::shared_ptr<Module>> Module::create(std::shared_ptr<Device> device, artifact::Artifact artifact,
                                               const std::string &target) {
  std::shared_ptr<Module> module(new Module(std::move(artifact)));
  module->moduleDevice = std::move(device);
  module->moduleTemporaries = std::make_shared<Temporaries>(module->moduleDevice);
  KVC_RETURN_IF_ERROR(module->chooseTarget(target.empty() ? module->moduleDevice->forcedTarget() : target));
  KVC_RETURN_IF_ERROR(module->loadCode());
  KVC_RETURN_IF_ERROR(module->loadConstants());
  return module;
}

Status Module::chooseTarget(const std::string &forced) {
  const auto &targets = *artifact.module().targets();
  int best = 0;
  std::string reasons, names;
  for (const fb::Target *candidate : targets) {
    std::string_view name = viewOf(candidate->name());
    names += (names.empty() ? "" : ", ") + std::string(name);
    if (!forced.empty() && name != forced) {
      continue;
    }
    Result<int> rank = moduleDevice->rankTarget(name);
    if (!rank.ok()) {
      reasons += (reasons.empty() ? "" : "; ") + rank.message();
      continue;
    }
    if (!target || *rank > best) {
      target = candidate;
      best = *rank;
    }
  }
  if (target) {
    const fb::Plan &plan = *artifact.module().plans()->Get(target->plan());
    for (size_t i = 0; i < sizeOfVector(plan.functions()); ++i) {
      functions.push_back(plan.functions()->Get(i));
      roundable.push_back(rt::mayRoundLengths(*functions.back()));
    }
    for (size_t i = 0; i < sizeOfVector(artifact.module().caches()); ++i) {
      const fb::CacheSpec &spec = *artifact.module().caches()->Get(i);
      const fb::CacheLayout &layout = *target->layouts()->Get(i);
      specs.push_back(std::make_shared<CacheSpec>(CacheSpec{
          spec.name()->str(), spec.type()->str(), spec.kv_heads(), spec.tables_per_sequence(), spec.page_slots(),
          spec.tail_slots(), spec.residual(), spec.seal_group(), std::string(viewOf(spec.truncate_function())),
          layout.page_bytes(), layout.page_payload_bytes(), layout.tail_bytes(), layout.tail_slot_payload_bytes()}));
    }
    return {};
  }
  if (!forced.empty() && reasons.empty()) {
    return Status(StatusCode::notFound,
                  fmt::format("expects target '{}' in the artifact, but got only: {}", forced, names));
  }
  return Status(StatusCode::unsupported,
                fmt::format("expects code that the device '{}' can run, but got: {}", moduleDevice->name(), reasons));
}

Status Module::loadCode() {
  std::vector<KernelInfo> kernels;
  for (size_t i = 0; i < sizeOfVector(target->kernels()); ++i) {
    const fb::Kernel &kernel = *target->kernels()->Get(i);
    kernels.push_back(
        {kernel.name()->str(), kernel.scratch_bytes(), kernel.team_lanes(), kernel.staging_bytes(), boxesOf(kernel)});
  }
  if (kernels.empty()) {
    return {}; // no step dispatches anything
  }
  std::span<const uint8_t> bytes(target->code()->data(), target->code()->size());
  Result<std::shared_ptr<Code>> code =
      moduleDevice->load(formatOf(target->kind()), bytes, viewOf(target->assembly()), kernels);
  if (!code.ok()) {
    return Status(code.status()).withContext(fmt::format("target '{}'", targetName()));
  }
  moduleCode = *std::move(code);
  return {};
}

Status Module::loadConstants() {
  const auto *list = artifact.module().constants();
  for (size_t i = 0; i < sizeOfVector(list); ++i) {
    const auto &bytes = *list->Get(i)->bytes();
    KVC_ASSIGN_OR_RETURN(Memory memory, Memory::allocate(moduleDevice, bytes.size(), MemoryKind::device));
    KVC_RETURN_IF_ERROR(moduleDevice->copyToDevice(memory.data(), bytes.data(), bytes.size()));
    constants.push_back(std::move(memory));
  }
  return {};
}

Result<size_t> Module::findFunction(std::string_view name) const {
  std::string names;
  for (size_t i = 0; i < functions.size(); ++i) {
    if (viewOf(functions[i]->name()) == name) {
      return i;
    }
    names += (names.empty() ? "" : ", ") + functions[i]->name()->str();
  }
  return Status(StatusCode::notFound,
                fmt::format("expects one of the functions {}, but got '{}'", names.empty() ? "(none)" : names, name));
}

Status Module::bindWeight(const fb::Tensor &tensor, Weights &weights) const {
  std::string name = tensor.weight()->str();
  const gguf::Tensor *found = weights.file->findTensor(name);
  if (!found) {
    return Status(StatusCode::notFound, fmt::format("expects a tensor '{}', but got none", name));
  }
  if (found->format->id != tensor.weight_type() || found->data.size() != tensor.weight_bytes()) {
    const gguf::BlockFormat *want = gguf::findBlockFormat(tensor.weight_type());
    return Status(StatusCode::invalidArgument,
                  fmt::format("tensor '{}': expects {} bytes of type {}, but got {} bytes of type {}: the model is not "
                              "the one that was compiled",
                              name, tensor.weight_bytes(),
                              want ? std::string(want->name) : std::to_string(tensor.weight_type()), found->data.size(),
                              found->format->name));
  }
  const void *&address = weights.addresses[name];
  if (address) {
    return {};
  }
  address = found->data.data();
  bool isAligned = uintptr_t(address) % artifact::sizeOf(tensor.dtype()) == 0;
  if (!moduleDevice->isHostMemory() || !isAligned) {
    KVC_ASSIGN_OR_RETURN(Memory copy, Memory::allocate(moduleDevice, found->data.size(), MemoryKind::device));
    KVC_RETURN_IF_ERROR(moduleDevice->copyToDevice(copy.data(), address, found->data.size()));
    address = copy.data();
    weights.copies.push_back(std::move(copy));
  }
  return {};
}

Status Module::bindWeights(const std::string &path) {
  KVC_ASSIGN_OR_RETURN(gguf::File file, gguf::File::open(path));
  auto weights = std::make_shared<Weights>();
  weights->file = std::make_shared<const gguf::File>(std::move(file));
  for (const fb::Function *function : functions) {
    for (size_t i = 0; i < sizeOfVector(function->values()); ++i) {
      const fb::Tensor *tensor = function->values()->Get(i)->type_as_Tensor();
      if (tensor && tensor->source() == fb::TensorSource::weight) {
        if (Status status = bindWeight(*tensor, *weights); !status.ok()) {
          return std::move(status).withContext("'" + path + "'");
        }
      }
    }
  }
  std::lock_guard lock(mutex);
  boundWeights = std::move(weights);
  return {};
}

std::shared_ptr<const Weights> Module::weights() const {
  std::lock_guard lock(mutex);
  return boundWeights;
}

} // namespace kvc::rt
