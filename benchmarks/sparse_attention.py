"""Time and memory of sparse attention, versus Hugging Face, FlexAttention and SDPA with a mask.

    python -m benchmarks.sparse_attention [--lengths 4096 16384] [--rounds N] [--threads N]
                                          [--only WORD] [--largest N] [--no-memory]

First, attention layers with projections and 12 heads of width 64 are compared with those of
``transformers``, which have the same weights:

- Longformer: window of 256 tokens on either side, and global tokens
- BigBird: each block of 64 tokens attends to both neighbours, the first, the last and three random
  blocks
- Reformer: four hash rounds, chunks of 64 tokens

Then attention on such graphs, without projections, is compared with compiled FlexAttention (forward
only, because it has no backward pass on a CPU) and with ``scaled_dot_product_attention`` with a
mask.

Before timing, outputs and input gradients must agree to 1e-4. Then runs alternate. Results are the
other implementation's CPU time divided by Edgewise's, for forward, and for forward and backward, as
medians over rounds. CPU times depend little on other load. Times in brackets are those of
Edgewise's linear layers. Memory is what one run forward and backward adds in a separate process; it
includes the graph, but not weights and inputs. For more than ``--largest`` tokens, only Edgewise is
measured.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import edgewise as ew
from benchmarks.cpu.measure import status
from edgewise import graphs
from edgewise.interop.huggingface import load
from edgewise.models.reformer import Texts

HEADS, WIDTH, RADIUS, BLOCK, RANDOM = 12, 64, 256, 64, 3
CLOSE = 1e-4
WARM = 1024
"""Number of tokens in the warm-up; for fewer tokens, BigBird would not use sparse attention."""

Run = Callable[..., Tensor]


@dataclass(frozen=True)
class Pair:
    """Two implementations of the same function.

    Attributes:
        inputs: function that returns new inputs.
        ours: implementation in Edgewise.
        theirs: other implementation.
        weights: module of Edgewise and other module, whose weights also get gradients.
        maps: linear layers of the Edgewise module, which are also timed separately.
        double: whether results are compared in float64. In float32, rounding can move a token of
            Reformer to another hash bucket and so change the order of the tokens.
        backward: whether the other implementation has a backward pass on a CPU.
    """

    inputs: Callable[[], list[Tensor]]
    ours: Run
    theirs: Run
    weights: tuple[nn.Module, nn.Module] | None = None
    maps: Sequence[nn.Module] = ()
    double: bool = False
    backward: bool = True


def states(tokens: int) -> list[Tensor]:
    return [torch.randn(1, tokens, HEADS * WIDTH)]


def common(**others: Any) -> dict[str, Any]:
    """Return the arguments of a ``transformers`` configuration with one layer, plus ``others``."""
    return {
        "vocab_size": 8,
        "hidden_size": HEADS * WIDTH,
        "num_attention_heads": HEADS,
        "hidden_dropout_prob": 0.0,
        **others,
    }


# ---- attention with projections, versus Hugging Face ----


def longformer(tokens: int, hubs: int) -> Pair:
    from transformers import LongformerConfig, LongformerModel

    config = LongformerConfig(
        **common(num_hidden_layers=1, attention_probs_dropout_prob=0.0),
        attention_window=[2 * RADIUS],
        max_position_embeddings=8,
    )
    whole = LongformerModel(config)
    for name, parameter in whole.named_parameters():
        if "_global" in name and parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
    theirs = whole.encoder.layer[0].attention
    ours = load(whole).backbone.layers[0].attention.sublayer
    marks = torch.arange(tokens)[None] < hubs
    mask = torch.where(marks, 10000.0, 0.0)
    places = torch.arange(hubs)
    graph = (graphs.window(RADIUS) | graphs.hubs(range(hubs), reads=False)).bind(tokens)
    hub_graph = graphs.complete().bind(hubs * HEADS, tokens)  # One target per hub and head.

    def run_theirs(x: Tensor) -> Tensor:
        masks = {"is_index_masked": mask < 0, "is_index_global_attn": marks, "is_global_attn": True}
        out: Tensor = theirs.self(x, attention_mask=mask.to(x), **masks)[0]
        projected: Tensor = theirs.output.dense(out)
        return projected

    def run_ours(x: Tensor) -> Tensor:
        out: Tensor = ours(x, graph, hubs=places, hub_graph=hub_graph)
        return out

    own = nn.ModuleList([theirs.self, theirs.output.dense])
    return Pair(partial(states, tokens), run_ours, run_theirs, (ours, own), [ours.qkv, ours.output])


def bigbird(tokens: int, *, drawn: bool) -> Pair:
    """Return BigBird's layer: with ``drawn``, each head has its own random blocks, as in training.

    Otherwise there are no random blocks, as in evaluation.
    """
    from transformers import BigBirdConfig, BigBirdModel

    config = BigBirdConfig(
        **common(num_hidden_layers=1, attention_probs_dropout_prob=0.0),
        block_size=BLOCK,
        num_random_blocks=RANDOM,
        max_position_embeddings=max(tokens, WARM),
    )
    whole = BigBirdModel(config).train(drawn)
    theirs = whole.encoder.layer[0].attention
    model = load(whole).train(drawn)
    ours = model.backbone.layers[0].attention.sublayer
    pattern = model.backbone.graphs[0]
    if not drawn:
        pattern = replace(pattern, heads=1, seed=None)
    nodes = pattern.heads * tokens
    (first, _), *repeats = [(one.bind(nodes), times) for one, times in pattern.copies([tokens])]
    real = torch.ones(1, tokens)
    blocked, band, rows, columns = BigBirdModel.create_masks_for_block_sparse_attn(real, BLOCK)

    def run_theirs(x: Tensor) -> Tensor:
        masks = (each.to(x) for each in (band, rows, columns, blocked, blocked))
        projected: Tensor = theirs.output.dense(theirs.self(x, *masks)[0])
        return projected

    def run_ours(x: Tensor) -> Tensor:
        out: Tensor = ours(x, first, repeats=repeats)
        return out

    own = nn.ModuleList([theirs.self, theirs.output.dense])
    return Pair(partial(states, tokens), run_ours, run_theirs, (ours, own), [ours.qkv, ours.output])


def reformer(tokens: int) -> Pair:
    from transformers import ReformerConfig, ReformerModel

    config = ReformerConfig(
        **common(attention_head_size=WIDTH, feed_forward_size=8),
        lsh_attention_probs_dropout_prob=0.0,
        attn_layers=["lsh"],
        lsh_attn_chunk_length=BLOCK,
        num_hashes=4,
        hash_seed=0,
        axial_pos_embds=False,
        max_position_embeddings=max(tokens, WARM),
        is_decoder=False,
    )
    whole = ReformerModel(config)
    theirs = whole.encoder.layers[0].attention
    ours = load(whole).backbone.layers[0].attention
    texts = Texts([tokens], [tokens], packed=False)

    def run_theirs(x: Tensor) -> Tensor:
        projected: Tensor = theirs.output.dense(theirs.self_attention(x).hidden_states)
        return projected

    own = nn.ModuleList([theirs.self_attention, theirs.output.dense])
    maps = [ours.query_key, ours.value, ours.output]
    return Pair(
        partial(states, tokens),
        lambda x: ours(x, texts),
        run_theirs,
        (ours, own),
        maps,
        double=True,
    )


# ---- attention without projections ----

BLOCKS = graphs.window(1) | graphs.hubs([0, -1]) | graphs.random(RANDOM)
GRAPHS: dict[str, graphs.Pattern] = {
    "window": graphs.window(RADIUS),
    "Longformer graph": graphs.window(RADIUS) | graphs.hubs([0]),
    "BigBird graph": graphs.expand(BLOCKS, BLOCK),
}
"""Dict from names to graphs. Names have no apostrophes, because torch.compile cannot quote them."""


def nodes(tokens: int) -> list[Tensor]:
    return [torch.randn(tokens, HEADS, WIDTH) for _ in range(3)]


def on(graph: graphs.Graph) -> Run:
    return lambda *qkv: ew.attend(*qkv, graph, layout="NHD")


def by_heads(run: Run) -> Run:
    """Return a function of tensors ``[N, H, D]`` that calls ``run`` with ``[1, H, N, D]``."""
    return lambda *qkv: run(*(x.transpose(0, 1)[None] for x in qkv))[0].transpose(0, 1)


def masked(tokens: int, name: str) -> Pair:
    graph = GRAPHS[name].bind(tokens)
    mask = graph.dense()
    run = partial(F.scaled_dot_product_attention, attn_mask=mask)
    return Pair(partial(nodes, tokens), on(graph), by_heads(run))


def flex(tokens: int, name: str) -> Pair:
    """Return attention in Edgewise and in FlexAttention on the graph of this name.

    For BigBird's graph, the blocks of FlexAttention's mask are those of the graph.
    """
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    graph = GRAPHS[name].bind(tokens)
    table = BLOCKS.bind(tokens // BLOCK).dense()

    def window(_member: Tensor, _head: Tensor, target: Tensor, source: Tensor) -> Tensor:
        return (target - source).abs() <= RADIUS

    def hub(_member: Tensor, _head: Tensor, target: Tensor, source: Tensor) -> Tensor:
        return ((target - source).abs() <= RADIUS) | (target == 0) | (source == 0)

    def blocks(_member: Tensor, _head: Tensor, target: Tensor, source: Tensor) -> Tensor:
        return table[target // BLOCK, source // BLOCK]

    reads = dict(zip(GRAPHS, (window, hub, blocks), strict=True))[name]
    size = BLOCK if reads is blocks else 128
    mask = create_block_mask(reads, None, None, tokens, tokens, device="cpu", BLOCK_SIZE=size)
    attend = torch.compile(flex_attention)
    run = by_heads(partial(attend, block_mask=mask))
    return Pair(partial(nodes, tokens), on(graph), run, backward=False)


PAIRS: dict[str, Callable[[int], Pair]] = {
    "Longformer, a hub, beside Hugging Face's": partial(longformer, hubs=1),
    "Longformer, 16 hubs, beside Hugging Face's": partial(longformer, hubs=16),
    "BigBird, random blocks, beside Hugging Face's": partial(bigbird, drawn=True),
    "BigBird, evaluated, beside Hugging Face's": partial(bigbird, drawn=False),
    "Reformer, beside Hugging Face's": reformer,
    **{f"{name}, beside FlexAttention": partial(flex, name=name) for name in GRAPHS},
    **{f"{name}, beside a masked SDPA": partial(masked, name=name) for name in GRAPHS},
}


# ---- measuring ----


def leaves(pair: Pair, side: str, inputs: list[Tensor]) -> list[Tensor]:
    """Return the tensors that get gradients: the inputs and all weights, including unused ones."""
    if pair.weights is None:
        return inputs
    return [*inputs, *pair.weights[side == "theirs"].parameters()]


def both_passes(pair: Pair, side: str, inputs: list[Tensor], gradient: Tensor) -> list[Tensor]:
    wanted = leaves(pair, side, inputs)
    out = getattr(pair, side)(*inputs)
    return list(torch.autograd.grad(out, wanted, gradient, allow_unused=True))


def check(name: str, pair: Pair) -> None:
    """Exit the program if the two implementations disagree."""
    torch.manual_seed(1)
    inputs = pair.inputs()
    if pair.double and pair.weights is not None:
        inputs = [x.double() for x in inputs]
        for module in pair.weights:
            module.double()
    inputs = [x.requires_grad_(pair.backward) for x in inputs]
    found = []
    for side in ("ours", "theirs"):
        with torch.set_grad_enabled(pair.backward):
            out = getattr(pair, side)(*inputs)
        of_inputs = torch.autograd.grad(out.square().sum(), inputs) if pair.backward else ()
        found.append([out.detach(), *of_inputs])
    for one, other in zip(*found, strict=True):
        apart = float((one - other).abs().max() / other.abs().max())
        if not apart < CLOSE:
            raise SystemExit(f"{name}: the implementations differ by {apart:.1e} of the maximum")
    if pair.double and pair.weights is not None:
        for module in pair.weights:
            module.float()


def timed(step: Callable[[], object]) -> float:
    start = time.process_time()
    step()
    return time.process_time() - start


def times(pair: Pair, sides: list[str], rounds: int) -> dict[tuple[str, str], list[float]]:
    """Return ``{(pass, implementation): seconds of each round}``, after a warm-up."""
    inputs = [x.requires_grad_(pair.backward) for x in pair.inputs()]
    with torch.no_grad():
        gradient = torch.randn_like(pair.ours(*inputs))

    def forward(side: str) -> None:
        with torch.no_grad():
            getattr(pair, side)(*inputs)

    def both(side: str) -> None:
        both_passes(pair, side, inputs, gradient)

    def of_maps(step: str) -> None:
        (x,) = inputs
        with torch.set_grad_enabled(step == "both"):
            outs = [each(x) for each in pair.maps]
        if step == "both":
            wanted = [x, *(weight for each in pair.maps for weight in each.parameters())]
            torch.autograd.grad(outs, wanted, [torch.ones(()).expand_as(out) for out in outs])

    passes = {"forward": forward, "both": both} if pair.backward else {"forward": forward}
    found: dict[tuple[str, str], list[float]] = {}
    for turn in range(rounds + 1):
        for name, step in passes.items():
            for side in sides:
                spent = timed(partial(step, side))
                if turn:
                    found.setdefault((name, side), []).append(spent)
            if turn and pair.maps:
                found.setdefault((name, "maps"), []).append(timed(partial(of_maps, name)))
    return found


def added(name: str, side: str, tokens: int) -> int:
    """Return the bytes of memory that one run adds in this process; :func:`peak` calls it."""

    def run(pair: Pair, inputs: list[Tensor]) -> None:
        if pair.backward:
            inputs = [x.requires_grad_() for x in inputs]
            both_passes(pair, side, inputs, torch.ones(()).expand_as(inputs[0]))
        else:
            getattr(pair, side)(*inputs)

    small, pair = PAIRS[name](WARM), PAIRS[name](tokens)
    run(small, small.inputs())
    inputs = pair.inputs()
    Path("/proc/self/clear_refs").write_text("5")  # Reset the peak memory of this process.
    before = status("VmRSS")
    run(pair, inputs)
    return status("VmHWM") - before


def peak(name: str, side: str, tokens: int) -> int:
    """Return the bytes of memory that one run adds, measured in a separate process."""
    threads = ["--threads", str(torch.get_num_threads())]
    command = [sys.executable, "-m", "benchmarks.sparse_attention", *threads]
    command += ["--peak", name, side, str(tokens)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def row(name: str, tokens: int, rounds: int, largest: int, *, with_memory: bool) -> str:
    pair = PAIRS[name](tokens)
    sides = ["ours", "theirs"] if tokens <= largest else ["ours"]
    if len(sides) > 1:
        check(name, pair)
    found = times(pair, sides, rounds)
    cells = []
    for step in ("forward", "both"):
        if (step, "ours") not in found:
            cells.append("-")
            continue
        mine = statistics.median(found[step, "ours"])
        cell = f"{1e3 * mine:.0f}"
        if pair.maps:
            cell += f" ({1e3 * statistics.median(found[step, 'maps']):.0f})"
        cell += " ms"
        if len(sides) > 1:
            ratios = [b / a for a, b in zip(*(found[step, side] for side in sides), strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            cell += f", {middle:.2f}x ± {(high - low) / 2:.2f}"
        cells.append(cell)
    del pair
    memory = [peak(name, side, tokens) for side in sides] if with_memory else []
    cell = f"{memory[0] / 1e6:.0f} MB" if memory else "-"
    cells.append(cell if len(memory) < 2 else f"{cell}, {memory[1] / max(memory[0], 1):.1f}x")
    return f"{name:<46} {tokens:>6} {cells[0]:>28} {cells[1]:>28} {cells[2]:>18}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[4096, 16384], help="numbers of tokens"
    )
    parser.add_argument("--rounds", type=int, default=3, help="number of timed runs")
    parser.add_argument("--threads", type=int, default=1, help="number of CPU threads")
    parser.add_argument("--only", default="", help="only problems whose name contains this")
    parser.add_argument(
        "--largest", type=int, default=16384, help="max tokens for the other implementations"
    )
    parser.add_argument("--no-memory", action="store_true", help="do not measure memory")
    parser.add_argument("--peak", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    if options.peak:
        name, side, tokens = options.peak
        print(added(name, side, int(tokens)))
        return
    print(f"{'attention':<46} {'n':>6} {'forward':>28} {'with backward':>28} {'memory':>18}")
    for tokens in options.lengths:
        for name in PAIRS:
            if options.only in name:
                rounds, memory = options.rounds, not options.no_memory
                line = row(name, tokens, rounds, options.largest, with_memory=memory)
                print(line, flush=True)


if __name__ == "__main__":
    main()
