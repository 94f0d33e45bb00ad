//===- Driver.cpp - The interface of a GPU's driver -----------------------===//
#include "gpu/Driver.h"

#include <fmt/format.h>

#include <cstdlib>
#include <dlfcn.h>

namespace kvc::rt::gpu {

Status Driver::load(const std::vector<std::string> &libraries) {
  KVC_ASSIGN_OR_RETURN(void *handle, openLibrary(libraries, vendor.title));
  std::vector<Symbol> symbols{
#define KVC_GPU_SYMBOL(name, ...) {vendor.functions.name, reinterpret_cast<void **>(&name)},
      KVC_GPU_FUNCTIONS(KVC_GPU_SYMBOL)
#undef KVC_GPU_SYMBOL
  };
  for (Symbol symbol : ownSymbols()) {
    symbols.push_back(symbol);
  }
  for (auto [name, place, isNeeded] : symbols) {
    *place = ::dlsym(handle, name);
    if (!*place && isNeeded) {
      return {StatusCode::unsupported,
              fmt::format("expects {} with the function '{}', but it has none", vendor.library, name)};
    }
  }
  simulator = SimulatorFunctions::of(handle);
  const int result = initialize(0);
  return result ? failure(result, fmt::format("cannot initialise {}", vendor.title)) : Status();
}

Result<int> Driver::open(std::string_view name) {
  const size_t colon = name.find(':');
  if (name.substr(0, colon) == "sim") {
    KVC_RETURN_IF_ERROR(load(simulatorLibraries(vendor.simulatorFile, vendor.simulatorVariable)));
    if (!simulator.device) {
      return Status(StatusCode::unsupported, "expects the simulator behind a device 'sim:...', but got another driver");
    }
    const int ordinal = simulator.device(std::string(name.substr(colon + 1)).c_str());
    if (ordinal < 0) {
      return Status(StatusCode::notFound, fmt::format("expects a chip that the simulator knows, such as sim:{}, but "
                                                      "got '{}'",
                                                      vendor.simulatedChip, name));
    }
    return ordinal;
  }
  KVC_ASSIGN_OR_RETURN(const int ordinal, parseOrdinal(name));
  const char *named = std::getenv(vendor.variable);
  KVC_RETURN_IF_ERROR(load(named ? std::vector<std::string>{named} : vendor.files));
  if (simulator.device && !named) {
    // It has the driver's soname: the loader gives it to whoever asks for the driver once it is loaded.
    return Status(StatusCode::unsupported, fmt::format("expects {} behind the device '{}', but got the simulator; use "
                                                       "sim:<chip>, or name a library in {}",
                                                       vendor.driver, name, vendor.variable));
  }
  int count = 0;
  if (int result = countDevices(&count)) {
    return failure(result, "cannot count the devices");
  }
  if (ordinal >= count) {
    return Status(StatusCode::notFound,
                  fmt::format("expects one of {} {} devices, but got '{}'", count, vendor.name, name));
  }
  return ordinal;
}

int Driver::timed(Stream stream, const std::function<int()> &work, double &seconds) const {
  Event events[2] = {};
  int result = success;
  auto then = [&](auto call) {
    if (result == success) {
      result = call();
    }
  };
  for (Event &event : events) {
    then([&] { return createEvent(&event, 0); });
  }
  then([&] { return recordEvent(events[0], stream); });
  then(work);
  then([&] { return recordEvent(events[1], stream); });
  then([&] { return synchronizeEvent(events[1]); });
  float milliseconds = 0;
  then([&] { return elapsedTime(&milliseconds, events[0], events[1]); });
  seconds = double(milliseconds) / 1e3;
  for (Event event : events) {
    if (event) {
      (void)destroyEvent(event);
    }
  }
  return result;
}

std::string Driver::reason(int result) const {
  auto [name, text] = describe(result);
  return fmt::format("{} ({}){}", name ? name : "error " + std::to_string(result), text ? text : "",
                     simulator.explanation());
}

Status Driver::failure(int result, const std::string &what) const {
  const char *hint = nullptr;
  StatusCode code = StatusCode::internal;
  switch (result) {
  case outOfMemory:
    code = StatusCode::exhausted;
    break;
  case invalidImage:
    code = StatusCode::corrupt;
    break;
  case noBinaryForGpu:
    code = StatusCode::unsupported;
    break;
  default:
    code = statusOf(result, hint);
  }
  return {code, what + ": " + reason(result) + (hint ? hint : "")};
}

} // namespace kvc::rt::gpu
