//===- Link.cpp - Objects to one file by ld.lld ---------------------------===//
#include "kvc/Target/LLVM/CodeGeneration.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

using namespace mlir;
using namespace kvc;

FailureOr<std::string> kvc::linkObjects(Location location, ArrayRef<std::string> objects, ArrayRef<StringRef> options) {
  auto fail = [&](const llvm::Twine &message) { return FailureOr<std::string>(emitError(location) << message); };
  llvm::ErrorOr<std::string> linker = std::make_error_code(std::errc::no_such_file_or_directory);
  for (auto [name, folders] :
       {std::pair<StringRef, StringRef>{"ld.lld", KVC_LLVM_TOOLS}, {"ld.lld-22", ""}, {"ld.lld", ""}}) {
    linker = folders.empty() ? llvm::sys::findProgramByName(name) : llvm::sys::findProgramByName(name, {folders});
    if (linker) {
      break;
    }
  }
  if (!linker) {
    return fail("expects the linker ld.lld in " KVC_LLVM_TOOLS " or in PATH, but found none");
  }
  llvm::SmallString<128> folder;
  if (std::error_code error = llvm::sys::fs::createUniqueDirectory("kvc-link", folder)) {
    return fail("cannot make a temporary folder: " + error.message());
  }
  std::vector<std::unique_ptr<llvm::FileRemover>> removers;
  auto file = [&](const llvm::Twine &name) {
    std::string path = (folder + "/" + name).str();
    removers.push_back(std::make_unique<llvm::FileRemover>(path));
    return path;
  };
  // The folder goes when all files in it are gone.
  struct FolderRemover {
    StringRef folder;
    std::vector<std::unique_ptr<llvm::FileRemover>> &removers;
    ~FolderRemover() {
      removers.clear();
      (void)llvm::sys::fs::remove(folder);
    }
  } remover{folder, removers};

  std::string output = file("kernels.so"), errors = file("errors.txt");
  std::vector<std::string> arguments{*linker, "--threads=1", "-o", output};
  llvm::append_range(arguments, llvm::map_range(options, [](StringRef option) { return option.str(); }));
  for (auto [i, object] : llvm::enumerate(objects)) {
    std::string path = file(llvm::Twine(i) + ".o");
    std::error_code error;
    llvm::raw_fd_ostream os(path, error);
    if (!error) {
      os << object;
      os.close();
      error = os.error();
    }
    if (error) {
      os.clear_error();
      return fail("cannot write '" + path + "': " + error.message());
    }
    arguments.push_back(path);
  }
  std::vector<StringRef> refs(arguments.begin(), arguments.end());
  std::string message;
  int code = llvm::sys::ExecuteAndWait(*linker, refs, std::nullopt, {StringRef(), StringRef(), StringRef(errors)}, 0, 0,
                                       &message);
  if (code != 0) {
    if (auto text = llvm::MemoryBuffer::getFile(errors)) {
      message += (*text)->getBuffer().str();
    }
    return fail("ld.lld failed: " + message);
  }
  auto linked = llvm::MemoryBuffer::getFile(output);
  if (!linked) {
    return fail("cannot read what ld.lld wrote: " + linked.getError().message());
  }
  return (*linked)->getBuffer().str();
}
