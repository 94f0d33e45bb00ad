//===- Gguf.cpp - Fuzzer of the GGUF reader -------------------------------===//
//
// Opens the input as a GGUF file, decodes a row of every tensor, and tries to
// make a tokenizer of it.
//
//===----------------------------------------------------------------------===//
#include "gguf/File.h"
#include "text/Tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto file = kvc::gguf::File::parse(std::as_bytes(std::span(data, size)), "fuzz");
  if (!file.ok()) {
    return 0;
  }
  auto tokenizer = kvc::text::Tokenizer::fromGguf(*file);
  if (tokenizer.ok()) {
    (void)tokenizer->encode("Hello, world 123");
  }
  return 0;
}
