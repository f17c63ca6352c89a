"""Extension of learned positions by repetition, as in Longformer."""

from __future__ import annotations

import warnings

import torch

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError
from edgewise.interop.huggingface.checkpoint import Checkpoint

OF_BERT = ("embeddings.position_embeddings.weight", "max_position_embeddings")
TABLES = {
    **dict.fromkeys(("bert", "roberta", "longformer", "big_bird"), OF_BERT),
    "gpt2": ("wpe.weight", "n_positions"),
}
"""End of the name of each family's position table, and configuration value with its length."""


def with_positions(checkpoint: Checkpoint, positions: int) -> Checkpoint:
    """Return the checkpoint with ``positions`` positions; learned positions are repeated."""
    check_range("positions", positions, "choose for example 4096", least=1, integer=True)
    kind = checkpoint["model_type"]
    if kind not in TABLES:
        raise ArgumentError(
            "positions",
            expected=f"a model with learned positions: {', '.join(TABLES)}",
            got=f"{kind}, without learned positions",
            remedy="omit positions; relative and rotary positions have no maximum length",
        )
    ending, length = TABLES[kind]
    # RoBERTa and Longformer number positions from the padding id + 1; earlier rows are not used.
    offset = checkpoint["pad_token_id"] + 1 if kind in ("roberta", "longformer") else 0
    name = next((name for name in checkpoint.tensors if name.endswith(ending)), None)
    learned = checkpoint[length] - offset
    if positions < learned:
        raise ArgumentError(
            "positions",
            expected=f"at least {learned}, the number of learned positions",
            got=repr(positions),
            remedy="omit positions; the model reads shorter texts without a change",
        )
    if name is None or positions == learned:
        return checkpoint
    table = checkpoint.tensors[name]
    copied = torch.arange(positions) % learned + offset
    longer = torch.cat([table[:offset], table[copied]])
    warnings.warn(
        f"positions {learned} to {positions - 1} are copies of the {learned} learned positions: "
        "train the model further before using the model on longer texts",
        stacklevel=3,
    )
    config = {**checkpoint.config, length: positions + offset}
    # The buffers of position ids keep the old length. Loading ignores them.
    return Checkpoint(config, {**checkpoint.tensors, name: longer})
