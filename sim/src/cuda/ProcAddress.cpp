//===- ProcAddress.cpp - cuGetProcAddress ---------------------------------===//
#include "cuda/Driver.h"

using namespace kvc::sim;
using namespace kvc::sim::cuda;

// Declared as what they are not: only their addresses are taken here.
#define KVCSIM_FUNCTION(name) extern "C" int name(...);
#include "cuda/Functions.inc"
#undef KVCSIM_FUNCTION

KVCSIM_API cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status) {
  static const std::pair<std::string_view, void *> table[] = {
#define KVCSIM_FUNCTION(name) {#name, reinterpret_cast<void *>(name)},
#include "cuda/Functions.inc"
#undef KVCSIM_FUNCTION
      {"cuGetProcAddress", reinterpret_cast<void *>(cuGetProcAddress_v2)},
      {"cuGetProcAddress_v2", reinterpret_cast<void *>(cuGetProcAddress_v2)},
      // The header gives this name to its successor.
      {"cuGraphInstantiate", reinterpret_cast<void *>(cuGraphInstantiateWithFlags)},
  };
  return guarded([&]() -> Result {
    if (!symbol || !function) {
      return error(InvalidValue, "expects the name of a function");
    }
    *function = nullptr;
    // A name without a version is its newest one.
    const std::string_view wanted = symbol;
    size_t newest = 0;
    for (auto [name, address] : table) {
      const bool versioned = name.size() > wanted.size() && name.substr(0, wanted.size()) == wanted &&
                             name.substr(wanted.size(), 2) == "_v" && name.size() == wanted.size() + 3;
      const size_t rank = name == wanted ? 1 : versioned ? size_t(name.back() - '0') : 0;
      if (rank > newest) {
        newest = rank;
        *function = address;
      }
    }
    // 0: found, 1: no such symbol.
    if (status) {
      *status = newest ? 0 : 1;
    }
    return newest ? Success
                  : error(NotFound, fmt::format("expects a function that the simulator has, but got {}", symbol));
  });
}
