//===- Common.h - What the parts of the device runner share -----*- C++ -*-===//
#ifndef KVC_TEST_DEVICE_COMMON_H
#define KVC_TEST_DEVICE_COMMON_H

#include "cuda/CudaDriver.h"
#include "kvc_runtime.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <stdexcept>

namespace kvc::device {

using Json = nlohmann::ordered_json;

/// A part that cannot go on; the text is for people.
class Failure : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

inline void require(const Status &status) {
  if (!status.ok()) {
    throw Failure(status.message());
  }
}
template <typename T> T require(Result<T> result) {
  require(result.status());
  return *std::move(result);
}

std::string readFile(const std::string &path);
/// The file appears as a whole, or, with a Failure, not at all.
void writeFile(const std::string &path, const std::string &text);

inline double median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The driver of a device with the device's context current in this thread.
class DriverContext {
public:
  explicit DriverContext(const std::string &device);
  ~DriverContext();
  DriverContext(const DriverContext &) = delete;

  rt::cuda::Driver &operator*() const { return *driver; }
  rt::cuda::Driver *operator->() const { return driver.get(); }
  rt::cuda::DeviceNumber device() const { return number; }
  bool isSimulated() const { return driver->simulator.device != nullptr; }
  void check(int result, const char *what) const;

private:
  std::shared_ptr<rt::cuda::Driver> driver;
  rt::cuda::DeviceNumber number = 0;
};

} // namespace kvc::device

#endif // KVC_TEST_DEVICE_COMMON_H
