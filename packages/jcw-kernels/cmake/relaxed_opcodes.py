"""Write the instructions of relaxed SIMD as hosts read them: ``python relaxed_opcodes.py MODULE.wasm``.

Clang 14 and Binaryen 108, Debian's, have multiply-add under the number that a draft gave it (0xaf). It is 0x105 by now, which
takes as many bytes, so nothing in the module moves. Later compilers need none of this.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

CODE = 10
"""Number of the section with the functions."""
SIMD = 0xFD
DRAFT, FINAL = bytes([SIMD, 0xAF, 0x01]), bytes([SIMD, 0x85, 0x02])

# What follows an instruction: i whole numbers of any length (LEB128), l a list of whole numbers,
# a digit so many bytes, g sixteen.
PLAIN = {
    **dict.fromkeys([0x02, 0x03, 0x04, 0x06, 0x07, 0x08, 0x09, 0x0C, 0x0D, 0x10, 0x12, 0x18], "i"),
    **dict.fromkeys([*range(0x20, 0x27), 0x3F, 0x40, 0x41, 0x42, 0xD0, 0xD2], "i"),
    **dict.fromkeys([0x11, 0x13, *range(0x28, 0x3F)], "ii"),
    **{0x0E: "li", 0x1C: "l", 0x43: "4", 0x44: "8"},
}
BULK = {8: "ii", 9: "i", 10: "ii", 11: "i", 12: "ii", 13: "i", 14: "ii", 15: "i", 16: "i", 17: "i"}
VECTOR = {
    **dict.fromkeys([*range(12), 92, 93], "ii"),
    **dict.fromkeys([12, 13], "g"),
    **dict.fromkeys(range(21, 35), "1"),
    **dict.fromkeys(range(84, 92), "ii1"),
}
ATOMIC = {3: "1"} | dict.fromkeys([*range(3), *range(0x10, 0x4F)], "ii")
PREFIXED = {0xFC: BULK, SIMD: VECTOR, 0xFE: ATOMIC}


def final(module: bytes) -> bytes:
    """The module with the final numbers."""
    changed = bytearray(module)
    for start, end in functions(module):
        for at in instructions(module, start, end):
            if module.startswith(DRAFT, at):
                changed[at : at + len(DRAFT)] = FINAL
    return bytes(changed)


def functions(module: bytes) -> Iterator[tuple[int, int]]:
    """Where the instructions of each function begin and end."""
    at = 8
    while at < len(module):
        kind, (size, start) = module[at], number(module, at + 1)
        at = start + size
        if kind != CODE:
            continue
        count, start = number(module, start)
        for _ in range(count):
            size, start = number(module, start)
            yield after_locals(module, start), start + size
            start += size


def after_locals(module: bytes, at: int) -> int:
    """Where the instructions of a function begin."""
    groups, at = number(module, at)
    for _ in range(groups):
        at = number(module, at)[1] + 1
    return at


def instructions(module: bytes, at: int, end: int) -> Iterator[int]:
    """Where each instruction begins."""
    while at < end:
        yield at
        code, at = module[at], at + 1
        follows = PLAIN
        if code in PREFIXED:
            follows = PREFIXED[code]
            code, at = number(module, at)
        for part in follows.get(code, ""):
            at = past(module, at, part)
    if at != end:
        raise ValueError(
            "a function ends within an instruction: this compiler writes some that are not known here"
        )


def past(module: bytes, at: int, part: str) -> int:
    """Where what follows an instruction ends."""
    if part == "i":
        return number(module, at)[1]
    if part == "l":
        count, at = number(module, at)
        for _ in range(count):
            at = number(module, at)[1]
        return at
    return at + int(part, 17)


def number(module: bytes, at: int) -> tuple[int, int]:
    """A whole number, and where it ends."""
    value = shift = 0
    while True:
        byte, at = module[at], at + 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_bytes(final(path.read_bytes()))
