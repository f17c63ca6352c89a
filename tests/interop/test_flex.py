"""FlexAttention on graphs, compared with a dense computation and with PyTorch's eager function."""

# ruff: noqa: ARG005 - the signatures are those of PyTorch

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import ref

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import flex_attention as torch_flex

from edgewise import ArgumentError
from edgewise.graphs import Edges, Graph, Intervals, Runs
from edgewise.interop import flex
from edgewise.interop.flex import blocks, create_block_mask, flex_attention
from edgewise.interop.flex.masks import CACHE, mask_of
from edgewise.interop.flex.ranges import truth_of_blocks
from edgewise.interop.flex.score_mods import Terms, recognise

BATCH, HEADS, TOKENS, WIDTH = 2, 4, 72, 8
SIZES = BATCH, HEADS, TOKENS, TOKENS
CPU = torch.device("cpu")
Function = Callable[..., Tensor]

attention: Callable[..., Any] = flex_attention
torch_attention: Callable[..., Any] = torch_flex.flex_attention

generator = torch.Generator().manual_seed(0)
DOCUMENT = torch.arange(6).repeat_interleave(torch.tensor([3, 0, 20, 1, 40, 8]))
SHUFFLED = DOCUMENT[torch.randperm(TOKENS, generator=generator)]
FIRST = torch.tensor([3, 0, 20, 1, 40, 8]).cumsum(0) - torch.tensor([3, 0, 20, 1, 40, 8])
LENGTHS, PREFIXES = torch.tensor([50, TOKENS]), torch.tensor([10, 31])
RANDOM = torch.rand(TOKENS, TOKENS, generator=generator) < 0.1
TABLE = torch.rand(TOKENS // 8, TOKENS // 8, generator=generator) < 0.3
START, STOP = torch.tensor([0, 12, 40]), torch.tensor([12, 50, TOKENS])


def causal(_b: Tensor, _h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
    return q >= kv


def window(_b: Tensor, _h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
    return (q - kv).abs() <= 9


def image_window(_b: Tensor, _h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
    """Neighbourhoods of 5 × 5 pixels of an image of 8 × 9, moved inwards at the border."""
    row, column = (q // 9).clamp(2, 5), (q % 9).clamp(2, 6)
    return ((kv // 9 - row).abs() <= 2) & ((kv % 9 - column).abs() <= 2)


MASKS: dict[str, Function] = {
    "causal": causal,
    "sliding window": torch_flex.and_masks(causal, window),
    "symmetric window": window,
    "sink and window": torch_flex.or_masks(
        torch_flex.and_masks(causal, window), lambda b, h, q, kv: (kv < 4) & (q >= kv)
    ),
    "global": lambda b, h, q, kv: window(b, h, q, kv) | (q == 0) | (kv == 0),
    "dilated": lambda b, h, q, kv: ((q - kv).abs() <= 12) & ((q - kv) % 3 == 0),
    "prefix": lambda b, h, q, kv: (kv < 20) | (q >= kv),
    "documents": lambda b, h, q, kv: DOCUMENT[q] == DOCUMENT[kv],
    "causal documents": lambda b, h, q, kv: (
        (DOCUMENT[q] == DOCUMENT[kv]) & (q - FIRST[DOCUMENT[q]] >= kv - FIRST[DOCUMENT[kv]])
    ),
    "shuffled documents": lambda b, h, q, kv: SHUFFLED[q] == SHUFFLED[kv],
    "neighbourhoods": image_window,
    "tiles": lambda b, h, q, kv: (q // 9 // 4 == kv // 9 // 4) & (q % 9 // 3 == kv % 9 // 3),
    "blocks": lambda b, h, q, kv: TABLE[q // 8, kv // 8],
    "random": lambda b, h, q, kv: RANDOM[q, kv],
    "images of a text": lambda b, h, q, kv: (q >= START[kv // 24]) & (q < STOP[kv // 24]),
    "strided": lambda b, h, q, kv: (q >= kv) & ((kv % 16 >= 14) | (q // 16 == kv // 16)),
    "padding": lambda b, h, q, kv: (kv < LENGTHS[b]) & (q < LENGTHS[b]),
    "prefixes": lambda b, h, q, kv: (kv < PREFIXES[b]) | (q >= kv),
    "windows of heads": lambda b, h, q, kv: (q >= kv) & (q - kv <= 8 * h),
    "batch and heads": lambda b, h, q, kv: (q + b >= kv) & ((h % 2 == 0) | (kv % 2 == 0)),
    "empty": lambda b, h, q, kv: q < 0 * kv,
}
INTERVALS = {"causal", "sliding window", "symmetric window", "prefix", "documents"}
INTERVALS |= {"causal documents", "padding", "prefixes", "windows of heads", "dilated", "empty"}
INTERVALS |= {"images of a text"}

Mods = dict[str, tuple[Function, list[Tensor]]]


def mods() -> Mods:
    """Return score_mods with the tensors that they read and that get gradients."""
    torch.manual_seed(1)

    def parameter(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64).requires_grad_()

    relative, heads = parameter(HEADS, 2 * TOKENS), parameter(HEADS)
    absolute, dense = parameter(TOKENS), parameter(HEADS, TOKENS, TOKENS)
    left, right = parameter(BATCH, HEADS, TOKENS, 3), parameter(BATCH, TOKENS, 3)
    cap, document = parameter(1), parameter(6)

    def alibi(s: Tensor, _b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return s + (kv - q) * torch.exp2(-(h + 1) * 8.0 / HEADS)

    def buckets(s: Tensor, _b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        distance = (q - kv).abs()
        return s + relative[h, torch.where(distance < 8, distance, 8 + distance // 9)]

    def rotary(s: Tensor, b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return s + (left[b, h, q] * right[b, kv]).sum(-1)

    return {
        "unchanged": (lambda s, b, h, q, kv: s, []),
        "alibi": (alibi, []),
        "relative": (lambda s, b, h, q, kv: s + relative[h, q - kv + TOKENS], [relative]),
        "relative, left": (lambda s, b, h, q, kv: relative[h, kv - q + TOKENS] + s, [relative]),
        "buckets": (buckets, [relative]),
        "scaled alibi": (lambda s, b, h, q, kv: (s - (q - kv).abs() / 8) * 0.5, []),
        "temperature": (lambda s, b, h, q, kv: s * heads[h], [heads]),
        "scale": (lambda s, b, h, q, kv: -s / 2.5, []),
        "query scale": (lambda s, b, h, q, kv: s * torch.log(q + 2.0), []),
        "key scale": (lambda s, b, h, q, kv: absolute[kv] * s, [absolute]),
        "dense bias": (lambda s, b, h, q, kv: s + dense[h, q, kv], [dense]),
        "dense gain": (lambda s, b, h, q, kv: s * dense[h, q, kv] + 1, [dense]),
        "key bias": (lambda s, b, h, q, kv: s + absolute[kv], [absolute]),
        "rotary": (rotary, [left, right]),
        "documents": (lambda s, b, h, q, kv: s + document[DOCUMENT[kv]], [document]),
        "softcap": (lambda s, b, h, q, kv: 2 * torch.tanh(s / 2), []),
        "learned cap": (lambda s, b, h, q, kv: cap[0] * torch.tanh(s / cap[0]), [cap]),
        "square": (lambda s, b, h, q, kv: s * s + relative[h, q - kv + TOKENS], [relative]),
        "causal": (lambda s, b, h, q, kv: torch.where(q >= kv, s, -float("inf")), []),
        "causal alibi": (
            lambda s, b, h, q, kv: torch.where(q >= kv, alibi(s, b, h, q, kv), -torch.inf),
            [],
        ),
        "soft mask": (lambda s, b, h, q, kv: torch.where(kv % 2 == 0, s, s - 3), []),
        "sparse scores": (lambda s, b, h, q, kv: torch.where(kv % 5 == 0, 2.0, s), []),
        "no scores": (lambda s, b, h, q, kv: heads[h] * (q - kv), [heads]),
    }


BIASES = {"alibi", "relative", "relative, left", "buckets", "scaled alibi", "causal alibi"}
BY_SCORE = {"softcap", "learned cap", "square"}


def tensors(*sizes: int, heads: int = HEADS) -> list[Tensor]:
    torch.manual_seed(0)
    shapes = [
        (BATCH, count, size, WIDTH)
        for count, size in zip((HEADS, heads, heads), sizes, strict=True)
    ]
    return [torch.randn(shape, dtype=torch.float64).requires_grad_() for shape in shapes]


def dense(
    nodes: list[Tensor], score_mod: Function | None = None, mask_mod: Function | None = None
) -> tuple[Tensor, Tensor]:
    """Return output and log-sum-exp from a matrix of scores, by broadcasting the functions."""
    query, key, value = nodes
    key, value = (x.repeat_interleave(HEADS // x.shape[1], 1) for x in (key, value))
    scores = query @ key.transpose(-1, -2) * WIDTH**-0.5
    indices = [
        torch.arange(size).view([-1 if i == axis else 1 for i in range(4)])
        for axis, size in enumerate(scores.shape)
    ]
    if score_mod is not None:
        scores = score_mod(scores, *indices).expand_as(scores)
    if mask_mod is not None:
        scores = scores.masked_fill(~mask_mod(*indices), -torch.inf)
    lse = scores.logsumexp(-1)
    weights = (scores - lse[..., None].masked_fill(lse[..., None] == -torch.inf, 0)).exp()
    return weights @ value, lse


def assert_equal(
    nodes: list[Tensor],
    *,
    score_mod: Function | None = None,
    mask_mod: Function | None = None,
    learned: list[Tensor] | None = None,
    block: int = 24,
    grouped: bool = False,
) -> None:
    """Compare output, log-sum-exp and all gradients with :func:`dense`."""
    mask = None
    if mask_mod is not None:
        sizes = nodes[0].shape[2], nodes[1].shape[2]
        mask = create_block_mask(mask_mod, BATCH, HEADS, *sizes, "cpu", block)
    leaves = [*nodes, *(learned or [])]
    expected, expected_lse = dense(nodes, score_mod, mask_mod)
    gradient = torch.randn_like(expected)
    expected_grads = torch.autograd.grad(expected, leaves, gradient, allow_unused=True)
    options: dict[str, Any] = {"score_mod": score_mod, "block_mask": mask, "enable_gqa": grouped}
    out, lse = attention(*nodes, **options, return_lse=True)
    torch.testing.assert_close(out, expected, atol=1e-10, rtol=1e-10)
    torch.testing.assert_close(lse, expected_lse, atol=1e-10, rtol=1e-10)
    out = attention(*nodes, **options)
    assert isinstance(out, Tensor)
    torch.testing.assert_close(out, expected, atol=1e-10, rtol=1e-10)
    grads = torch.autograd.grad(out, leaves, gradient, allow_unused=True)
    for leaf, *pair in zip(leaves, grads, expected_grads, strict=True):
        grad, expected_grad = (torch.zeros_like(leaf) if x is None else x for x in pair)
        torch.testing.assert_close(grad, expected_grad, atol=1e-9, rtol=1e-9)


def graph_of(mask_mod: Function, block: int = 16) -> Graph:
    mask = create_block_mask(mask_mod, *SIZES, "cpu", block)
    return mask_of(mask, SIZES, CPU).graph


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_is_attention_on_its_graph(name: str) -> None:
    assert_equal(tensors(*[TOKENS] * 3), mask_mod=MASKS[name])


@pytest.mark.parametrize("name", mods())
def test_a_score_mod_is_the_dense_computation(name: str) -> None:
    score_mod, learned = mods()[name]
    assert_equal(tensors(*[TOKENS] * 3), score_mod=score_mod, learned=learned)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("name", mods())
@pytest.mark.parametrize("mask", ["sink and window", "random", "windows of heads"])
def test_score_mod_and_mask_together(name: str, mask: str) -> None:
    score_mod, learned = mods()[name]
    assert_equal(tensors(*[TOKENS] * 3), score_mod=score_mod, mask_mod=MASKS[mask], learned=learned)


@pytest.mark.parametrize("name", ["alibi", "dense bias", "softcap", "key scale"])
def test_batch_and_head_dependent_masks_with_score_mods(name: str) -> None:
    score_mod, learned = mods()[name]
    mask_mod = MASKS["batch and heads"]
    assert_equal(tensors(*[TOKENS] * 3), score_mod=score_mod, mask_mod=mask_mod, learned=learned)


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", ["alibi", "softcap", "key scale", "dense bias"])
@pytest.mark.parametrize("mask", ["causal", "windows of heads", "padding"])
def test_query_heads_that_share_key_heads(name: str, mask: str) -> None:
    score_mod, learned = mods()[name]
    nodes = tensors(*[TOKENS] * 3, heads=2)
    assert_equal(nodes, score_mod=score_mod, mask_mod=MASKS[mask], learned=learned, grouped=True)


@pytest.mark.parametrize("sizes", [(40, TOKENS), (TOKENS, 33), (1, TOKENS)])
def test_other_numbers_of_queries_than_keys(sizes: tuple[int, int]) -> None:
    nodes = tensors(sizes[0], sizes[1], sizes[1])
    score_mods = mods()
    for mask_mod in (causal, MASKS["dilated"]):
        for name in ("alibi", "softcap"):
            assert_equal(nodes, score_mod=score_mods[name][0], mask_mod=mask_mod)


@pytest.mark.parametrize("name", MASKS)
def test_the_kind_of_graph_of_a_mask(name: str) -> None:
    graph = graph_of(MASKS[name])
    if name in INTERVALS:
        assert isinstance(graph, Intervals | Edges if name == "empty" else Intervals)
    else:
        assert isinstance(graph, Edges if name == "random" else Runs | Edges)
    indices = torch.meshgrid(*[torch.arange(size) for size in SIZES], indexing="ij")
    assert graph.num_edges * SIZES[0] * SIZES[1] == int(
        MASKS[name](*indices).expand(SIZES).sum()
    ) * (graph.num_targets // TOKENS)


def terms_of(name: str) -> Terms | None:
    return recognise(mods()[name][0], torch.float64, CPU)


@pytest.mark.parametrize("name", mods())
def test_what_is_recognised(name: str) -> None:
    terms = terms_of(name)
    assert (terms is None) == (name in BY_SCORE)
    if terms is not None:
        assert (terms.bias is not None and terms.is_relative) == (name in BIASES | {"no scores"})
        assert (terms.allowed is not None) == name.startswith("causal")


def test_a_piecewise_linear_function_is_not_taken_for_linear() -> None:
    """It is linear at 0, 1 and 2."""
    assert recognise(lambda s, *_: torch.clamp(s, max=50), torch.float32, CPU) is None
    assert recognise(lambda s, *_: torch.where(s > 9, 9.0, s), torch.float32, CPU) is None
    nodes = [20 * x for x in tensors(*[TOKENS] * 3)]
    assert_equal(nodes, score_mod=lambda s, *_: torch.clamp(s, max=50))


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("block", [8, (32, 7), 128])
@pytest.mark.parametrize("separate", [True, False])
def test_the_block_mask_is_that_of_pytorch(
    name: str, block: int | tuple[int, int], separate: bool
) -> None:
    arguments = (MASKS[name], *SIZES, "cpu", block)
    ours = create_block_mask(*arguments, separate_full_blocks=separate)
    expected = torch_flex.create_block_mask(*arguments, separate_full_blocks=separate)
    for ours_part, expected_part in zip(ours.as_tuple(), expected.as_tuple(), strict=True):
        if isinstance(expected_part, Tensor):
            assert ours_part.dtype == expected_part.dtype
            assert torch.equal(ours_part, expected_part)
        else:
            assert ours_part == expected_part


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", ["alibi", "softcap", "relative", "causal", None])
@pytest.mark.parametrize("mask", ["causal documents", "padding", "blocks", "windows of heads"])
def test_pytorch_computes_the_same(
    name: str | None, mask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    score_mod = None if name is None else mods()[name][0]
    nodes = [x.detach().float() for x in tensors(*[TOKENS] * 3)]
    block_mask = torch_flex.create_block_mask(MASKS[mask], *SIZES, "cpu")
    aux = torch_flex.AuxRequest(lse=True)
    with torch.no_grad():
        expected, others = torch_attention(*nodes, score_mod, block_mask, return_aux=aux)
        out, ours = attention(*nodes, score_mod, block_mask, return_aux=aux)
    torch.testing.assert_close(out, expected.float(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.lse, others.lse.float(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["alibi", "softcap"])
@pytest.mark.parametrize("mask", ["causal documents", "padding", "windows of heads", "empty"])
def test_the_largest_scores(name: str, mask: str) -> None:
    nodes, score_mod = tensors(*[TOKENS] * 3), mods()[name][0]
    block_mask = create_block_mask(MASKS[mask], *SIZES, "cpu", 16)
    aux = torch_flex.AuxRequest(max_scores=True)
    out, others = attention(*nodes, score_mod, block_mask, return_aux=aux)
    indices = torch.meshgrid(*[torch.arange(size) for size in SIZES], indexing="ij")
    scores = score_mod(nodes[0] @ nodes[1].transpose(-1, -2) * WIDTH**-0.5, *indices)
    expected = scores.masked_fill(~MASKS[mask](*indices), -torch.inf).amax(-1)
    torch.testing.assert_close(others.max_scores, expected.detach())
    torch.testing.assert_close(out, dense(nodes, score_mod, MASKS[mask])[0])
    assert others.lse is None


def test_the_signatures_are_those_of_pytorch() -> None:
    for name in flex.__all__:
        ours, expected = (inspect.signature(getattr(m, name)) for m in (flex, torch_flex))
        # Older versions of PyTorch have fewer arguments.
        arguments = [(p.name, p.kind) for p in expected.parameters.values()]
        assert [(p.name, p.kind) for p in ours.parameters.values()][: len(arguments)] == arguments


@pytest.mark.parametrize("name", MASKS)
def test_blocks_that_are_evaluated(name: str) -> None:
    """In all masks but those of a table of pairs, only blocks with a border are evaluated."""
    first, last = torch.arange(0, TOKENS, 8), torch.arange(7, TOKENS, 8)
    truth = truth_of_blocks(MASKS[name], (0, 0), (first, first), (last, last))
    assert (truth is None) == (name in {"blocks", "random"})
    if name in {"causal", "prefix", "causal documents", "padding"}:
        assert truth is not None
        assert int((truth.some & ~truth.every).sum()) < 45


def test_a_score_mod_with_a_mask_is_not_evaluated_on_all_pairs() -> None:
    for name in ("causal", "causal alibi"):
        terms = terms_of(name)
        assert terms is not None
        assert terms.allowed is not None
        first, last = torch.arange(0, TOKENS, 8), torch.arange(7, TOKENS, 8)
        truth = truth_of_blocks(terms.allowed, (0, 0), (first, first), (last, last))
        assert truth is not None
        assert int((truth.some & ~truth.every).sum()) == len(first)


def test_ranges_contain_all_results() -> None:
    table = torch.randint(-20, 20, (64,), generator=generator)
    small, flags = table.to(torch.int8), table > 0
    functions: list[Function] = [
        lambda b, h, q, kv: (q * kv - 3 * q + 7 - kv) % 11 < 4,
        lambda b, h, q, kv: (table[q] - table[kv]).abs() != 3,
        lambda b, h, q, kv: flags[q] & ~flags[kv] | (q == kv),
        lambda b, h, q, kv: (small[q] - 100 * small[kv]) > 5,
        lambda b, h, q, kv: torch.logical_or(-q // 5 <= 2 - kv // 3, torch.abs(q - kv) > 30),
        lambda b, h, q, kv: ((5 - q).clamp(-3, 9) > kv % 7) & (2 * kv != q),
        lambda b, h, q, kv: torch.remainder(table[kv // 2 + q // 2] * q, 5) == kv % 5,
    ]
    for mask_mod in functions:
        ours, expected = (
            f(mask_mod, None, None, 64, 61, "cpu", 8)
            for f in (create_block_mask, torch_flex.create_block_mask)
        )
        for name in ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices"):
            assert torch.equal(getattr(ours, name), getattr(expected, name))


def test_indices_within_a_result_of_indexing() -> None:
    """Row ``[0]`` of an interval looked up by key, as in a mask of Flamingo."""
    intervals = torch.stack([START, STOP], 1)

    def image(_b: Tensor, _h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        interval = intervals[kv // 24]
        return (q >= interval[0]) & (q < interval[1])

    assert torch.equal(graph_of(image).dense(), graph_of(MASKS["images of a text"]).dense())


def test_the_graph_is_cached_until_a_tensor_of_the_mask_changes() -> None:
    length = torch.tensor(30)
    mask = create_block_mask(lambda b, h, q, kv: kv < length, *SIZES, "cpu", 128)
    first = mask_of(mask, SIZES, CPU).graph
    assert mask_of(mask, SIZES, CPU).graph is first
    length.fill_(20)
    assert mask_of(mask, SIZES, CPU).graph.num_edges == TOKENS * 20
    mask.mask_mod = causal
    assert mask_of(mask, SIZES, CPU).graph.num_edges == TOKENS * (TOKENS + 1) // 2


def test_a_new_tensor_at_the_address_of_a_freed_one_is_noticed() -> None:
    box = nn.Module()
    box.length = torch.tensor(30)  # type: ignore[assignment]
    mask = create_block_mask(lambda b, h, q, kv: kv < box.length, *SIZES, "cpu", 128)
    for length in range(30, 10, -1):
        box.length = torch.tensor(length)  # type: ignore[assignment]
        assert mask_of(mask, SIZES, CPU).graph.num_edges == TOKENS * length


def test_the_mask_of_a_score_mod_is_cached_and_freed_with_it() -> None:
    nodes = tensors(*[TOKENS] * 3)

    def score_mod(s: Tensor, _b: Tensor, _h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return torch.where(q >= kv, s, -torch.inf)

    attention(*nodes, score_mod)
    entry = vars(score_mod)[CACHE]
    attention(*nodes, score_mod)
    assert vars(score_mod)[CACHE] is entry
    del entry
    reference = ref(score_mod)
    del score_mod
    gc.collect()
    assert reference() is None


def test_the_mask_of_a_score_mod_depends_on_the_block_mask() -> None:
    score_mod = mods()["causal"][0]
    nodes = tensors(*[TOKENS] * 3)
    for name in ("sink and window", "random", "padding", "documents"):
        assert_equal(nodes, score_mod=score_mod, mask_mod=MASKS[name])


def test_a_module_as_mask_is_cached_until_its_buffer_changes() -> None:
    class Short(nn.Module):
        length: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("length", torch.tensor(30))
            self.weight = nn.Parameter(torch.zeros(()))

        def forward(self, _b: Tensor, _h: Tensor, _q: Tensor, kv: Tensor) -> Tensor:
            return kv < self.length

    short = Short()

    def short_mask(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        result: Tensor = short(b, h, q, kv)
        return result

    mask = create_block_mask(short_mask, *SIZES, "cpu", 128)
    first = mask_of(mask, SIZES, CPU).graph
    with torch.no_grad():
        short.weight.add_(1)
    assert mask_of(mask, SIZES, CPU).graph is first
    short.length.fill_(20)
    assert mask_of(mask, SIZES, CPU).graph.num_edges == TOKENS * 20


def test_a_cached_mask_is_valid_in_training_after_inference() -> None:
    nodes = tensors(*[TOKENS] * 3)
    mask = create_block_mask(causal, *SIZES, "cpu")
    with torch.inference_mode():
        attention(*nodes, block_mask=mask)
    out = attention(*nodes, block_mask=mask)
    assert isinstance(out, Tensor)
    out.sum().backward()
    assert all(x.grad is not None for x in nodes)


def test_long_inputs_are_computed_some_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "AT_ONCE", 2000)
    monkeypatch.setattr(flex, "MOST_EDGE_TERMS", 10)
    score_mod, learned = mods()["dense bias"]
    nodes = tensors(*[TOKENS] * 3)
    assert_equal(nodes, score_mod=score_mod, mask_mod=MASKS["prefix"], learned=learned)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["alibi", "softcap", "temperature"])
def test_16_bits(dtype: torch.dtype, name: str) -> None:
    score_mod = mods()[name][0]
    nodes = [x.detach().to(dtype) for x in tensors(*[TOKENS] * 3)]
    mask = create_block_mask(causal, *SIZES, "cpu")
    out = attention(*nodes, score_mod, mask)
    expected, _ = dense([x.double() for x in nodes], score_mod, causal)
    assert isinstance(out, Tensor)
    assert out.dtype == dtype
    torch.testing.assert_close(out.double(), expected, atol=2e-2, rtol=2e-2)


def test_compiled_code_computes_the_same() -> None:
    nodes = [x.detach().float().requires_grad_() for x in tensors(*[TOKENS] * 3)]
    mask = create_block_mask(causal, *SIZES, "cpu")
    score_mod = mods()["softcap"][0]
    compiled = torch.compile(flex_attention, backend="eager")
    expected, out = (f(*nodes, score_mod, mask) for f in (attention, compiled))
    torch.testing.assert_close(out, expected)


MASK = partial(create_block_mask, causal)
REFUSED: dict[str, tuple[Callable[[Tensor], object], str]] = {
    "a mask of another size": (
        lambda x: attention(x, x, x, block_mask=MASK(None, None, 64, TOKENS, "cpu")),
        "`block_mask`: expected a mask of 72 queries and 72 keys",
    ),
    "a mask of another batch": (
        lambda x: attention(x, x, x, block_mask=MASK(3, None, TOKENS, TOKENS, "cpu")),
        "`block_mask`: expected a batch of 1 or 2",
    ),
    "a mask that is a tensor": (
        lambda x: attention(x, x, x, block_mask=torch.ones(TOKENS, TOKENS)),  # type: ignore[arg-type]
        "`block_mask`: expected a BlockMask",
    ),
    "key heads without enable_gqa": (
        lambda x: attention(x, x[:, :2], x[:, :2]),
        "`key`: expected 4 heads.*enable_gqa=True",
    ),
    "a number of key heads that does not divide": (
        lambda x: attention(x, x[:, :3], x[:, :3], enable_gqa=True),
        "`key`: expected a number of heads that divides 4",
    ),
    "three dimensions": (lambda x: attention(x[0], x[0], x[0]), "`query`: expected shape"),
    "another batch": (lambda x: attention(x, x[:0], x[:0]), "`key`: expected a batch of 2"),
    "both ways to return the log-sum-exp": (
        lambda x: attention(x, x, x, return_lse=True, return_aux=torch_flex.AuxRequest()),
        "`return_lse`: expected one of",
    ),
    "a mask that is no condition": (
        lambda x: create_block_mask(lambda b, h, q, kv: q - kv, 1, 1, 8, 8, "cpu"),
        "`mask_mod`: expected a function .* returns a boolean",
    ),
    "a negative size": (lambda x: MASK(1, 1, -1, 8, "cpu"), "`Q_LEN`: expected an integer of"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_a_named_error(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(ArgumentError, match=message):
        call(torch.randn(BATCH, HEADS, TOKENS, WIDTH))


def test_a_mask_of_listed_blocks() -> None:
    """Entries after the number of blocks in a row are undefined."""
    count = torch.tensor([[[1, 0, 2]]], dtype=torch.int32)
    column = torch.tensor([[[[2, 9, 9], [9, 9, 9], [0, 1, 9]]]], dtype=torch.int32)
    full_count = torch.tensor([[[1, 1, 1]]], dtype=torch.int32)
    full_column = torch.tensor([[[[0, 2], [1, 9], [2, 7]]]], dtype=torch.int32)
    mask = torch_flex.BlockMask.from_kv_blocks(
        *(count, column, full_count, full_column),
        BLOCK_SIZE=24,
        mask_mod=window,
        seq_lengths=(TOKENS, TOKENS),
        compute_q_blocks=False,
    )
    kinds = torch.tensor([[2, 0, 1], [0, 2, 0], [1, 1, 2]])
    kind = kinds.repeat_interleave(24, 0).repeat_interleave(24, 1)
    position = torch.arange(TOKENS)
    in_window = (position[:, None] - position).abs() <= 9
    expected = (kind == 2) | ((kind == 1) & in_window)
    assert torch.equal(mask_of(mask, SIZES, CPU).graph.dense(), expected)
    nodes = tensors(*[TOKENS] * 3)
    for name in ("softcap", "causal", None):
        score_mod = None if name is None else mods()[name][0]
        out = attention(*nodes, score_mod, mask)
        dense_out = dense(nodes, score_mod, lambda b, h, q, kv: expected[q, kv])[0]
        torch.testing.assert_close(out, dense_out)


def test_values_of_another_width_and_keys_of_one_batch() -> None:
    query, key, value = (x.detach() for x in tensors(*[TOKENS] * 3))
    nodes = [query, key[:1], torch.cat([value, value], -1)[:1]]
    nodes = [x.requires_grad_() for x in nodes]
    for name, mask in (("alibi", "causal"), ("softcap", "padding"), ("dense bias", "padding")):
        score_mod, learned = mods()[name]
        assert_equal(nodes, score_mod=score_mod, mask_mod=MASKS[mask], learned=learned)
