"""Texts token by token: with a cache as without, side by side as alone, and by chance as asked."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from edgewise import graphs, models
from edgewise.decoding import Continuation, Greedy, Sample, beam_search, generate
from edgewise.layers import EncoderDecoderModel, LanguageModelHead, TextModel
from tests.errors import refused

VOCABULARY, END, PADDING = 13, 2, 1
WRITERS = ["gpt", "llama", "gru", "lstm", "transformer", "t5"]


def writer(name: str, dtype: torch.dtype = torch.double) -> TextModel | EncoderDecoderModel:
    torch.manual_seed(0)
    numbers = {"width": 16, "depth": 2, "dropout": 0.0}
    numbers |= {} if name in ("gru", "lstm") else {"heads": 2, "ffn_dim": 24}
    model = models.MODELS[name](VOCABULARY, **numbers).eval()
    model.head = LanguageModelHead(VOCABULARY, 16, tied=False)  # a tied one would repeat its words
    for parameter in model.parameters():
        if parameter.dim() > 1:  # random biases of the last norm would decide every token
            nn.init.normal_(parameter, std=0.7)
    return model.to(dtype)


def prompts(model: nn.Module) -> tuple[Tensor, dict[str, object]]:
    """Three beginnings, the second shorter and padded on the left; for a pair, their sources."""
    torch.manual_seed(1)
    ids = torch.randint(3, VOCABULARY, (3, 4))
    if isinstance(model, EncoderDecoderModel):
        return ids, {"memory": model.encode(torch.randint(3, VOCABULARY, (3, 5)))}
    mask = torch.ones_like(ids)
    mask[1, :2] = 0
    return ids.masked_fill(mask == 0, PADDING), {"attention_mask": mask}


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("write", [generate, beam_search])
def test_a_cache_changes_time_and_nothing_else(name: str, write: object) -> None:
    model = writer(name)
    ids, options = prompts(model)
    options |= {"max_new_tokens": 12, "end": END, "padding": PADDING}
    texts = write(model, ids, **options)
    assert torch.equal(texts, write(model, ids, cached=False, **options))
    assert texts[:, 4:].unique().numel() > 1, "the texts are worth comparing"


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("write", [generate, beam_search])
def test_texts_side_by_side_are_the_texts_alone(name: str, write: object) -> None:
    model = writer(name)
    ids, options = prompts(model)
    limits = {"max_new_tokens": 9, "end": END, "padding": PADDING}
    together = write(model, ids, **options, **limits)
    for row in range(3):
        mine, first = {}, 0
        if "memory" in options:
            memory = options["memory"]
            mine["memory"] = type(memory)(memory.states[row : row + 1])
        else:
            first = int((options["attention_mask"][row] == 0).sum())
        alone = write(model, ids[row : row + 1, first:], **mine, **limits)[0]
        expected = together[row, first:]
        assert expected[: len(alone)].tolist() == alone.tolist()
        assert (expected[len(alone) :] == PADDING).all()


def test_a_step_is_as_exact_as_the_whole() -> None:
    """Cached and uncached logits are rounded otherwise, and equally well.

    Both in float32 are compared with float64: the step's error is at most twice the whole's.
    """
    ids = torch.randint(3, VOCABULARY, (2, 40), generator=torch.Generator().manual_seed(0))
    model, exact = writer("gpt", torch.float32), writer("gpt", torch.float64)
    with torch.no_grad():
        truth = exact.logits(exact(ids))
        whole = model.logits(model(ids)).double()
    text = Continuation(model)
    steps = torch.stack([text.read(ids[:, [t]]) for t in range(40)], dim=1).double()
    assert (steps - truth).abs().max() <= 2 * (whole - truth).abs().max()


def test_on_a_sliding_window_a_step_is_the_same_pattern() -> None:
    torch.manual_seed(0)
    numbers = {"width": 16, "depth": 2, "heads": 2, "dropout": 0.0}
    model = models.gpt(VOCABULARY, **numbers, graph=graphs.causal() & graphs.window(3)).double()
    for parameter in model.eval().parameters():
        nn.init.normal_(parameter, std=0.7)
    ids = torch.randint(3, VOCABULARY, (2, 4))
    options = {"max_new_tokens": 10}
    assert torch.equal(
        generate(model, ids, **options), generate(model, ids, cached=False, **options)
    )


def test_an_ended_text_is_padded_until_all_have_ended() -> None:
    model = writer("gpt")
    ids, options = prompts(model)
    free = generate(model, ids, max_new_tokens=8, **options)
    end = int(free[0, 5])  # what the first text writes second
    texts = generate(model, ids, max_new_tokens=8, end=end, padding=PADDING, **options)
    for text, other in zip(texts[:, 4:].tolist(), free[:, 4:].tolist(), strict=True):
        stop = other.index(end) + 1 if end in other else len(other)
        assert text[:stop] == other[:stop]
        assert set(text[stop:]) <= {PADDING}


def test_beams_find_the_best_text_that_greedy_misses() -> None:
    """With a beam for every beginning, the search for texts of three tokens is exhaustive."""
    model, missed = writer("gpt"), 0
    endings = torch.cartesian_prod(*(torch.arange(VOCABULARY) for _ in range(3)))
    for start in range(VOCABULARY):
        texts = torch.cat([torch.full((len(endings), 1), start), endings], dim=1)
        with torch.no_grad():
            scores = model.logits(model(texts[:, :-1])).log_softmax(-1)
        best = texts[scores.gather(-1, endings[..., None]).sum((1, 2)).argmax()]
        prompt = texts[:1, :1]
        options = {"beams": VOCABULARY**2, "length_penalty": 0.0}
        found = beam_search(model, prompt, max_new_tokens=3, **options)
        assert found[0].tolist() == best.tolist()
        missed += not torch.equal(generate(model, prompt, max_new_tokens=3)[0], best)
    assert missed


def test_one_beam_is_greedy() -> None:
    model = writer("llama")
    ids, options = prompts(model)
    one = beam_search(model, ids, beams=1, max_new_tokens=7, **options)
    assert torch.equal(one, generate(model, ids, max_new_tokens=7, **options))


@pytest.mark.parametrize("write", [generate, beam_search])
@pytest.mark.parametrize("end", [None, END])
def test_no_new_tokens_are_the_prompt(write: object, end: int | None) -> None:
    model = writer("gpt")
    ids, options = prompts(model)
    assert torch.equal(write(model, ids, max_new_tokens=0, end=end, **options), ids)


def test_sampling_draws_with_its_probabilities_and_repeats_with_a_generator() -> None:
    torch.manual_seed(0)
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]])
    sample = Sample(temperature=0.5, top_k=3)
    wanted = torch.tensor([2.0, 1.0, 0.0]).div(0.5).softmax(0)
    torch.testing.assert_close(sample.probabilities(logits)[0, :3], wanted)
    assert sample.probabilities(logits)[0, 3] == 0
    drawn = sample(logits.expand(20000, 4)).bincount(minlength=4) / 20000
    torch.testing.assert_close(drawn[:3], wanted, rtol=0, atol=0.01)
    model = writer("gpt")
    ids, options = prompts(model)
    first, again, other = (
        generate(
            model,
            ids,
            choose=Sample(generator=torch.Generator().manual_seed(seed)),
            max_new_tokens=8,
            **options,
        )
        for seed in (5, 5, 6)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_fewest_tokens_that_reach_p_are_kept() -> None:
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    for top_p, kept in ((0.4, 1), (0.5, 1), (0.51, 2), (0.8, 2), (0.94, 3), (1.0, 4)):
        assert (Sample(top_p=top_p).probabilities(logits) > 0).sum() == kept, top_p
    assert torch.equal(Greedy()(logits), Sample(top_p=1e-9)(logits))


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("temperature", 0.0, "a number above 0"),
        ("top_k", 0, "an integer of at least 1"),
        ("top_p", 1.5, "a number above 0 and at most 1"),
    ],
)
def test_impossible_samples_are_refused(name: str, value: float, expected: str) -> None:
    with refused(name, expected=expected, got=repr(value), remedy="Greedy()"):
        Sample(**{name: value})


def test_what_cannot_be_continued_is_refused() -> None:
    model = writer("gpt")
    ids = torch.full((2, 3), 4)
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    with refused("attention_mask", expected="last token", got="at the end", remedy="on the left"):
        generate(model, ids, mask)
    with refused("beams", expected="at least 1", got="0", remedy="generate()"):
        beam_search(model, ids, beams=0)
    with refused("memory", expected="the encoded source", got="none", remedy="model.encode"):
        generate(writer("t5"), ids)
