//===- WriteArtifact.cpp - Writes the test module to a file ---------------===//
//
// Usage: kvc_write_test_artifact FILE.kvca
//
//===----------------------------------------------------------------------===//
#include "support/TestModule.h"

#include <iostream>

int main(int argc, char **argv) {
  if (argc != 2) {
    std::cerr << "usage: kvc_write_test_artifact FILE.kvca\n";
    return 2;
  }
  kvc::Status status = kvc::artifact::writeFile(argv[1], kvc::test::sealed(kvc::test::testModule()));
  if (!status.ok()) {
    std::cerr << status.message() << '\n';
    return 1;
  }
  return 0;
}
