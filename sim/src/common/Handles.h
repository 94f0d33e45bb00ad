//===- Handles.h - Sets of what handles of a driver stand for ---*- C++ -*-===//
#ifndef KVCSIM_COMMON_HANDLES_H
#define KVCSIM_COMMON_HANDLES_H

#include <algorithm>
#include <memory>
#include <set>

namespace kvc::sim {

template <typename T> using Handles = std::set<std::unique_ptr<T>>;

template <typename T> T *addTo(Handles<T> &set, std::unique_ptr<T> value) {
  T *pointer = value.get();
  set.insert(std::move(value));
  return pointer;
}
template <typename T> bool removeFrom(Handles<T> &set, const T *pointer) {
  return std::erase_if(set, [&](const auto &owned) { return owned.get() == pointer; }) != 0;
}
template <typename T> bool isIn(const Handles<T> &set, const T *pointer) {
  return std::any_of(set.begin(), set.end(), [&](const auto &owned) { return owned.get() == pointer; });
}

} // namespace kvc::sim

#endif // KVCSIM_COMMON_HANDLES_H
