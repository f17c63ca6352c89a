"""SHA-256 digests of the files of the public data sets."""

from __future__ import annotations

from pathlib import Path

_BLOCKS = Path(__file__).with_name("checksums.txt").read_text(encoding="utf-8").split("\n\n")
SHA256: dict[str, dict[str, str]] = {
    data: {file: digest for digest, file in (line.split() for line in lines)}
    for data, *lines in (block.splitlines() for block in _BLOCKS)
}
"""Digest of each file, by data set and file name. For ``.gz`` files, the digest is of the
decompressed content, because versions of gzip write different bytes. The digest of a folder
(``raw`` of ``cifar10_12k``, ``recordings`` of ``spoken_digits``) covers the path and content of
each ``.jpg`` and ``.wav`` file, sorted by path.
"""

GIT_BLOBS: dict[str, dict[str, str]] = {
    "gowalla": {"train.txt": "a27782bd7a1d4d0744148dc0460ea94da74763f2"}
}
"""Git object ids of other accepted versions of a file, whose SHA-256 is unknown. The published
``train.txt`` of Gowalla lists the items of each user in a different order.
"""
