//===- Profile.cpp - What ran on a device ---------------------------------===//
#include "core/Profile.h"

#include <fmt/format.h>

#include <utility>

namespace kvc::rt {

/// Names come from artifacts, which may hold anything.
static std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      result += '\\';
      result += letter;
    } else if (code < 0x20 || code >= 0x7f) {
      result += fmt::format("\\u{:04x}", code);
    } else {
      result += letter;
    }
  }
  return result + '"';
}

void Profile::add(const Dispatch &dispatch) {
  std::string entry = fmt::format("{{\"function\":{},\"kernel\":{},\"device\":{},\"items\":{},\"seconds\":{:.9f}",
                                  quoted(dispatch.function), quoted(dispatch.kernel), quoted(dispatch.device),
                                  dispatch.items, dispatch.seconds);
  if (dispatch.deviceSeconds >= 0) {
    entry += fmt::format(",\"device_seconds\":{:.9f}", dispatch.deviceSeconds);
  }
  if (!dispatch.counters.empty()) {
    entry += fmt::format(",\"counters\":{}", dispatch.counters);
  }
  std::lock_guard lock(mutex);
  text += (text.empty() ? "" : ",") + entry + "}";
}

std::string Profile::take() {
  std::lock_guard lock(mutex);
  return "[" + std::exchange(text, std::string()) + "]";
}

} // namespace kvc::rt
