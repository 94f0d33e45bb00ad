//===- Output.cpp - Files that tools write --------------------------------===//
#include "kvc/Support/Output.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"
#include <filesystem>
#include <optional>
#include <unistd.h>

using namespace kvc;
using namespace llvm;

static Error fail(StringRef path, const Twine &reason) {
  return createStringError(inconvertibleErrorCode(), "cannot write '" + path + "': " + reason);
}

namespace {
/// An output while it is written: a temporary file that will be renamed, or an open pipe or device.
class Writer {
public:
  explicit Writer(const Output &output) : output(output) {}
  Writer(Writer &&) = default;
  ~Writer() {
    if (temporary) {
      consumeError(temporary->discard());
    }
    if (descriptor >= 0) {
      close(descriptor);
    }
  }

  Error open() {
    if (output.path == "-") {
      return Error::success();
    }
    sys::fs::file_status status;
    std::error_code error = sys::fs::status(output.path, status);
    if (!error && status.type() == sys::fs::file_type::directory_file) {
      return fail(output.path, "it is a folder");
    }
    if (!error && status.type() != sys::fs::file_type::regular_file) {
      int file = -1;
      error = sys::fs::openFileForWrite(output.path, file, sys::fs::CD_OpenExisting);
      descriptor = file;
      return error ? fail(output.path, error.message()) : Error::success();
    }
    if (error && error != std::errc::no_such_file_or_directory) {
      return fail(output.path, error.message());
    }
    bool exists = !error;
    if (exists && sys::fs::access(output.path, sys::fs::AccessMode::Write)) {
      return fail(output.path, "it may not be changed");
    }
    if (std::optional<std::string> path = followLinks(output.path)) {
      target = *path;
    } else {
      return fail(output.path, "too many links");
    }
    Expected<sys::fs::TempFile> file =
        sys::fs::TempFile::create(target + ".%%%%%%%%.tmp", sys::fs::all_read | sys::fs::all_write);
    if (!file) {
      return fail(output.path, toString(file.takeError()));
    }
    temporary = std::move(*file);
    error = exists ? sys::fs::setPermissions(temporary->FD, status.permissions()) : std::error_code();
    return error ? fail(output.path, error.message()) : Error::success();
  }

  Error write() {
    if (output.path == "-") {
      outs() << output.bytes;
      outs().flush();
      std::error_code error = outs().error();
      outs().clear_error();
      return error ? fail("standard output", error.message()) : Error::success();
    }
    raw_fd_ostream os(temporary ? temporary->FD : descriptor, /*shouldClose=*/false);
    os << output.bytes;
    os.flush();
    std::error_code error = os.error();
    os.clear_error();
    return error ? fail(output.path, error.message()) : Error::success();
  }

  /// Closes the file; a temporary one gets its name.
  Error finish() {
    if (descriptor >= 0) {
      int file = std::exchange(descriptor, -1);
      return close(file) ? fail(output.path, errnoAsErrorCode().message()) : Error::success();
    }
    if (!temporary) {
      return Error::success();
    }
    Error error = temporary->keep(target);
    temporary.reset();
    return error ? fail(output.path, toString(std::move(error))) : Error::success();
  }

  /// What the path names, for comparison.
  const std::string &name() const { return target.empty() ? output.path : target; }
  bool isRegular() const { return temporary.has_value(); }

private:
  /// The path behind symbolic links, also of one whose target is not there yet.
  static std::optional<std::string> followLinks(const std::string &path) {
    std::filesystem::path at(path);
    std::error_code error;
    for (int hops = 0; hops < 40; ++hops) {
      if (!std::filesystem::is_symlink(std::filesystem::symlink_status(at, error))) {
        std::filesystem::path folder = std::filesystem::canonical(at.has_parent_path() ? at.parent_path() : ".", error);
        return error ? at.string() : (folder / at.filename()).string();
      }
      std::filesystem::path next = std::filesystem::read_symlink(at, error);
      if (error) {
        return at.string();
      }
      at = next.is_absolute() ? next : at.parent_path() / next;
    }
    return std::nullopt;
  }

  const Output &output;
  std::string target;
  std::optional<sys::fs::TempFile> temporary;
  int descriptor = -1;
};
} // namespace

Error kvc::writeOutputs(ArrayRef<Output> outputs) {
  std::vector<Writer> writers;
  writers.reserve(outputs.size());
  for (const Output &output : outputs) {
    writers.emplace_back(output);
    if (Error error = writers.back().open()) {
      return error;
    }
    for (const Writer &other : ArrayRef(writers).drop_back()) {
      if (other.name() == writers.back().name()) {
        return fail(output.path, "another result goes there too");
      }
    }
  }
  // What cannot be taken back comes last.
  for (bool isRegular : {true, false}) {
    for (Writer &writer : writers) {
      if (writer.isRegular() == isRegular) {
        if (Error error = writer.write()) {
          return error;
        }
      }
    }
  }
  for (Writer &writer : writers) {
    if (Error error = writer.finish()) {
      return error;
    }
  }
  return Error::success();
}

bool kvc::finishStandardOutput(StringRef tool) {
  outs().flush();
  std::error_code error = outs().error();
  if (!error) {
    return true;
  }
  outs().clear_error();
  WithColor::error(errs(), tool) << "cannot write standard output: " << error.message() << "\n";
  return false;
}
