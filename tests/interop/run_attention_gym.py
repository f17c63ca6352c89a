"""Run the masks and score functions of attention-gym on Edgewise's FlexAttention.

    python tests/interop/run_attention_gym.py FOLDER

FOLDER is a checkout of attention-gym. The examples are those that its modules draw in their
``main``, and others from the same functions. Outputs are compared with PyTorch's ``flex_attention``
on a CPU; gradients, also those of tensors that a function reads, with a dense computation, as
PyTorch has no backward pass there.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor
from torch.nn.attention import flex_attention as torch_flex

from edgewise.interop.flex import create_block_mask, flex_attention

TOLERANCE, MOST_TOKENS = 1e-10, 2048
OPTIONS: dict[str, list[Any]] = {"causal": [True, False], "graph": ["ring", "smiley"]}
"""Arguments of ``main``, with the values to run."""


class Example(NamedTuple):
    """A mask or a score function with the sizes ``(B, H, L, S, E)`` to run it on."""

    name: str
    sizes: tuple[int, int, int, int, int]
    score_mod: Callable[..., Tensor] | None = None
    mask_mod: Callable[..., Tensor] | None = None
    block_mask: torch_flex.BlockMask | None = None


def examples_of_modules() -> Iterator[Example]:
    """Yield what ``main`` of each module draws."""
    import attn_gym

    for package in (attn_gym.masks, attn_gym.mods):
        for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            main = getattr(importlib.import_module(info.name), "main", None)
            if main is None or info.name.endswith("activation"):  # That one draws nothing.
                continue
            names = [name for name in inspect.signature(main).parameters if name in OPTIONS]
            settings = [{name: value} for name in names for value in OPTIONS[name]] or [{}]
            for options in settings:
                with mock.patch("attn_gym.visualize_attention_scores") as draw:
                    main(device="cpu", **options)
                stem = info.name.partition(".")[2]
                for number, call in enumerate(draw.call_args_list):
                    query, key, *_ = call.args
                    sizes = *query.shape[:3], key.shape[2], query.shape[3]
                    functions = [call.kwargs.get(name) for name in ("score_mod", "mask_mod")]
                    suffix = "".join(f", {k}={v}" for k, v in options.items())
                    yield Example(f"{stem}, {number + 1}{suffix}", sizes, *functions)


def more_masks() -> Iterator[Example]:
    """Yield masks that no ``main`` draws, or draws on few tokens only."""
    from attn_gym import masks
    from attn_gym.masks.causal import create_causal_block_mask_fast
    from attn_gym.masks.vsa import generate_vsa_block_map_mask_mod, generate_vsa_padding_mask_mod

    def mask(name: str, function: Any, queries: int = 256, keys: int | None = None) -> Example:
        return Example(name, (2, 2, queries, keys or queries, 16), mask_mod=function)

    offsets = torch.tensor([0, 40, 41, 130, 256])
    tree = masks.build_tree_ancestor_matrix([-1, 0, 1, 1, 3, 3, 0], device="cpu")
    prefixes = torch.tensor([0, 0, 2, 2])
    counts = torch.tensor([16, 16, 9, 16, 1, 16, 16, 16])
    blocks = torch.rand(2, 2, 16, 16) < 0.3
    sta_2d = masks.generate_sta_mask_mod_2d
    sta_3d = masks.generate_sta_mask_mod_3d
    yield mask("masks.causal", masks.causal_mask)
    yield mask("masks.batchify of causal", masks.batchify_mask_mod(masks.causal_mask, 48))
    yield mask("masks.block_diffusion", masks.generate_block_diffusion_mask(128, 16))
    yield mask("masks.dilated_sliding_window", masks.generate_dilated_sliding_window(40, 4))
    yield mask("masks.document_mask", masks.generate_doc_mask_mod(masks.causal_mask, offsets))
    yield mask("masks.document_mask, packed", masks.generate_packed_causal_doc_mask_mod(offsets))
    yield mask(
        "masks.global_sliding_window",
        masks.generate_global_sliding_window(30, torch.rand(256) < 0.05),
    )
    yield mask("masks.jetspec, tree", masks.generate_jetspec_tree_causal_mask_mod(25, tree), 7, 32)
    yield mask("masks.jetspec", masks.generate_jetspec_training_mask_mod(64, 16), 192)
    yield mask("masks.natten", masks.generate_natten(16, 16, 5, 3))
    yield mask("masks.natten, tiled", masks.generate_tiled_natten(16, 16, 5, 5, 4, 4))
    yield mask("masks.natten, morton", masks.generate_morton_natten(16, 16, 5, 5))
    yield mask("masks.prefix_lm", masks.generate_prefix_lm_mask(60))
    yield mask("masks.shared_prefix", masks.generate_shared_prefix_mask_mod(offsets, prefixes))
    yield mask("masks.sliding_window", masks.generate_sliding_window(30))
    yield mask("masks.sta, 2d and text", sta_2d((16, 14), (8, 6), (4, 2), 32))
    yield mask("masks.sta, 3d", sta_3d((8, 8, 8), (4, 4, 4), (2, 2, 2)), 512)
    yield mask("masks.sta, 3d and text", sta_3d((4, 8, 8), (4, 4, 4), (2, 2, 2), 16), 272)
    yield mask("masks.svg", masks.generate_spatial_head_mask_mod(16, 8, 30, 2, False, 16))
    yield mask("masks.svg, temporal", masks.generate_temporal_head_mask_mod(16, 8, 30, 2))
    yield mask("masks.vsa, block map", generate_vsa_block_map_mask_mod(blocks, 16))
    yield mask("masks.vsa, padding", generate_vsa_padding_mask_mod(counts, 16), 128)
    fast = create_causal_block_mask_fast(2, 2, 256, 256, torch.device("cpu"), 64)
    yield mask("masks.causal, block mask", masks.causal_mask)._replace(block_mask=fast)
    top_k = torch.rand(2, 2, 4, 8).argsort(-1)[..., :3]
    vsa = mask("masks.vsa, block mask", masks.generate_vsa_mask_mod(top_k, 16), 64, 128)
    yield vsa._replace(block_mask=masks.create_vsa_block_mask(top_k, 16, 8))


def more_mods() -> Iterator[Example]:
    """Yield score functions of several heads, and those that no ``main`` draws."""
    from attn_gym import mods

    def mod(name: str, function: Any) -> Example:
        return Example(name, (2, 2, 24, 24, 16), score_mod=function)

    adjacency = torch.rand(2, 24, 24) < 0.1
    distances = mods.shortest_path_distances(adjacency, 4)
    types = torch.randint(5, (2, 24, 24))
    path_types, lengths = mods.shortest_path_edge_types(adjacency, types, 3)
    yield mod("mods.alibi", mods.generate_alibi_bias(2))
    yield mod("mods.sandwich", mods.generate_sandwich_bias(2, 24, device="cpu"))
    yield mod("mods.softcapping", mods.generate_tanh_softcap(2, approx=False))
    yield mod("mods.activation, gelu", mods.generate_activation_score_mod())
    yield mod("mods.activation, relu", mods.generate_activation_score_mod(torch.relu))
    bias = torch.randn(2, 6)
    yield mod("mods.graphormer", mods.generate_graphormer_spatial_bias(bias, distances))
    bias = torch.randn(2, 3, 5)
    yield mod("mods.graphormer, e", mods.generate_graphormer_edge_bias(bias, path_types, lengths))
    rope = torch.randn(2, 2, 24, 8), torch.randn(2, 1, 24, 8)
    yield mod("mods.latent_attention", mods.generate_mla_rope_score_mod(*rope, num_heads=2))


def learned_tensors(function: Callable[..., Tensor] | None) -> list[Tensor]:
    """Return the floating-point tensors that a function reads, in float64."""
    values = inspect.getclosurevars(function).nonlocals.values() if function else ()
    tensors = [x for x in values if isinstance(x, Tensor) and x.is_floating_point()]
    for tensor in tensors:
        tensor.data = tensor.double()
    return [tensor.requires_grad_() for tensor in tensors]


def dense(nodes: list[Tensor], example: Example) -> Tensor:
    """Return the output from a matrix of scores, modified one by one."""
    query, key, value = nodes
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    if example.score_mod is not None:
        indices = itertools.product(*(torch.arange(size) for size in scores.shape))
        modified = [example.score_mod(scores[index], *index) for index in indices]
        scores = torch.stack(modified).view_as(scores)
    if example.mask_mod is not None:
        mask = torch_flex.create_mask(example.mask_mod, *scores.shape, device="cpu")
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1).nan_to_num() @ value


def errors_of(example: Example) -> tuple[float, float]:
    """Return the largest errors of output and gradients, relative to values above 1."""
    batch, heads, queries, keys, width = example.sizes
    torch.manual_seed(0)
    nodes = [
        torch.randn(batch, heads, size, width, dtype=torch.float64).requires_grad_()
        for size in (queries, keys, keys)
    ]
    leaves = [*nodes, *learned_tensors(example.score_mod)]
    block_mask = None
    if example.mask_mod is not None:
        block_mask = create_block_mask(example.mask_mod, batch, heads, queries, keys, "cpu")
    # PyTorch's function refuses inputs that require gradients on a CPU, and ignores blocks there.
    inputs = (x.detach() for x in nodes)
    expected = torch_flex.flex_attention(*inputs, example.score_mod, block_mask)
    out = flex_attention(*nodes, example.score_mod, example.block_mask or block_mask)
    reference = dense(nodes, example)
    gradient = torch.randn_like(reference)
    pairs = zip(*(torch.autograd.grad(x, leaves, gradient) for x in (out, reference)), strict=True)
    return _error(out, expected), max(_error(*pair) for pair in pairs)


def _error(actual: Tensor, expected: Tensor) -> float:
    return float((actual - expected).abs().max() / expected.abs().max().clamp(min=1))


def main(folder: str) -> int:
    """Print the errors of each example, and return the number of failures."""
    sys.path.insert(0, folder)
    failures = count = 0
    for example in (*examples_of_modules(), *more_masks(), *more_mods()):
        if max(example.sizes[2:4]) > MOST_TOKENS:
            print(f"{example.name}: left out, {example.sizes[2]} tokens")
            continue
        count += 1
        try:
            forward, backward = errors_of(example)
            line, failed = f"{forward:.0e} {backward:.0e}", max(forward, backward) > TOLERANCE
        except Exception as error:  # An example may fail anywhere.
            line, failed = repr(error), True
        failures += failed
        print(f"{'FAILED' if failed else 'equal '} {example.name}: {line}", flush=True)
    print(f"{count - failures} of {count} examples agree within {TOLERANCE:.0e}")
    return failures


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
