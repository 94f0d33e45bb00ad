#!/usr/bin/env python3
# Installs the runtime, builds the example project against it with find_package(kvc), and runs the programs.
import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

parser = argparse.ArgumentParser()
for name in ("cmake", "build", "examples", "cc", "cxx", "writer"):
    parser.add_argument(f"--{name}", required=True)
args = parser.parse_args()


def run(*command, status=0):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != status:
        sys.exit(f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout + done.stderr


def expect(text, output):
    if text not in output:
        sys.exit(f"expects '{text}' in the output, but got:\n{output}")


with tempfile.TemporaryDirectory() as folder:
    folder = Path(folder)
    prefix, build, artifact = folder / "prefix", folder / "build", folder / "test.kvca"
    run(args.cmake, "--install", args.build, "--component", "runtime", "--prefix", prefix)
    run(args.cmake, "-G", "Ninja", "-S", args.examples, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DCMAKE_C_COMPILER={args.cc}", f"-DCMAKE_CXX_COMPILER={args.cxx}", "-DCMAKE_BUILD_TYPE=Release")
    run(args.cmake, "--build", build)
    run(args.writer, artifact)

    output = run(build / "call", artifact, "scale", 1, 2.5, -3, 2)
    expect("scale(x: tensor, factor: real)", output)
    expect("2 5 -6\n", output)
    expect("expects one of the functions", run(build / "call", artifact, "nothing", 1, status=1))
    expect("no-such-file", run(build / "call", folder / "no-such-file", "scale", 1, status=1))

    lines = run(build / "sequences", artifact, "layers").splitlines()
    # Sums over the second layer: all rows are ones of width 4.
    expect("40 12 | 8 pages", lines[0])
    expect("44 44 | 10 pages", lines[1])
    expect("24 | 10 pages", lines[2])
    expect("28 48 | 8 pages", lines[3])
print("ok")
