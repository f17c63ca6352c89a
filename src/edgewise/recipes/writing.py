"""The recipe of a language model of your own text, character by character."""

from __future__ import annotations

from dataclasses import replace

from edgewise import data
from edgewise.recipes.shakespeare import gpt_shakespeare_best

writing = replace(
    gpt_shakespeare_best,
    name="writing",
    summary="A language model of your own text files: --data.paths book.txt",
    data=data.text_files(context=128, stride=64, batch_size=6, windows=6 * 200),
    protocol=None,
)
