"""Longformer's and BigBird's weights from Hugging Face: states, logits and gradients are theirs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from edgewise import graphs
from edgewise.interop.huggingface import load
from edgewise.layers import Tokens
from tests.errors import refused
from tests.interop.test_huggingface import SMALL, VOCABULARY, close, embedding, made

transformers = pytest.importorskip("transformers")

LENGTHS, LONGEST = (21, 9, 1), 21  # no multiple of a window


def texts(padding: int, left: bool = False) -> tuple[Tensor, Tensor]:
    """Ids of three lengths, padded, and their mask."""
    torch.manual_seed(1)
    ids = torch.randint(3, VOCABULARY, (len(LENGTHS), LONGEST))
    place = torch.arange(LONGEST).flip(0) if left else torch.arange(LONGEST)
    mask = (place < torch.tensor(LENGTHS)[:, None]).long()
    return ids.masked_fill(mask == 0, padding), mask


def longformer(
    kind: str = "ForMaskedLM", window: int | tuple[int, ...] = (4, 8), **other: object
) -> Callable[[], nn.Module]:
    numbers = {**SMALL, "pad_token_id": 1, "bos_token_id": 0, **other}
    config = transformers.LongformerConfig(
        **numbers,
        attention_window=window if isinstance(window, int) else list(window),
        max_position_embeddings=40,
    )
    return lambda: getattr(transformers, f"Longformer{kind}")(config)


def hubs(which: str) -> Tensor | None:
    """No hubs, the same in each text, or others, one of which is padding."""
    marks = torch.zeros(len(LENGTHS), LONGEST, dtype=torch.long)
    if which == "alike":
        marks[:, [0, 5]] = 1
    elif which == "different":
        marks[0, [2, 3, 20]] = 1
        marks[1, [8, 15]] = 1
    return None if which == "none" else marks


@pytest.mark.parametrize("padded", ["not", "right", "left"])
@pytest.mark.parametrize("which", ["none", "alike", "different"])
def test_longformer_gives_the_states_logits_and_gradients_of_theirs(
    padded: str, which: str
) -> None:
    theirs = made(longformer())
    ours = load(theirs)
    ids, mask = texts(1, padded == "left")
    if padded == "not":
        ids, mask = ids.where(mask.bool(), 5), torch.ones_like(mask)
    marks = hubs(which)
    states = ours(ids, mask, global_attention_mask=marks)
    out = theirs(ids, mask, global_attention_mask=marks, output_hidden_states=True)
    real = mask.bool()
    close(states[real], out.hidden_states[-1][real])
    logits = ours.logits(states)
    close(logits[real], out.logits[real])
    probe = torch.randn_like(logits) * mask[..., None]
    (logits * probe).sum().backward()
    (out.logits * probe).sum().backward()
    close(embedding(ours).grad, theirs.get_input_embeddings().weight.grad)
    attention = ours.backbone.layers[0].attention.sublayer
    other = theirs.longformer.encoder.layer[0].attention.self
    close(attention.qkv.weight.grad.chunk(3)[1], other.key.weight.grad)
    if which == "none":
        assert attention.hub_value.weight.grad is None
    else:
        for name in ("query", "key", "value"):
            mine = getattr(attention, f"hub_{name}").weight.grad
            close(mine, getattr(other, f"{name}_global").weight.grad)
            assert mine.abs().max() > 0


def test_in_float64_longformer_agrees_to_rounding() -> None:
    """Their probabilities are computed in float32, whatever the weights are."""
    theirs = made(longformer("Model", window=4), torch.float64)
    ids, mask = texts(1)
    marks = hubs("different")
    mine = load(theirs)(ids, mask, global_attention_mask=marks)
    other = theirs(ids, mask, global_attention_mask=marks).last_hidden_state
    close(mine[mask.bool()], other[mask.bool()], 1e-6)


@pytest.mark.parametrize("window", [4, 40])
def test_windows_may_be_smaller_or_longer_than_a_text(window: int) -> None:
    theirs = made(longformer(window=window))
    ids, mask = texts(1)
    mine, other = load(theirs)(ids, mask), theirs.longformer(ids, mask).last_hidden_state
    close(mine[mask.bool()], other[mask.bool()])


def test_packed_hubs_are_those_of_the_padded_batch() -> None:
    ours = load(made(longformer(), torch.float64))
    ids, mask = texts(1)
    real, marks = mask.bool(), hubs("different")
    padded = ours(ids, mask, global_attention_mask=marks)[real]
    packed = ours(ids[real], sizes=LENGTHS, global_attention_mask=marks[real])
    torch.testing.assert_close(packed, padded, rtol=0, atol=1e-12)


HEADS = {"ForSequenceClassification": 3, "ForTokenClassification": 3, "ForQuestionAnswering": 2}


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("saved", [False, True])
def test_longformer_keeps_its_classifier(kind: str, saved: bool, tmp_path: Path) -> None:
    theirs = made(longformer(kind, num_labels=HEADS[kind]))
    theirs.save_pretrained(tmp_path)
    ours = load(tmp_path if saved else theirs)
    ids, mask = texts(1)
    if kind == "ForSequenceClassification":
        close(ours(Tokens(ids, mask=mask)), theirs(ids, mask).logits)
        return
    real, marks = mask.bool(), hubs("alike")
    logits = ours.head(ours.trunk(ids, mask, global_attention_mask=marks))
    out = theirs(ids, mask, global_attention_mask=marks)
    if kind == "ForQuestionAnswering":
        close(logits[real], torch.stack([out.start_logits, out.end_logits], -1)[real])
    else:
        close(logits[real], out.logits[real])


@pytest.mark.parametrize("left", [False, True])
def test_the_question_of_longformer_is_global(left: bool) -> None:
    theirs = made(longformer("ForQuestionAnswering", num_labels=2, sep_token_id=2), torch.float64)
    ours = load(theirs)
    torch.manual_seed(0)
    ids, mask = torch.ones(2, LONGEST, dtype=torch.long), torch.zeros(2, LONGEST, dtype=torch.long)
    for row, (question, size) in enumerate([(4, 21), (7, 15)]):
        text = torch.randint(3, VOCABULARY, (size,))
        text[torch.tensor([question, question + 1, size - 1])] = 2
        where = slice(LONGEST - size, None) if left else slice(size)
        ids[row, where], mask[row, where] = text, 1
    out, real = theirs(ids, mask), mask.bool()
    logits = torch.stack([out.start_logits, out.end_logits], -1)[real]
    close(ours(Tokens(ids, mask=mask)), logits, 1e-6)
    packed = ours.trunk(ids[real], sizes=torch.tensor([21, 15]))
    close(ours.head(packed), logits, 1e-6)
    first_only = ids.where((ids == 2).cumsum(-1) < 2, 3)
    for few in (first_only, ids.where(ids != 2, 3)):
        with refused("input_ids", expected="separators", got="fewer than two", remedy="as a pair"):
            ours.trunk(few, mask)
    mask[1] = 0
    assert ours.trunk(ids, mask)[1].eq(0).all(), "a text of no tokens"
    assert ours.trunk(ids[:0], mask[:0]).shape[0] == 0
    assert ours.trunk(ids[0, :0], sizes=()).shape[0] == 0


def test_the_pooler_of_longformer_comes_along() -> None:
    theirs = made(longformer("Model"))
    ours = load(theirs)
    ids, mask = texts(1)
    close(ours.pooler(ours(ids, mask)[:, 0]), theirs(ids, mask).pooler_output)
    with refused("model", expected="modelling head", got="without a head", remedy="ForMaskedLM"):
        ours.logits(ours(ids, mask))


def test_longformer_runs_on_another_graph() -> None:
    theirs = made(longformer(window=200), torch.float64)
    ids, _ = texts(1)
    complete, windows = load(theirs, graphs.complete()), load(theirs)
    torch.testing.assert_close(complete(ids), windows(ids), rtol=0, atol=1e-12)
    assert not torch.allclose(load(theirs, graphs.window(1))(ids), windows(ids))


def test_an_odd_window_is_refused() -> None:
    theirs = made(longformer(window=4))
    theirs.config.attention_window = [4, 5]
    with refused("attention_window", expected="even", got="[4, 5]", remedy="config.json"):
        load(theirs)


# BigBird. Blocks of 2: up to 9 of them are read whole with two random blocks, and 14 with blocks.


def bigbird(kind: str = "ForMaskedLM", **other: object) -> Callable[[], nn.Module]:
    numbers = {"block_size": 2, "num_random_blocks": 2, "max_position_embeddings": 40}
    ids = {"sep_token_id": 3, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = transformers.BigBirdConfig(**{**SMALL, **numbers, **ids, **other})
    return lambda: getattr(transformers, f"BigBird{kind}")(config)


def compared(ours: nn.Module, theirs: nn.Module, ids: Tensor, mask: Tensor | None) -> None:
    """States, logits and gradients."""
    states = ours(ids, mask)
    other = theirs.bert(ids, attention_mask=mask).last_hidden_state
    real = torch.ones_like(ids).bool() if mask is None else mask.bool()
    close(states[real], other[real])
    logits, other_logits = ours.logits(states), theirs(ids, attention_mask=mask).logits
    close(logits[real], other_logits[real])
    probe = torch.randn_like(logits) * real[..., None]
    (logits * probe).sum().backward()
    (other_logits * probe).sum().backward()
    close(embedding(ours).grad, theirs.get_input_embeddings().weight.grad)
    mine = ours.backbone.layers[1].attention.sublayer.qkv.weight.grad.chunk(3)[1]
    close(mine, theirs.bert.encoder.layer[1].attention.self.key.weight.grad)


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("length", [1, 17, 18, 19, 20, 27, 28, 39])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("padded", [True, False])
def test_bigbird_gives_the_states_logits_and_gradients_of_theirs(
    length: int, training: bool, padded: bool
) -> None:
    """In training with their random blocks; evaluated they read the first block again."""
    theirs = made(bigbird()).train(training)
    ours = load(theirs).train(training)
    torch.manual_seed(1)
    ids = torch.randint(3, VOCABULARY, (3, length))
    mask = (torch.arange(length) < torch.tensor([length, length // 2 + 1, 1])[:, None]).long()
    compared(
        ours, theirs, ids.masked_fill(mask == 0, 0) if padded else ids, mask if padded else None
    )


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("length", [1024, 1000, 3072])
@pytest.mark.parametrize("most", [1024, 4096])
def test_bigbird_at_the_lengths_of_the_paper(length: int, most: int) -> None:
    """There random blocks are drawn otherwise, and some of them twice."""
    if length > most:
        pytest.skip("a text longer than the positions")
    theirs = made(bigbird(block_size=64, max_position_embeddings=most)).train()
    ours = load(theirs).train()
    torch.manual_seed(1)
    compared(ours, theirs, torch.randint(3, VOCABULARY, (1, length)), None)


def test_bigbird_in_float64_agrees_to_rounding() -> None:
    theirs = made(bigbird(), torch.float64).train()
    ids = torch.randint(3, VOCABULARY, (2, 31))
    other = theirs.bert(ids).last_hidden_state
    torch.testing.assert_close(load(theirs).train()(ids), other, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", ["ForSequenceClassification", "ForTokenClassification"])
def test_bigbird_keeps_its_classifier(kind: str, tmp_path: Path) -> None:
    theirs = made(bigbird(kind, num_labels=3))
    theirs.save_pretrained(tmp_path)
    ids, mask = texts(0)
    logits = load(tmp_path)(Tokens(ids, mask=mask), **words(kind))
    out = theirs(ids, attention_mask=mask).logits
    close(logits, out if kind == "ForSequenceClassification" else out[mask.bool()])


def words(kind: str) -> dict[str, list[int]]:
    """A token a word, where words are labelled."""
    return {} if kind == "ForSequenceClassification" else {"words": [1] * sum(LENGTHS)}


def test_the_pooler_and_the_scale_of_bigbird_come_along() -> None:
    theirs = made(bigbird("Model", rescale_embeddings=True))
    ours = load(theirs)
    ids, mask = texts(0)
    states, out = ours(ids, mask), theirs(ids, attention_mask=mask)
    close(states[mask.bool()], out.last_hidden_state[mask.bool()])
    close(ours.pooler(states[:, 0]), out.pooler_output)


def test_bigbird_of_full_attention_and_on_another_graph() -> None:
    theirs = made(bigbird(attention_type="original_full"))
    ids, mask = texts(0)
    compared(load(theirs), theirs, ids, mask)
    sparse = made(bigbird())
    assert not torch.allclose(load(sparse)(ids), load(theirs)(ids))
    torch.testing.assert_close(load(sparse, graphs.complete())(ids), load(theirs)(ids))
    with refused("attention_type", expected="block_sparse", got="'sparse'", remedy="did you"):
        theirs.config.attention_type = "sparse"
        load(theirs)


@pytest.mark.parametrize("name", ["longformer", "bigbird"])
def test_more_positions_than_were_learned_are_theirs_with_a_repeated_table(name: str) -> None:
    make, ahead = (longformer, 2) if name == "longformer" else (bigbird, 0)
    theirs, learned, wanted = made(make()), 40 - ahead, 60
    longer = made(make())
    tensors = theirs.state_dict()
    table = tensors[f"{'longformer' if ahead else 'bert'}.embeddings.position_embeddings.weight"]
    repeated = torch.cat([table[:ahead], table[torch.arange(wanted) % learned + ahead]])
    longer.load_state_dict(tensors)
    embeddings = (longer.longformer if ahead else longer.bert).embeddings
    embeddings.position_embeddings.weight = nn.Parameter(repeated)
    if name == "bigbird":
        embeddings.position_ids = torch.arange(wanted)[None]
        embeddings.token_type_ids = torch.zeros(1, wanted, dtype=torch.long)
    with pytest.warns(UserWarning, match=f"{learned} to 59 are copies of the {learned}"):
        ours = load(theirs, positions=wanted)
    torch.manual_seed(1)
    ids = torch.randint(3, VOCABULARY, (2, wanted))
    close(ours.logits(ours(ids)), longer(ids).logits)
    with refused("positions", expected=f"at least {learned}", got="20", remedy="omit positions"):
        load(theirs, positions=20)
