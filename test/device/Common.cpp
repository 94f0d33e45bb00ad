//===- Common.cpp - What the parts of the device runner share -------------===//
#include "Common.h"

#include <cstdio>
#include <fstream>
#include <sstream>
#include <unistd.h>

using namespace kvc;
using namespace kvc::device;

std::string device::readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    throw Failure("cannot read '" + path + "'");
  }
  return std::move(text).str();
}

void device::writeFile(const std::string &path, const std::string &text) {
  const std::string beside = fmt::format("{}.{}.tmp", path, getpid());
  std::ofstream file(beside, std::ios::binary);
  file << text;
  file.close();
  if (!file || std::rename(beside.c_str(), path.c_str()) != 0) {
    std::remove(beside.c_str());
    throw Failure("cannot write '" + path + "'");
  }
}

DriverContext::DriverContext(const std::string &device) {
  auto found = require(rt::gpu::DriverDevice<rt::cuda::Driver>::find(device));
  driver = std::move(found.driver);
  check(driver->cuDeviceGet(&number, found.ordinal), "cannot open the device");
  rt::cuda::Context context = nullptr;
  check(driver->cuDevicePrimaryCtxRetain(&context, number), "cannot make a context");
  check(driver->cuCtxSetCurrent(context), "cannot use the context");
}

DriverContext::~DriverContext() { (void)driver->cuDevicePrimaryCtxRelease_v2(number); }

void DriverContext::check(int result, const char *what) const {
  if (result != rt::gpu::success) {
    throw Failure(driver->failure(result, what).message());
  }
}
