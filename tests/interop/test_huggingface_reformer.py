"""Reformer's weights from Hugging Face: at a fixed seed of the hashes its numbers are theirs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from edgewise import graphs
from edgewise.interop.huggingface import load
from tests.errors import case, refused
from tests.interop.test_huggingface import VOCABULARY, close, embedding, made

transformers = pytest.importorskip("transformers")

NUMBERS = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "attention_head_size": 6,
    "feed_forward_size": 24,
    "attn_layers": ["local", "lsh", "lsh"],
    "lsh_attn_chunk_length": 4,
    "local_attn_chunk_length": 8,
    "num_buckets": 4,
    "num_hashes": 2,
    "hash_seed": 3,
    "axial_pos_shape": [4, 10],
    "axial_pos_embds_dim": [6, 10],
    "max_position_embeddings": 40,
    "hidden_dropout_prob": 0.0,
    "local_attention_probs_dropout_prob": 0.0,
    "pad_token_id": 0,
}


def reformer(kind: str = "ForMaskedLM", **other: object) -> Callable[[], nn.Module]:
    numbers = {**NUMBERS, "is_decoder": kind == "ModelWithLMHead", **other}
    config = transformers.ReformerConfig(**numbers)
    return lambda: getattr(transformers, f"Reformer{kind}")(config)


VARIANTS: dict[str, dict[str, object]] = {
    "as it is": {},
    "one round": {"num_hashes": 1},
    "five rounds": {"num_hashes": 5},
    "factors": {"num_buckets": [2, 4]},
    "buckets by length": {"num_buckets": None},
    "lsh alone": {"attn_layers": ["lsh", "lsh"]},
    "local alone": {"attn_layers": ["local"]},
    "learned positions": {"axial_pos_embds": False},
    "far": {"lsh_num_chunks_before": 2, "local_num_chunks_before": 2},
    "alone": {"lsh_num_chunks_before": 0, "local_num_chunks_before": 0},
}


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", ["ForMaskedLM", "ModelWithLMHead"])
def test_states_and_logits_are_theirs(variant: str, kind: str) -> None:
    """In float64: a token that is alone has a score of -100,000, of which float32 keeps two digits
    after the point, and their rounds of it do not sum to 1."""
    for length in (1, 3, 4, 5, 8, 20, 24, 33):
        theirs = made(reformer(kind, **VARIANTS[variant]), torch.float64)  # keeps its buckets
        ours = load(theirs)
        torch.manual_seed(1)
        ids = torch.randint(3, VOCABULARY, (2, length))
        with case(f"{length} tokens"):
            states = ours(ids)
            close(states, theirs.reformer(ids).last_hidden_state)
            close(ours.logits(states), theirs(ids).logits)


def test_in_float32_they_are_theirs_where_nobody_is_alone() -> None:
    theirs = made(reformer())
    torch.manual_seed(1)
    ids = torch.randint(3, VOCABULARY, (2, 40))
    close(load(theirs)(ids), theirs.reformer(ids).last_hidden_state)
    alone = made(reformer("ModelWithLMHead"))
    mine, other = load(alone)(ids), alone.reformer(ids).last_hidden_state
    close(mine, other, 1e-2)


@pytest.mark.parametrize("kind", ["ForMaskedLM", "ModelWithLMHead"])
@pytest.mark.parametrize("lengths", [(21, 9, 1), (24, 17, 24), (4, 2, 1)])
def test_padded_texts_are_read_as_theirs(kind: str, lengths: tuple[int, ...]) -> None:
    theirs = made(reformer(kind), torch.float64)
    torch.manual_seed(1)
    ids = torch.randint(3, VOCABULARY, (3, max(lengths)))
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    ids = ids.masked_fill(mask == 0, 0)
    mine, other = load(theirs)(ids, mask), theirs.reformer(ids, mask).last_hidden_state
    close(mine[mask.bool()], other[mask.bool()])


def test_both_ways_with_chunks_before_and_after() -> None:
    near = {
        f"{kind}_num_chunks_{side}": 1 for kind in ("lsh", "local") for side in ("before", "after")
    }
    theirs = made(reformer(**near))
    torch.manual_seed(1)
    ids = torch.randint(3, VOCABULARY, (2, 32))
    close(load(theirs)(ids), theirs.reformer(ids).last_hidden_state)


@pytest.mark.parametrize("kind", ["ForMaskedLM", "ModelWithLMHead"])
def test_gradients_are_theirs(kind: str) -> None:
    """Theirs are computed by undoing the layers, and for whole chunks alone."""
    theirs = made(reformer(kind), torch.float64).train()
    ours = load(theirs).train()
    torch.manual_seed(1)
    ids = torch.randint(3, VOCABULARY, (2, 40))
    logits, other = ours.logits(ours(ids)), theirs(ids).logits
    close(logits, other)
    probe = torch.randn_like(logits) / 10
    (logits * probe).sum().backward()
    (other * probe).sum().backward()
    close(embedding(ours).grad, theirs.get_input_embeddings().weight.grad)
    mine = ours.backbone.layers[1].attention.query_key.weight.grad
    close(
        mine, theirs.reformer.encoder.layers[1].attention.self_attention.query_key.weight.grad, 1e-4
    )
    row = ours.embedding.positions.row.grad
    close(row, theirs.reformer.embeddings.position_embeddings.weights[0].grad[:, 0])


def test_a_folder_gives_what_the_live_model_gives(tmp_path: Path) -> None:
    theirs = made(reformer())
    theirs.save_pretrained(tmp_path)
    ids = torch.randint(3, VOCABULARY, (2, 21))
    assert torch.equal(load(tmp_path)(ids), load(theirs)(ids))


def test_what_has_no_counterpart_is_refused() -> None:
    theirs = made(reformer())
    with refused("graph", expected="builds its own graph", got="Window", remedy="gpt"):
        load(theirs, graphs.window(1))
    with refused(
        "config", expected="as many local as LSH", got="'before': (2, 1)", remedy="transformers"
    ):
        load(made(reformer(local_num_chunks_before=2)))
    heads = made(reformer("ForSequenceClassification"))
    with refused(
        "model_or_folder",
        expected="weights that this model has",
        got="classifier",
        remedy="leave_out",
    ):
        load(heads)
