"""Load GPT-2 checkpoints of Hugging Face, whose matrices are transposed."""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.graphs import Pattern, causal
from edgewise.interop.huggingface.checkpoint import Checkpoint
from edgewise.interop.huggingface.fill import Piece, fill, linear
from edgewise.interop.huggingface.label_heads import label_head
from edgewise.models.gpt import gpt

UNUSED = (".attn.bias", ".attn.masked_bias", "lm_head.weight")


def load_gpt2(theirs: Checkpoint, graph: Pattern | None) -> nn.Module:
    """Build ``gpt`` and its head from a checkpoint, with the causal part of ``graph``."""
    theirs = theirs.without_prefix("transformer.")
    theirs.must_be(
        scale_attn_weights=True,
        scale_attn_by_inverse_layer_idx=False,
        add_cross_attention=False,
        tie_word_embeddings=True,
    )
    model = gpt(
        theirs["vocab_size"],
        width=theirs["n_embd"],
        depth=theirs["n_layer"],
        heads=theirs["n_head"],
        ffn_dim=theirs.config.get("n_inner") or 4 * theirs["n_embd"],
        max_length=theirs["n_positions"],
        act=theirs.activation("activation_function"),
        epsilon=theirs["layer_norm_epsilon"],
        dropout=theirs["resid_pdrop"],
        graph=causal() if graph is None else causal() & graph,
    )
    pieces = {
        "embedding.tokens.weight": Piece("wte.weight"),
        "embedding.positions.table": Piece("wpe.weight"),
        **linear("backbone.stack.norm", "ln_f"),
    }
    for i in range(theirs["n_layer"]):
        ours, their = f"backbone.stack.layers.{i}", f"h.{i}"
        for part, name in enumerate(("query", "key", "value")):
            pieces |= _turned(f"{ours}.attention.sublayer.{name}", f"{their}.attn.c_attn", part)
        pieces |= _turned(f"{ours}.attention.sublayer.output", f"{their}.attn.c_proj")
        pieces |= linear(f"{ours}.attention.norm", f"{their}.ln_1")
        pieces |= _turned(f"{ours}.feed_forward.sublayer.0", f"{their}.mlp.c_fc")
        pieces |= _turned(f"{ours}.feed_forward.sublayer.3", f"{their}.mlp.c_proj")
        pieces |= linear(f"{ours}.feed_forward.norm", f"{their}.ln_2")
    head = label_head(theirs)
    whole, pieces = (model, pieces) if head is None else head.put_on(model, pieces, theirs)
    fill(whole, pieces, theirs, unused=UNUSED)
    return whole


def _turned(ours: str, theirs: str, part: int | None = None) -> dict[str, Piece]:
    """Return a :class:`Piece` for each tensor of a layer that is stored as ``[in, out]``.

    ``part`` selects the query, key or value of a joint layer.
    """

    def third(x: Tensor) -> Tensor:
        return x if part is None else x.unflatten(-1, (3, -1))[..., part, :]

    return {
        f"{ours}.weight": Piece(f"{theirs}.weight", lambda x: third(x).T),
        f"{ours}.bias": Piece(f"{theirs}.bias", third),
    }
