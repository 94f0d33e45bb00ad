# Instructions of NVIDIA's machine code, each as often as the simulator ran the PTX that it came from.
import collections
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def tool(name):
    folders = [os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin"), os.environ.get("PATH", ""),
               "/usr/local/cuda/bin", str(ROOT / ".cache/cuda/bin")]
    found = shutil.which(name, path=os.pathsep.join(folders))
    if not found:
        raise SystemExit(f"expects {name} of a CUDA toolkit, but found none; utils/setup fetches it")
    return found


def run(command, **environment):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment})
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


# Classes of machine instructions, by the beginnings of their names; what fits none is "int".
CLASSES = [("mma", ("HMMA", "IMMA", "QMMA", "HGMMA", "IGMMA")), ("mufu", ("MUFU",)),
           ("f32", ("FADD", "FMUL", "FFMA", "FMNMX", "FSEL", "FSET", "FCHK")),
           ("f16", ("HADD2", "HFMA2", "HMUL2", "HMNMX2", "HSET", "F2FP", "F2F", "I2F", "F2I", "I2FP")),
           ("shared", ("LDSM", "LDS", "STS", "STSM")), ("copy", ("LDGSTS", "LDG", "STG", "LDGDEPBAR", "UTMA", "UBLK")),
           ("shfl", ("SHFL",)), ("bar", ("BAR", "SYNCS", "WARPSYNC", "DEPBAR"))]


def class_of(opcode):
    return next((name for name, prefixes in CLASSES if opcode.startswith(prefixes)), "int")


STATEMENT = re.compile(r"^\s*(@!?[%\w]+\s+)?[a-z][\w.:]*(\s|;)")


def with_lines(ptx):
    """The text with its own numbers of lines as the only line information."""
    result, depth = [], 0
    for number, line in enumerate(ptx.splitlines(), 1):
        text = line.strip()
        if text.startswith((".loc", ".file")):
            continue
        # Pieces of assembly have scopes of their own within a kernel's.
        depth += (text == "{") - (text == "}")
        if depth and STATEMENT.match(line):
            result.append(f".loc 1 {number} 0")
        result.append(line)
        if text.startswith(".address_size"):
            result.append('.file 1 "kernel.ptx"')
    return "\n".join(result) + "\n"


@dataclass
class Block:
    """A basic block of machine code: opcodes with their lines of the PTX, its label and the one it ends in a branch to."""
    label: str = ""
    code: list = field(default_factory=list)
    target: str = ""

    def tries(self):
        return any("TRYWAIT" in opcode for opcode, _ in self.code)


def machine_code(ptx, target, kernel, folder):
    """Blocks of a kernel."""
    (folder / "lines.ptx").write_text(with_lines(ptx))
    run([tool("ptxas"), f"-arch={target}", "-lineinfo", folder / "lines.ptx", "-o", folder / "lines.cubin"])
    path = os.pathsep.join([os.environ.get("PATH", ""), str(Path(tool("nvdisasm")).parent)])
    text = run([tool("nvdisasm"), "-c", "-g", folder / "lines.cubin"], PATH=path)
    blocks, line, inside = [Block()], 0, False
    for entry in text.splitlines():
        if entry.startswith(".section") or entry.lstrip().startswith(".section"):
            inside = f".text.{kernel}," in entry
        elif entry.startswith(f".text.{kernel}:"):
            inside = True
        if not inside:
            continue
        if entry.startswith("$__internal"):
            # A subroutine of the assembler: what division does with numbers near the ends of the range. It has no lines,
            # and no case comes there.
            line = 0
            blocks.append(Block())
            continue
        found = re.search(r'//## File ".*?", line (\d+)', entry)
        if found:
            line = int(found.group(1))
            continue
        found = re.match(r"^(\.L_\w+):", entry)
        if found:
            blocks.append(Block(found.group(1)))
            continue
        found = re.match(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", entry)
        if found:
            opcode = found.group(1)
            blocks[-1].code.append((opcode, line))
            if opcode.split(".")[0] in ("BRA", "EXIT", "BRX", "RET", "CALL"):
                to = re.search(r"`\((\.L_\w+)\)", entry)
                blocks[-1].target = to.group(1) if to else ""
                blocks.append(Block())
    return [block for block in blocks if block.code or block.label]


def waits(ptx):
    """Lines of loops that wait for a phase, a try and the branch back to it, by their lines."""
    groups, lines = {}, ptx.splitlines()
    for number, line in enumerate(lines, 1):
        if "mbarrier.try_wait" in line:
            group = frozenset({number, number + 1} if " bra" in lines[number] else {number})
            groups.update(dict.fromkeys(group, group))
    return groups


def frequencies(blocks, issued, groups):
    """How often each block runs: as often as most of its lines were issued, where there are some those of which the
    assembler made no copies elsewhere. A wait is a try and, elsewhere, a loop that tries again: that runs as often as the
    line was issued beyond the first tries. The simulator puts a waiting warp aside until the phase is over, so that is 0
    unless a try gives up."""
    result = []
    copies = collections.Counter(line for block in blocks for line in {line for _, line in block.code})
    for block in blocks:
        lines = [line for _, line in block.code if line in issued]
        votes = collections.Counter(issued[line] for line in lines if copies[line] == 1)
        votes = votes or collections.Counter(issued[line] for line in lines)
        # A tie goes to the rarer: what was moved out of a loop came from more often.
        result.append(min(votes, key=lambda value: (-votes[value], value)) if votes else 0)
    places = {block.label: i for i, block in enumerate(blocks) if block.label}
    group_of = [next((groups[line] for _, line in block.code if line in groups), None) for block in blocks]
    first = {}
    for i, block in enumerate(blocks):
        if not block.tries() or block.target in ("", block.label):
            continue
        # A failed try branches to the next ones, maybe through a block in front of their loop.
        j = places.get(block.target, i)
        path = [j]
        while not blocks[j].tries() and not blocks[j].target and j + 1 < len(blocks):
            j += 1
            path.append(j)
        if j != i and blocks[j].tries() and group_of[j]:
            first[group_of[j]] = result[i], path
    for i, block in enumerate(blocks):
        group = next((group for group, (_, path) in first.items() if i in path), None)
        if not group and group_of[i] in first and all(line in group_of[i] for _, line in block.code):
            group = group_of[i]
        if group:
            result[i] = max(0, max(issued.get(line, 0) for line in group) - first[group][0])
    return result


def weighted(blocks, issued, groups):
    """Instructions by class, each as often as its block runs."""
    sums = collections.Counter()
    for block, often in zip(blocks, frequencies(blocks, issued, groups)):
        for opcode, _ in block.code:
            if opcode == "NOP":
                continue
            sums[class_of(opcode)] += often
    return sums


def counted(ptx, target, kernel, instructions, folder):
    """Machine instructions by class of a kernel, from the simulator's counters of its PTX instructions."""
    issued, lines = {}, ptx.splitlines()
    for instruction in instructions:
        if not instruction["line"]:
            continue  # the end of a kernel that has none
        text = next(word for word in instruction["text"].split() if not word.startswith("@")).rstrip(";")
        if text not in lines[instruction["line"] - 1]:
            raise SystemExit(f"expects `{text}` in line {instruction['line']} of {kernel}'s PTX, but got "
                             f"`{lines[instruction['line'] - 1].strip()}`: not what the simulator ran")
        issued[instruction["line"]] = max(issued.get(instruction["line"], 0), instruction["issued"])
    return weighted(machine_code(ptx, target, kernel, folder), issued, waits(ptx))
