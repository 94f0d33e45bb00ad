# How an instruction of AMD's chips is broken, and when that changes nothing.
"""Kinds of mutants of AMDGCN assembly, and rules of those that are none: for amd_mutants.py and sim/tests/amdgcn/mutants.py."""
import re
import subprocess

from mutation import ORDERED_OTHERWISE, Kind, Rule, branches, drop

LLVM = "/usr/lib/llvm-22/bin"


def assemble(text, chip, path):
    """The code object of an assembly. Raises subprocess.CalledProcessError."""
    subprocess.run([f"{LLVM}/clang", "-x", "assembler", "-target", "amdgcn-amd-amdhsa", f"-mcpu={chip}", "-", "-o", str(path)],
                   input=text, text=True, check=True, capture_output=True)


def instructions(text):
    """(kernel, line from 0, text) of the instructions of all functions."""
    kernel = None
    for number, line in enumerate(text.splitlines()):
        line = line.split(";")[0].rstrip()
        found = re.fullmatch(r"(\w+):", line)
        if found:
            kernel = found[1]
        elif line.startswith(".Lfunc_end"):
            kernel = None
        elif kernel and re.match(r"\t[a-z]\w+(\s|$)", line):
            yield kernel, number, line


def raise_count(line):
    """The first counter of a wait lets one more operation be on its way."""
    if re.search(r"\bs_wait_\w+cnt\s", line):
        return re.sub(r"0x([0-9a-f]+)|(\d+)$", lambda m: hex(int(m[1] or "0", 16) + int(m[2] or 0) + 1), line, count=1)
    return re.sub(r"cnt\((\d+)\)", lambda m: f"cnt({int(m[1]) + 1})", line, count=1)


def drop_distance(line, after):
    """What keeps instructions apart; that before registers are given back is about no result."""
    return line if re.match(r"\s*s_sendmsg", after) else ""


def all_lanes(line):
    """The lanes stay as they are."""
    saved = re.match(r"\ts_(?:and|andn2|and_not1)_saveexec_b(32|64) ([^,]+), ", line)
    if saved:
        return f"\ts_mov_b{saved[1]} {saved[2]}, exec{'_lo' if saved[1] == '32' else ''}"
    return drop(line)


def choose(which):
    """A selection always takes its operand 1 or 2."""
    def change(line):
        found = re.match(r"\tv_cndmask_b32(?:_e32|_e64)? (v\d+), ([^,|]+), ([^,|]+), (?:vcc|vcc_lo|s\d+|s\[\d+:\d+\])\s*$", line)
        return f"\tv_mov_b32_e32 {found[1]}, {found[1 + which].strip()}" if found and "-v" not in line else line
    return change


def move_lanes(line):
    """The permutation of a DPP instruction becomes another one of the same form."""
    line, count = re.subn(r"quad_perm:\[(\d),(\d),(\d),(\d)\]", r"quad_perm:[\2,\3,\4,\1]", line)
    if count:
        return line
    line, count = re.subn(r"row_(shl|shr|share|newbcast):(\d+)", lambda m: f"row_{m[1]}:{int(m[2]) % 15 + 1}", line)
    if count:
        return line
    # Of the exchanges that add up lanes, one with a distance that another has, too: a partner that differs in further bits
    # gives the same sum.
    line, count = re.subn(r"row_(ror|xmask):(\d+)", lambda m: f"row_{m[1]}:{int(m[2]) // 2 or 2}", line)
    if count:
        return line
    for a, b in (("row_half_mirror", "row_mirror"), ("row_mirror", "row_half_mirror"), ("row_bcast:15", "row_shr:1"),
                 ("row_bcast:31", "row_bcast:15")):
        if a in line:
            return line.replace(a, b)
    return line


def move_swizzle(line):
    """A bit of what lanes of ds_swizzle_b32 exchange."""
    line, count = re.subn(r'BITMASK_PERM,\s*"(....)(.)"', lambda m: f'BITMASK_PERM,"{m[1]}{"p" if m[2] == "i" else "i"}"', line)
    if count:
        return line
    line, count = re.subn(r"swizzle\((SWAP|REVERSE),(\d+)\)", lambda m: f"swizzle({m[1]},{int(m[2]) // 2 if int(m[2]) > 2 else 4})", line)
    if count:
        return line
    line, count = re.subn(r"swizzle\(QUAD_PERM,(\d),(\d),(\d),(\d)\)", r"swizzle(QUAD_PERM,\2,\3,\4,\1)", line)
    return line if count else re.sub(r"offset:(\d+)", lambda m: f"offset:{int(m[1]) ^ 0x400}", line)


def other_lane(line):
    for a, b in (("v_permlanex16_b32", "v_permlane16_b32"), ("v_permlane32_swap", "v_permlane16_swap"),
                 ("v_permlane16_swap", "v_permlane32_swap")):
        if a in line:
            return line.replace(a, b)
    if "bpermute" in line:
        return add_offset(line, 4, 65535)
    return re.sub(r"(v_(?:read|write)lane_b32.*, )(\d+)$", lambda m: f"{m[1]}{int(m[2]) ^ 1}", line)


def add_offset(line, step, most):
    """The offset of an access, one further (or back at the end of what fits)."""
    found = re.search(r" offset:(-?\d+)", line)
    old = int(found[1]) if found else 0
    new = old + step if old + step <= most else old - step
    if found:
        return line[:found.start()] + f" offset:{new}" + line[found.end():]
    # Offsets stand in front of cache policies.
    end = re.search(r"(\s+(sc[01]|nt|[gsd]lc|th:\w+|scope:\w+))*\s*$", line).start()
    return line[:end] + f" offset:{new}" + line[end:].rstrip()


def shift_lds(line):
    if re.search(r"(read|write|load|store)_?2", line):
        found = re.search(r" offset0:(\d+)", line)
        if found:
            return line.replace(found[0], f" offset0:{(int(found[1]) + 1) % 256}")
        # The first offset stands in front of the second; one of zero is not printed.
        second = re.search(r" offset1:(\d+)|$", line.rstrip())
        return line[:second.start()] + f" offset0:{2 if second[1] == '1' else 1}" + line[second.start():].rstrip()
    return add_offset(line, 16, 65535)


def shift_scalar(line):
    return re.sub(r"(s_(?:buffer_)?load_\w+ [^,]+, [^,]+, )0x([0-9a-f]+)\s*$", lambda m: f"{m[1]}{int(m[2], 16) + 8:#x}", line)


def operands(line):
    head, rest = re.match(r"(\t\S+\s+)(.*)", line).groups()
    return head, re.split(r", (?![^\[]*\])", rest)


def swap_operands(line):
    head, parts = operands(line)
    return head + ", ".join([parts[0], parts[2], parts[1], *parts[3:]]) if parts[1] != parts[2] else line


def drop_sums(line):
    """The product is not added to what was there."""
    head, parts = operands(line)
    first, *modifiers = parts[3].split(" ", 1)
    return line if first == "0" else head + ", ".join([*parts[:3], " ".join(["0", *modifiers]), *parts[4:]])


MATRIX = r"\tv_(s?mfmac?|wmma)_"
KINDS = [
    Kind("drop wait", r"\ts_wait(cnt\b|_(load|ds|km)cnt|_loadcnt_dscnt)", drop, ordering=True),
    Kind("raise count", r"\ts_wait(cnt\b|_(load|ds|km)cnt)", raise_count, ordering=True),
    Kind("drop barrier", r"\ts_barrier\s*$", drop, ordering=True),
    Kind("drop nop", r"\t(s_nop|v_nop|s_waitcnt_depctr)", drop_distance, ordering=True, looks_ahead=True),
    Kind("drop mask", r"_saveexec_|\ts_(and|andn2|and_not1)_b(32|64) exec", all_lanes, needed=True),
    Kind("choose first", r"\tv_cndmask_b32", choose(1), needed=True),
    Kind("choose second", r"\tv_cndmask_b32(?!.*0xff800000)", choose(2)),
    # Scores that are masked are minus infinity.
    Kind("unmask score", r"\tv_cndmask_b32.*, 0xff800000,", choose(2), needed=True),
    Kind("always branch", r"\ts_cbranch_(scc[01]|vccz|vccnz)", lambda line: re.sub(r"s_cbranch_\w+", "s_branch", line)),
    Kind("never branch", r"\ts_cbranch_(scc[01]|vccz|vccnz)", drop),
    Kind("move lanes", r"quad_perm:|row_\w+", move_lanes),
    Kind("move lanes", r"\tds_swizzle_b32", move_swizzle),
    Kind("move lanes", r"permlane|bpermute|v_(read|write)lane_b32", other_lane),
    Kind("shift LDS", r"\tds_(read|write|load|store)(?!_b64_tr)", shift_lds),
    Kind("shift address", r"\tglobal_(load|store)", lambda line: add_offset(line, 16, 4095)),
    Kind("shift address", r"\tbuffer_(load|store)", lambda line: add_offset(line, 16, 4095)),
    Kind("shift address", r"\ts_(buffer_)?load_", shift_scalar),
    Kind("swap operands", MATRIX, swap_operands),
    Kind("drop sums", MATRIX, drop_sums),
]

RULES = [
    Rule(r"drop wait|raise count", r"",
         "nothing on its way is touched before the next wait: reading or writing the registers of a load that was not waited "
         "for is an error, and so are accesses to LDS that no wait and barrier order"),
    ORDERED_OTHERWISE,
    Rule(r"drop nop", r"",
         "other instructions keep the distance: one that is too short is an error"),
    Rule(r"drop mask", r"",
         "what the mask keeps out is read by nobody: slots and keys that no token uses hold NaN, infinities and random bytes in these runs, "
         "which would show, and accesses outside of buffers are errors"),
    Rule(r"choose second", r"v_cndmask_b32\S* v\d+, (0|0x7fc00000), ",
         "zeros for rows of a tile that no token fills, which nobody reads (garbage would show), or the NaN of a conversion, which finite "
         "inputs do not need"),
    Rule(r"drop sums", r"v_(?:mfma|wmma)\w+ (\S+), \S+, \S+, (?!\1)",
         "the sum begins with zeros that stand in registers of their own"),
    branches(r"always branch|never branch"),
]
