//===- Inputs.cpp - Files that several commands read ----------------------===//
#include "Inputs.h"

#include "kvc/Driver/DeviceRun.h"
#include "llvm/Support/MemoryBuffer.h"

#include <nlohmann/json.hpp>

using namespace kvc;
using nlohmann::json;

Result<std::string> kvc::readFile(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer) {
    return Status(StatusCode::io, path + ": cannot read: " + buffer.getError().message());
  }
  return (*buffer)->getBuffer().str();
}

Result<std::vector<int32_t>> kvc::readIds(const std::string &path) {
  KVC_ASSIGN_OR_RETURN(std::string text, readFile(path));
  json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_object() && parsed.contains("ids")) {
    parsed = json(parsed["ids"]);
  }
  auto isId = [](const json &element) {
    return element.is_number_integer() && element >= 0 && element <= std::numeric_limits<int32_t>::max();
  };
  if (!parsed.is_array() || !std::all_of(parsed.begin(), parsed.end(), isId)) {
    return Status(StatusCode::invalidArgument,
                  path +
                      ": expects a JSON array of token ids, or an object with one as \"ids\", but got something else");
  }
  return parsed.get<std::vector<int32_t>>();
}

Status kvc::checkDevice(const std::string &device, int threads) {
  DeviceRunOptions options;
  options.device = device;
  options.threads = threads;
  llvm::Expected<runtime::DeviceHandle> opened = openDevice(options);
  return opened ? Status() : Status(StatusCode::invalidArgument, llvm::toString(opened.takeError()));
}
