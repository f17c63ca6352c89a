"""Recipe of a character-level language model of the user's texts."""

from __future__ import annotations

from dataclasses import replace

from edgewise import data
from edgewise.recipes.shakespeare import gpt_shakespeare_best

writing = replace(
    gpt_shakespeare_best,
    name="writing",
    summary="Language model of your text files: --data.paths book.txt",
    data=data.text_files(context=128, stride=64, batch_size=6, windows=6 * 200),
    protocol=None,
)
