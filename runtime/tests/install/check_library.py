#!/usr/bin/env python3
# The runtime library needs no LLVM and shows only its C interface: reads ldd and nm.
import re
import subprocess
import sys


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


library = sys.argv[1]
problems = []

needed = run("ldd", library)
if "libc.so" not in needed:
    problems.append(f"expects ldd to list libraries, but got: {needed}")
problems += [f"needs {line.strip()}" for line in needed.splitlines() if re.search(r"llvm|mlir|clang", line, re.I)]

symbols = run("nm", "-D", library) + run("nm", library)
if "kvc_module_call" not in symbols:
    problems.append("expects nm to list kvc_module_call, but it does not")
problems += [f"has the symbol {line}" for line in symbols.splitlines()
             if re.search(r"llvm|mlir", line, re.I)]

exported = [line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()]
problems += [f"exports {name}" for name in exported if not name.startswith("kvc_")]

for problem in problems:
    print(f"{library}: {problem}")
sys.exit(1 if problems else 0)
