//===- Kvca.cpp - Fuzzer of the artifact verifier -------------------------===//
//
// The input is the payload: a random one would never pass the checksum of the
// header, so the header is made here.
//
//===----------------------------------------------------------------------===//
#include "artifact/Artifact.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto sealed = kvc::artifact::seal({data, size});
  if (!sealed.ok()) {
    return 0;
  }
  // What the writer accepts, the reader accepts.
  auto artifact = kvc::artifact::Artifact::fromBytes(*std::move(sealed));
  if (!artifact.ok()) {
    std::abort();
  }
  return 0;
}
