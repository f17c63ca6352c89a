"""What every listed model of text must keep, found by its kind; a new one is tested for free."""

from __future__ import annotations

import inspect
from functools import partial

import pytest
import torch
from torch import Tensor, nn

import edgewise as ew
from edgewise import graphs, models
from edgewise.encodings import Learned
from edgewise.layers import Cache, EncoderDecoderModel, SequenceBatch, TextModel, text
from tests.errors import case, refused

VOCABULARY, SIZES, LONGEST = 11, (5, 1, 3), 5
TEXT = [*models.TEXT_MODELS]
RECURRENT = ["rnn", "lstm", "gru"]
ATTENTION = [name for name in TEXT if name not in RECURRENT]
WHOLE = ["bert", "roberta", "longformer", "bigbird", "reformer", "bp_transformer"]
WHOLE += ["linformer", "performer", "universal"]
"""They read a text in both directions, or sort it by what is in all of it."""
ONE_WAY = [name for name in TEXT if name not in WHOLE]
COUNTING = ["roberta", "longformer"]
"""Their positions count what is not the padding's id."""
OWN_GRAPHS = ["longformer", "bigbird", "reformer", "bp_transformer"]
OWN_GRAPHS += ["adaptive_span", "linformer", "performer"]
"""Each layer has a graph, so that the stack has none; tests of their own are in tests/models."""
EVERY = [*TEXT, *models.ENCODER_DECODER_MODELS]


def small(name: str, **options: object) -> TextModel | EncoderDecoderModel:
    """The model with its defaults, small, in float64, with weights that are nowhere 0 or 1."""
    torch.manual_seed(0)
    numbers: dict[str, object] = {"width": 8, "depth": 2}
    if name not in RECURRENT:
        numbers |= {"heads": 2, "ffn_dim": 12}
    if name == "t5":
        numbers |= {"head_width": 6, "num_buckets": 8, "max_distance": 6}
    if name == "adaptive_span":  # spans that end within five tokens
        numbers |= {"span": 4, "ramp": 4}
    model = models.MODELS[name](VOCABULARY, **{**numbers, **options}).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, mean=0.1, std=0.4)
    return model


def padded() -> tuple[Tensor, Tensor]:
    """Ids of three lengths, and their mask; padding is 1, as RoBERTa has it."""
    torch.manual_seed(1)
    ids = torch.randint(2, VOCABULARY, (len(SIZES), LONGEST))
    mask = (torch.arange(LONGEST) < torch.tensor(SIZES)[:, None]).long()
    return ids.masked_fill(mask == 0, 1), mask


def states(
    model: TextModel | EncoderDecoderModel, ids: Tensor, mask: Tensor | None = None
) -> Tensor:
    """One call, of a text; of a pair of texts, with the other lengths as target."""
    if isinstance(model, EncoderDecoderModel):
        return model(ids, mask, ids.flip(0), None if mask is None else mask.flip(0))
    return model(ids, mask)


def close(mine: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(mine, other, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", EVERY)
def test_forward_and_backward_are_finite_and_reach_every_weight(name: str) -> None:
    model = small(name)
    ids, mask = padded()
    out = model.logits(states(model, ids, mask))
    assert out.shape == (*ids.shape, VOCABULARY)
    assert out.isfinite().all()
    out.square().sum().backward()
    for weight, parameter in model.named_parameters():
        if weight.endswith("hub_key.bias"):  # adds as much to all scores of a hub: it is left out
            assert parameter.grad is None
            continue
        assert parameter.grad is not None, weight
        assert parameter.grad.isfinite().all(), weight
        assert parameter.grad.abs().max() > 0, weight


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", EVERY)
def test_a_model_of_16_bits_computes_in_them(name: str) -> None:
    ids, mask = padded()
    for dtype, given in ((torch.bfloat16, mask), (torch.float16, None)):
        out = states(small(name).to(dtype), ids, given)
        assert out.dtype == dtype
        out.float().sum().backward()


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", EVERY)
def test_state_dict_round_trip_gives_the_same_output(name: str) -> None:
    model, other = small(name), small(name)
    ids, mask = padded()
    for parameter in other.parameters():
        nn.init.normal_(parameter)
    assert not torch.equal(states(other, ids, mask), states(model, ids, mask))
    other.load_state_dict(model.state_dict())
    assert torch.equal(states(other, ids, mask), states(model, ids, mask))
    storages = [tensor.data_ptr() for tensor in model.state_dict().values()]
    assert len(storages) == len(set(storages)), "safetensors wants every tensor once"


@pytest.mark.slow(every=2)
@pytest.mark.parametrize("name", [*ATTENTION, *models.ENCODER_DECODER_MODELS])
def test_every_engine_gives_the_reference(name: str) -> None:
    model = small(name)
    ids, mask = padded()
    expected: list[Tensor] = []
    for engine in ("reference", *ew.engines.ENGINES.keys() - {"reference"}):
        with ew.using_engine(engine):
            try:
                out = states(model, ids, mask)
            except ew.ArgumentError:
                assert engine != "reference"
                continue
        weight = model.embedding.tokens.weight
        (grad,) = torch.autograd.grad(out.square().sum(), weight)
        expected = expected or [out, grad]
        with case(engine):
            close(out, expected[0])
            close(grad, expected[1])


@pytest.mark.parametrize("name", EVERY)
def test_packed_equals_padded_equals_alone(name: str) -> None:
    model = small(name)
    ids, mask = padded()
    real = mask.bool()
    whole = states(model, ids, mask)
    if isinstance(model, EncoderDecoderModel):
        target, kept = ids.flip(0), real.flip(0)
        sizes = {"sizes": SIZES, "decoder_sizes": SIZES[::-1]}
        packed = model(ids[real], None, target[kept], **sizes)
        alone = [model(i[None, m], None, t[None, k])[0]
                 for i, m, t, k in zip(ids, real, target, kept, strict=True)]  # fmt: skip
        real = kept
    else:
        packed = model(ids[real], sizes=SIZES)
        alone = [model(row[None, kept])[0] for row, kept in zip(ids, real, strict=True)]
    close(packed, whole[real])
    close(packed, torch.cat(alone))


BY_PATTERN = [name for name in ATTENTION if name not in OWN_GRAPHS or name == "adaptive_span"]
BY_PATTERN = [name for name in BY_PATTERN if name not in ("transformer_xl", "compressive")]
"""A pattern says who reads whom, and a call may give another."""


@pytest.mark.parametrize("name", BY_PATTERN)
@pytest.mark.parametrize("left", [False, True])
def test_padded_texts_are_segments_and_no_edge_is_masked(
    name: str, left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small(name)
    ids, mask = padded()
    whole = [model(row[None, : int(size)]) for row, size in zip(ids, mask.sum(1), strict=True)]
    positions = torch.arange(LONGEST).expand_as(ids)
    if left:
        ids, mask = ids.flip(1), mask.flip(1)
        ids[mask.bool()] = torch.cat(
            [row[:size] for row, size in zip(padded()[0], SIZES, strict=True)]
        )
        positions = (mask.cumsum(1) - 1).clamp(min=0)
    listed = []

    def spied(*given: object) -> Tensor | None:
        listed.append(text.padding_bias(*given))  # type: ignore[arg-type]
        return listed[-1]

    monkeypatch.setattr(
        SequenceBatch, "padding_bias", lambda self, *of: spied(self.attention_mask, *of)
    )
    out = model(ids, mask, positions=positions)
    close(out[mask.bool()], torch.cat(whole, 1)[0])
    assert not out[~mask.bool()].any()
    assert not any(found is not None for found in listed)
    beside = mask.clone()
    beside[int(left) - 1 if left else 0, 2] = 0  # a hole: who is near whom counts it
    model(ids, beside, positions=positions)
    assert listed[-1] is not None


@pytest.mark.parametrize("name", BY_PATTERN)
def test_a_padded_text_without_a_batch_and_positions_for_all_texts(name: str) -> None:
    model = small(name)
    ids, mask = padded()
    whole = model(ids, mask)
    close(model(ids, mask, positions=torch.arange(LONGEST)), whole)
    close(model(ids[2], mask[2]), whole[2])


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_a_hole_in_a_text_is_read_by_nobody(name: str) -> None:
    model = small(name)
    ids, mask = torch.randint(2, VOCABULARY, (2, LONGEST)), torch.ones(2, LONGEST)
    mask[1, 2] = 0
    kept = mask[1].bool()
    alone = model(ids[1:, kept], positions=torch.arange(LONGEST)[None, kept])
    close(model(ids, mask)[1:, kept], alone)


@pytest.mark.parametrize("name", EVERY)
def test_padding_changes_nothing_and_gets_no_gradient(name: str) -> None:
    model = small(name)
    ids, mask = padded()
    real = mask.flip(0).bool() if isinstance(model, EncoderDecoderModel) else mask.bool()
    out = states(model, ids, mask)[real]
    if name not in COUNTING:
        other = ids.where(mask.bool(), 7)
        assert torch.equal(states(model, other, mask)[real], out)
    out.square().sum().backward()
    assert not model.embedding.tokens.weight.grad[1].any()


@pytest.mark.parametrize("name", ONE_WAY)
def test_nothing_comes_from_the_future(name: str) -> None:
    model = small(name)
    ids, _ = padded()
    later = ids.clone()
    later[:, 3:] = 2 + (later[:, 3:] - 1) % (VOCABULARY - 2)
    before, after = states(model, ids), states(model, later)
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3], after[:, 3])


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_bert_on_the_causal_graph_is_the_unidirectional_masked_model(name: str) -> None:
    """The lectures mask the upper triangle of the attention matrix and leave the loss as it is."""
    model, both_ways = small(name, graph=graphs.causal()), small(name)
    ids, _ = padded()
    ids[0, 2] = 3  # the masked token, predicted from those before it
    later = ids.clone()
    later[0, 3:] = 4
    for one, same in ((model, True), (both_ways, False)):
        scores, changed = one.logits(one(ids))[0, 2], one.logits(one(later))[0, 2]
        assert torch.equal(scores, changed) is same
    close(model(ids), both_ways(ids, graph=graphs.causal()))


@pytest.mark.parametrize("name", ONE_WAY)
def test_step_by_step_equals_at_once(name: str) -> None:
    model = small(name)
    ids, _ = padded()
    for steps in ((5,), (1, 1, 1, 1, 1), (2, 3)):
        cache = Cache()
        parts = [model(part, cache=cache) for part in ids.split(steps, dim=1)]
        assert cache.length == LONGEST
        close(torch.cat(parts, dim=1), model(ids))


@pytest.mark.parametrize("name", RECURRENT)
@pytest.mark.parametrize("left", [True, False])
def test_a_row_may_have_nothing_to_read_in_a_chunk(name: str, left: bool) -> None:
    model = small(name)
    ids, mask = padded()
    if left:
        ids, mask = ids.flip(1), mask.flip(1)
    cache = Cache()
    parts = [
        model(ids[:, start : start + 2], mask[:, : start + 2], cache=cache) for start in (0, 2, 4)
    ]
    close(torch.cat(parts, dim=1), model(ids, mask))


@pytest.mark.parametrize("name", models.ENCODER_DECODER_MODELS)
def test_a_decoder_step_by_step_equals_at_once(name: str) -> None:
    model = small(name)
    ids, mask = padded()
    memory, cache = model.encode(ids, mask), Cache()
    target = ids.flip(0)
    parts = [model.decode(part, memory, cache=cache) for part in target.split((1, 2, 2), dim=1)]
    close(torch.cat(parts, dim=1), model(ids, mask, target))
    close(model(ids, mask), memory.states)


@pytest.mark.parametrize("name", [name for name in ATTENTION if name not in OWN_GRAPHS])
def test_another_graph_at_the_call(name: str) -> None:
    model = small(name)
    ids, mask = padded()
    own = model.backbone.stack.graph
    close(model(ids, mask, graph=own & graphs.window(LONGEST)), model(ids, mask))
    assert not torch.allclose(model(ids, mask, graph=own & graphs.window(1)), model(ids, mask))


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", EVERY)
def test_one_token_and_no_texts_are_good_input(name: str) -> None:
    model = small(name)
    (alone,) = model.logits(states(model, torch.full((1, 1), 3)))
    assert alone.isfinite().all()
    for batch in (0, 2):
        out = model.logits(states(model, torch.full((batch, 1), 3)))
        close(out, alone.expand(batch, 1, VOCABULARY))


@pytest.mark.parametrize("name", EVERY)
def test_unknown_tokens_masks_and_sizes_that_do_not_fit_are_refused(name: str) -> None:
    model = small(name)
    ids, mask = padded()
    with refused("input_ids", expected="from 0 to 10", got="to 11", remedy="tokenizer"):
        states(model, torch.full((1, 2), VOCABULARY))
    with refused("input_ids", expected="int64", got="float32", remedy="long"):
        states(model, torch.zeros(1, 2))
    target = (None, ids) if isinstance(model, EncoderDecoderModel) else ()
    for none in ([1, 2], torch.tensor(3)):
        kind = type(none).__name__
        with refused("input_ids", expected="[B, T]", got=kind, remedy="torch.tensor"):
            model(none, *target)
    with refused("input_ids", expected="texts [B, T]", got="3 axes, [1, 3, 5]", remedy="flatten"):
        model(ids[None], *target)
    with refused("attention_mask", expected="shape [3, 5]", got="[3, 4]", remedy="padding"):
        model(ids, mask[:, 1:])
    with refused("sizes", expected="sizes that sum to", got="sum to 8", remedy="concatenate"):
        model(ids.flatten(), sizes=[4, 4])
    with refused("sizes", expected="without attention mask", got="a mask", remedy="pad them"):
        model(ids, mask, sizes=SIZES)


@pytest.mark.parametrize("name", RECURRENT)
def test_a_recurrent_network_reads_the_chain_alone(name: str) -> None:
    with refused("graph", expected="reads the tokens in order", got="Causal", remedy="gpt"):
        small(name)(padded()[0], graph=graphs.causal())


@pytest.mark.parametrize("name", RECURRENT)
def test_a_bidirectional_network_reads_each_text_from_both_ends(name: str) -> None:
    model = small(name, bidirectional=True)
    ids, mask = padded()
    whole = states(model, ids, mask)
    backwards = small(name, bidirectional=True)
    renamed = {
        key: value
        for key, value in model.state_dict().items()
        if not key.startswith("backbone.cell.")
    }
    for key, value in model.state_dict().items():
        if key.startswith("backbone.cell."):
            other = key.removesuffix("_reverse") if "_reverse" in key else f"{key}_reverse"
            renamed[other] = value
            if "weight_ih_l1" in key:  # which reads the two halves below, now the other way round
                renamed[other] = torch.cat([value[:, 4:], value[:, :4]], dim=1)
    backwards.load_state_dict(renamed)
    turned = [row[:size].flip(0) for row, size in zip(ids, SIZES, strict=True)]
    again = backwards(torch.cat(turned), sizes=SIZES).split(SIZES)
    for row, other, size in zip(whole, again, SIZES, strict=True):
        close(row[:size], torch.cat([other[:, 4:], other[:, :4]], dim=1).flip(0))
    close(model(ids[mask.bool()], sizes=SIZES), whole[mask.bool()])
    assert states(model, ids[:0]).shape == (0, LONGEST, 8)
    assert models.MODELS[name](VOCABULARY).caches
    assert not model.caches
    with refused("cache", expected="no cache", got="a cache", remedy="bidirectional"):
        model(ids, mask, cache=Cache())
    with refused("width", expected="an even number", got="7", remedy="add 1"):
        models.MODELS[name](VOCABULARY, width=7, bidirectional=True)


@pytest.mark.parametrize("name", ["bert", "gpt"])
def test_a_text_longer_than_the_positions_says_so(name: str) -> None:
    model = small(name, max_length=6)
    assert isinstance(model.embedding.positions, Learned)
    model(torch.full((1, 6), 3))
    with refused("x", expected="at most 6 nodes", got="7 nodes", remedy="sinusoidal"):
        model(torch.full((1, 7), 3))
    cache = Cache()
    model(torch.full((1, 6), 3), cache=cache)
    with refused("x", expected="at most 6 nodes", got="7 nodes", remedy="sinusoidal"):
        model(torch.full((1, 1), 3), cache=cache)


@pytest.mark.parametrize("name", [*ATTENTION, "transformer"])
def test_dropout_disturbs_training_alone(name: str) -> None:
    model = small(name, dropout=0.3)
    run = partial(states, model, *padded())
    assert torch.equal(run(), run())
    model.train()
    assert not torch.equal(run(), run())


def test_kinds_do_not_overlap_and_every_model_says_its_encoding() -> None:
    for name in EVERY:
        assert "Encoding" in models.about(name), name
        assert next(iter(inspect.signature(models.MODELS[name]).parameters)) == "vocab_size"
