//===- Info.cpp - kvc-run info --------------------------------------------===//
//
// What a model file or an artifact holds.
//
//===----------------------------------------------------------------------===//
#include "Generate.h"
#include "Inputs.h"

#include "artifact/Artifact.h"
#include "gguf/BlockFormats.h"
#include "gguf/File.h"
#include "kvc/Support/Output.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <nlohmann/json.hpp>

#include <map>

using namespace kvc;
using nlohmann::json;

static std::string str(const flatbuffers::String *string) { return string ? string->str() : ""; }

/// Names and types of ports.
static json ports(const flatbuffers::Vector<flatbuffers::Offset<fb::Port>> *ports) {
  json result = json::array();
  for (size_t i = 0; ports && i < ports->size(); ++i) {
    result.push_back(str(ports->Get(i)->ir_type()));
  }
  return result;
}

static Result<json> artifactInfo(const std::string &path) {
  KVC_ASSIGN_OR_RETURN(artifact::Artifact file, artifact::Artifact::open(path));
  const fb::Module &module = file.module();
  json targets = json::array(), caches = json::array(), functions = json::array();
  for (const fb::Target *target : *module.targets()) {
    json kernels = json::array();
    for (size_t i = 0; target->kernels() && i < target->kernels()->size(); ++i) {
      const fb::Kernel &kernel = *target->kernels()->Get(i);
      json entry = {{"name", str(kernel.name())}};
      if (target->kind() == fb::CodeKind::shared_object) {
        entry["scratch_bytes"] = kernel.scratch_bytes();
      } else {
        entry["team_lanes"] = kernel.team_lanes();
        entry["staging_bytes"] = kernel.staging_bytes();
        entry["registers"] = kernel.registers();
        entry["spill_bytes"] = kernel.spill_bytes();
      }
      kernels.push_back(std::move(entry));
    }
    targets.push_back({{"name", str(target->name())},
                       {"kind", fb::EnumNameCodeKind(target->kind())},
                       {"code_bytes", target->code()->size()},
                       {"kernels", kernels}});
  }
  for (size_t i = 0; module.caches() && i < module.caches()->size(); ++i) {
    caches.push_back(str(module.caches()->Get(i)->type()));
  }
  const fb::Plan *plan = module.plans()->Get(module.targets()->Get(0)->plan());
  for (size_t i = 0; plan->functions() && i < plan->functions()->size(); ++i) {
    const fb::Function *function = plan->functions()->Get(i);
    functions.push_back({{"name", str(function->name())},
                         {"arguments", ports(function->arguments())},
                         {"results", ports(function->results())},
                         {"steps", function->steps() ? function->steps()->size() : 0}});
  }
  return json{{"kind", "artifact"},
              {"provenance", str(module.provenance())},
              {"bytes", file.sizeInBytes()},
              {"targets", targets},
              {"caches", caches},
              {"functions", functions}};
}

static Result<json> modelInfo(const std::string &path) {
  KVC_ASSIGN_OR_RETURN(gguf::File file, gguf::File::open(path));
  std::map<std::string, int64_t> types;
  uint64_t bytes = 0, values = 0;
  for (const gguf::Tensor &tensor : file.tensors()) {
    types[std::string(tensor.format->name)] += 1;
    bytes += tensor.data.size();
    uint64_t count = 1;
    for (uint64_t size : tensor.dims) {
      count *= size;
    }
    values += count;
  }
  Result<std::string_view> architecture = file.getString("general.architecture");
  Result<std::string_view> name = file.getString("general.name");
  return json{{"kind", "model"},
              {"architecture", architecture.ok() ? std::string(*architecture) : ""},
              {"name", name.ok() ? std::string(*name) : ""},
              {"tensors", file.tensors().size()},
              {"tensor_types", types},
              {"parameters", values},
              {"weight_bytes", bytes}};
}

bool kvc::runInfo(const InfoRun &run) {
  Status device = checkDevice(run.device, run.threads);
  Result<json> info = !device.ok()                                   ? Result<json>(device)
                      : llvm::StringRef(run.file).ends_with(".gguf") ? modelInfo(run.file)
                                                                     : artifactInfo(run.file);
  if (!info.ok()) {
    llvm::WithColor::error(llvm::errs(), "kvc-run") << info.message() << '\n';
    return false;
  }
  llvm::outs() << info->dump(run.json ? -1 : 2, ' ', false, json::error_handler_t::replace) << '\n';
  return true;
}

bool kvc::finishOutput(bool ok) { return finishStandardOutput("kvc-run") && ok; }
