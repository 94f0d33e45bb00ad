//===- Result.h - Status and value-or-error of the runtime ------*- C++ -*-===//
//
// What functions of the runtime return that can fail. No exception is thrown
// for bad input; a message says what was expected, what was found and where.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_SUPPORT_RESULT_H
#define KVC_SUPPORT_RESULT_H

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace kvc {

/// The class of a failure. The values are those of `kvc_status_code_t`.
enum class StatusCode : int {
  ok = 0,
  invalidArgument = 1, ///< the caller passed something that cannot be used
  outOfRange = 2,      ///< an index, length or capacity was exceeded
  notFound = 3,        ///< a file, name or symbol does not exist
  corrupt = 4,         ///< a file is damaged, truncated or hostile
  unsupported = 5,     ///< valid, but not implemented here
  exhausted = 6,       ///< no memory, page or other resource is left
  io = 7,              ///< the operating system refused
  internal = 8,        ///< a bug of kvc
};

/// Success, or a code with a message.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(StatusCode code, std::string message) : statusCode(code), text(std::move(message)) {
    assert(code != StatusCode::ok && "a success has no message");
  }

  bool ok() const { return statusCode == StatusCode::ok; }
  StatusCode code() const { return statusCode; }
  const std::string &message() const { return text; }

  /// The same failure with "context: " in front of its message.
  Status withContext(const std::string &context) && {
    if (!ok()) {
      text = context + ": " + text;
    }
    return std::move(*this);
  }

private:
  StatusCode statusCode = StatusCode::ok;
  std::string text;
};

/// A value, or the status that says why there is none.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : held(std::move(value)) {}
  Result(Status status) : failure(std::move(status)) { assert(!failure.ok() && "a success needs a value"); }

  bool ok() const { return held.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status &status() const { return failure; }
  const std::string &message() const { return failure.message(); }

  T &operator*() & {
    assert(ok());
    return *held;
  }
  const T &operator*() const & {
    assert(ok());
    return *held;
  }
  T &&operator*() && {
    assert(ok());
    return std::move(*held);
  }
  T *operator->() {
    assert(ok());
    return &*held;
  }
  const T *operator->() const {
    assert(ok());
    return &*held;
  }

private:
  std::optional<T> held;
  Status failure;
};

} // namespace kvc

/// Returns from the enclosing function when the status expression failed.
#define KVC_RETURN_IF_ERROR(expression)                                                                                \
  do {                                                                                                                 \
    if (::kvc::Status kvcStatus = (expression); !kvcStatus.ok())                                                       \
      return kvcStatus;                                                                                                \
  } while (false)

#define KVC_CONCAT_IMPL(a, b) a##b
#define KVC_CONCAT(a, b) KVC_CONCAT_IMPL(a, b)

/// `KVC_ASSIGN_OR_RETURN(auto x, f())`: x becomes the value of f(), or the
/// enclosing function returns the failure.
#define KVC_ASSIGN_OR_RETURN(declaration, expression)                                                                  \
  auto KVC_CONCAT(kvcResult, __LINE__) = (expression);                                                                 \
  if (!KVC_CONCAT(kvcResult, __LINE__).ok())                                                                           \
    return KVC_CONCAT(kvcResult, __LINE__).status();                                                                   \
  declaration = *std::move(KVC_CONCAT(kvcResult, __LINE__))

#endif // KVC_SUPPORT_RESULT_H
