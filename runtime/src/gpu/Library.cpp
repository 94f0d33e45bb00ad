//===- Library.cpp - Libraries of GPU drivers, found at run time ----------===//
#include "gpu/Library.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <mutex>

namespace kvc::rt::gpu {

Result<void *> openLibrary(const std::vector<std::string> &libraries, std::string_view what) {
  std::string tried;
  for (const std::string &library : libraries) {
    if (void *handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return handle;
    }
    tried += (tried.empty() ? "" : "; ") + std::string(::dlerror());
  }
  return Status(StatusCode::notFound, fmt::format("expects a library with {}, but found none: {}", what, tried));
}

std::vector<std::string> simulatorLibraries(const std::string &file, const char *variable) {
  std::vector<std::string> libraries;
  if (const char *named = std::getenv(variable)) {
    return {named};
  }
  Dl_info here;
  if (::dladdr(reinterpret_cast<const void *>(&simulatorLibraries), &here) && here.dli_fname) {
    std::string path = here.dli_fname;
    size_t slash = path.rfind('/');
    std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
    libraries.push_back(folder + "/" + file);
    libraries.push_back(folder + "/../lib/" + file);
  }
  libraries.push_back(file);
  return libraries;
}

bool isWholeElf(std::span<const uint8_t> bytes) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof(header) || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0) {
    return false;
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  const uint64_t table = uint64_t(header.e_shnum) * header.e_shentsize;
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shoff > bytes.size() ||
      table > bytes.size() - header.e_shoff) {
    return false;
  }
  for (size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, bytes.data() + header.e_shoff + i * sizeof(section), sizeof(section));
    if (section.sh_type != SHT_NOBITS &&
        (section.sh_offset > bytes.size() || section.sh_size > bytes.size() - section.sh_offset)) {
      return false;
    }
  }
  return true;
}

Result<int> parseOrdinal(std::string_view name) {
  const size_t colon = name.find(':');
  std::string_view kind = name.substr(0, colon), which = name.substr(colon + 1);
  int ordinal = 0;
  auto [end, error] = std::from_chars(which.data(), which.data() + which.size(), ordinal);
  if (error != std::errc() || end != which.data() + which.size() || ordinal < 0) {
    return Status(StatusCode::notFound, fmt::format("expects a device such as {}:0, but got '{}'", kind, name));
  }
  return ordinal;
}

SimulatorFunctions SimulatorFunctions::of(void *library) {
  SimulatorFunctions functions;
  auto find = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
  };
  find(functions.device, "kvcsim_device");
  find(functions.lastError, "kvcsim_last_error");
  find(functions.setOption, "kvcsim_set_option");
  find(functions.takeReport, "kvcsim_take_report");
  return functions;
}

std::string SimulatorFunctions::explanation() const {
  const char *more = lastError ? lastError() : nullptr;
  return more && *more ? ": " + std::string(more) : std::string();
}

int SimulatorFunctions::counted(const std::function<int()> &launch, std::string &counters) const {
  if (!setOption || !takeReport) {
    return launch();
  }
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  (void)takeReport(); // of launches that nobody asked for
  (void)setOption("collect", "on");
  int result = launch();
  // An array of one object.
  std::string_view reports = takeReport();
  (void)setOption("collect", "off");
  counters = reports.size() > 2 ? reports.substr(1, reports.size() - 2) : std::string_view();
  return result;
}

} // namespace kvc::rt::gpu
