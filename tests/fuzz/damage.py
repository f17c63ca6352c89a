"""What happens to files: cut off, bits flipped, lines lost, other bytes, numbers, labels."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random

NUMBERS = (b"-1", b"900000000", b"3100000000", b"9" * 30, b"1e39", b"nan", b"inf", b"1_0", b"")
LABELS = ["NA", "Na", "nan", "None", "null", "N/A", "007", "7", "7.0", "1e3", "True", "é"]
SPELLINGS = ("5%", "1 234", "(5)", "<5", "999,5", "1.234", "01", "1.0", "#N/A", " x", "")
DELIMITERS = (b"\t", b",", b";", b" ", b"|")


def cut_off(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content) + 1)]


def flip_bits(content: bytes, random: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 4, 32))):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def lose_lines(content: bytes, random: Random) -> bytes:
    lines = content.split(b"\n")
    first = random.randrange(len(lines))
    return b"\n".join(lines[:first] + lines[first + random.choice((1, 1, 3, 20)) :])


def repeat_lines(content: bytes, random: Random) -> bytes:
    lines = content.split(b"\n")
    first = random.randrange(len(lines))
    return b"\n".join(lines[: first + random.choice((1, 3))] + lines[first:])


def insert_empty_lines(content: bytes, random: Random) -> bytes:
    lines = content.split(b"\n")
    for _ in range(random.choice((1, 1, 5))):
        lines.insert(random.randrange(len(lines) + 1), random.choice((b"", b"", b"  ", b"\r")))
    return b"\n".join(lines)


def empty_lines(content: bytes, random: Random) -> bytes:
    lines = content.split(b"\n")
    for _ in range(random.choice((1, 1, 5))):
        lines[random.randrange(len(lines))] = b""
    return b"\n".join(lines)


def garble(content: bytes, random: Random) -> bytes:
    place, length = random.randrange(len(content)), random.choice((1, 8, 200))
    return content[:place] + random.randbytes(length) + content[place + length :]


def swap_delimiters(content: bytes, random: Random) -> bytes:
    old, new = random.sample(DELIMITERS, 2)
    return content.replace(old, new, random.choice((1, 10, -1)))


def change_numbers(content: bytes, random: Random) -> bytes:
    found = list(re.finditer(rb"-?\d+(\.\d+)?", content))
    if not found:
        return garble(content, random)
    number = random.choice(found)
    return content[: number.start()] + random.choice(NUMBERS) + content[number.end() :]


def change_cells(content: bytes, random: Random) -> bytes:
    """Write labels and numbers that are easily misread, or a long text, into a few cells."""
    lines = content.split(b"\n")
    cells = [*LABELS, *SPELLINGS, "long " * 30_000]
    for _ in range(random.choice((1, 1, 5, 20))):
        row = random.randrange(len(lines))
        delimiter = max(DELIMITERS, key=lines[0].count)
        fields = lines[row].split(delimiter)
        fields[random.randrange(len(fields))] = random.choice(cells).encode()
        lines[row] = delimiter.join(fields)
    return b"\n".join(lines)


def name_delimiter(content: bytes, random: Random) -> bytes:
    """Begin with a line that names the delimiter, as Excel writes it."""
    return b"sep=" + random.choice(DELIMITERS[:3]) + b"\n" + content


def lose_all(_content: bytes, _random: Random) -> bytes:
    return b""


KINDS: tuple[Callable[[bytes, Random], bytes], ...] = (
    cut_off,
    flip_bits,
    lose_lines,
    repeat_lines,
    insert_empty_lines,
    empty_lines,
    garble,
    swap_delimiters,
    change_numbers,
    change_cells,
    change_cells,
    name_delimiter,
    lose_all,
)


def damage(path: Path, random: Random) -> str:
    """Damage a file, or what is packed in it, and say how."""
    if random.random() < 0.04:
        path.unlink()
        return "removed"
    kind = random.choice(KINDS)
    content = path.read_bytes()
    if path.suffix == ".gz" and random.random() < 0.7:
        unpacked = zlib.decompress(content, 31)
        path.write_bytes(gzip.compress(kind(unpacked, random), mtime=0))
        return f"{kind.__name__} of what is packed"
    path.write_bytes(kind(content, random))
    return kind.__name__
