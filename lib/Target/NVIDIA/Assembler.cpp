//===- Assembler.cpp - PTX to cubin by ptxas ------------------------------===//
#include "Codegen.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace kvc;

static llvm::ErrorOr<std::string> findAssembler() {
  if (std::optional<std::string> home = llvm::sys::Process::GetEnv("CUDA_HOME")) {
    llvm::SmallString<128> bin(*home);
    llvm::sys::path::append(bin, "bin");
    if (llvm::ErrorOr<std::string> found = llvm::sys::findProgramByName("ptxas", {bin})) {
      return found;
    }
  }
  if (llvm::ErrorOr<std::string> found = llvm::sys::findProgramByName("ptxas")) {
    return found;
  }
  return llvm::sys::findProgramByName("ptxas", {"/usr/local/cuda/bin"});
}

/// Reads what `ptxas -v` says: a line that names an entry, then lines with its figures.
llvm::StringMap<TeamResources> nvidia::readResources(StringRef log) {
  llvm::StringMap<TeamResources> kernels;
  llvm::Regex entry("Compiling entry function '([^']+)'"), registers("Used ([0-9]+) registers"),
      frame("([0-9]+) bytes stack frame, ([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads");
  TeamResources *current = nullptr;
  SmallVector<StringRef> lines, matches;
  log.split(lines, '\n');
  auto number = [](StringRef text) {
    uint32_t value = 0;
    (void)text.getAsInteger(10, value);
    return value;
  };
  for (StringRef line : lines) {
    if (entry.match(line, &matches)) {
      current = &kernels[matches[1]];
    } else if (current && registers.match(line, &matches)) {
      current->registers = number(matches[1]);
    } else if (current && frame.match(line, &matches)) {
      // A frame without spills is local memory too.
      current->spillBytes = std::max(number(matches[1]), number(matches[2]) + number(matches[3]));
    }
  }
  return kernels;
}

StringRef nvidia::assemblerVersion() {
  static const std::string version = [] {
    llvm::ErrorOr<std::string> ptxas = findAssembler();
    llvm::SmallString<128> output;
    if (!ptxas || llvm::sys::fs::createTemporaryFile("kvc-ptxas", "txt", output)) {
      return std::string();
    }
    llvm::FileRemover remove(output);
    int code = llvm::sys::ExecuteAndWait(*ptxas, {*ptxas, "--version"}, std::nullopt,
                                         {StringRef(), StringRef(output), StringRef(output)});
    auto text = llvm::MemoryBuffer::getFile(output);
    return code == 0 && text ? (*text)->getBuffer().str() : std::string();
  }();
  return version;
}

/// What the assembler says of code that it had to change: products that it runs one after the other, registers that it
/// does not move. Empty when there is nothing.
static StringRef findComplaint(StringRef log) {
  SmallVector<StringRef> lines;
  log.split(lines, '\n');
  llvm::Regex numbered("\\(C7[0-9]+\\)");
  for (StringRef line : lines) {
    if (line.contains("Potential Performance Loss") || line.contains("setmaxnreg") || numbered.match(line)) {
      return line;
    }
  }
  return {};
}

FailureOr<nvidia::Cubin> nvidia::assemble(Location location, StringRef ptx, const Target &target) {
  auto fail = [&](const llvm::Twine &message) { return FailureOr<Cubin>(emitError(location) << message); };
  llvm::ErrorOr<std::string> ptxas = findAssembler();
  if (!ptxas) {
    return fail("expects ptxas of a CUDA toolkit in $CUDA_HOME/bin, PATH or /usr/local/cuda/bin, but found none");
  }
  auto temporary = [&](StringRef suffix, llvm::SmallVectorImpl<char> &path) {
    return llvm::sys::fs::createTemporaryFile("kvc-ptxas", suffix, path);
  };
  llvm::SmallString<128> input, output, errors;
  for (auto [suffix, path] :
       {std::pair<StringRef, llvm::SmallString<128> *>{"ptx", &input}, {"cubin", &output}, {"txt", &errors}}) {
    if (std::error_code error = temporary(suffix, *path)) {
      return fail("cannot make a temporary file: " + error.message());
    }
  }
  llvm::FileRemover removeInput(input), removeOutput(output), removeErrors(errors);
  {
    std::error_code error;
    llvm::raw_fd_ostream os(input, error);
    if (!error) {
      os << ptx;
      os.close();
      error = os.error();
    }
    if (error) {
      os.clear_error();
      return fail("cannot write '" + input + "': " + error.message());
    }
  }
  std::string architecture = ("-arch=" + target.cpu).str();
  // For the sake of its lines the whole PTX would be in the cubin too; an artifact has it anyhow.
  SmallVector<StringRef> arguments{*ptxas, "-v", "--suppress-debug-info", architecture, input, "-o", output};
  std::string message;
  int code = llvm::sys::ExecuteAndWait(*ptxas, arguments, std::nullopt,
                                       {StringRef(), StringRef(errors), StringRef(errors)}, 0, 0, &message);
  auto log = llvm::MemoryBuffer::getFile(errors);
  StringRef said = log ? (*log)->getBuffer() : StringRef();
  if (code != 0) {
    return fail("ptxas refuses the code of target " + target.name + ": " + (message.empty() ? said.str() : message));
  }
  if (StringRef complaint = findComplaint(said); !complaint.empty()) {
    return fail("ptxas does not take the code of target " + target.name + " as it was meant: " + complaint.trim());
  }
  auto bytes = llvm::MemoryBuffer::getFile(output, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!bytes) {
    return fail("cannot read what ptxas wrote: " + bytes.getError().message());
  }
  Cubin cubin;
  cubin.bytes.assign((*bytes)->getBufferStart(), (*bytes)->getBufferEnd());
  cubin.log = said.str();
  return cubin;
}
