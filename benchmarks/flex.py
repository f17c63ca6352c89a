"""Time and memory of flex_attention, versus PyTorch's compiled one and SDPA with a dense mask.

    python -m benchmarks.flex [--tokens 4096 16384] [--rounds N] [--threads N] [--only WORD]
                              [--largest N] [--no-compiled]

A batch of 1 has 8 heads of width 64, in float32. Masks and score_mods are those that
FlexAttention's users write: causal, sliding window of 256 tokens, causal documents of about 700
tokens, prefix of an eighth of the tokens, and causal attention with ALiBi or with scores capped by
tanh. "SDPA" is ``scaled_dot_product_attention`` with the mask, or mask and bias, as a matrix; for
capped scores it is softmax of a matrix of scores.

Outputs must agree to 1e-4 first. Then runs alternate, and the CPU time of each is measured, which
depends little on other load. A ratio is the other implementation's time divided by Edgewise's, the
median over rounds. PyTorch's compiled function has no backward pass on a CPU. Memory is what mask,
forward and backward add in a separate process. For more than ``--largest`` tokens, a matrix of
numbers, as for ALiBi and capped scores, is not measured.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import flex_attention as torch_flex

from benchmarks.cpu.measure import status
from edgewise.interop.flex import create_block_mask, flex_attention

HEADS, WIDTH, RADIUS, DOCUMENT, CAP = 8, 64, 256, 700, 20.0
CLOSE = 1e-4

Function = Callable[..., Tensor]
Run = Callable[..., Tensor]


def causal(_b: Tensor, _h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
    return q >= kv


def sliding_window(_b: Tensor, _h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
    return (q >= kv) & (q - kv <= RADIUS)


def documents(tokens: int) -> Function:
    document = torch.arange(tokens) // DOCUMENT

    def same_document(_b: Tensor, _h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return (q >= kv) & (document[q] == document[kv])

    return same_document


def prefix(tokens: int) -> Function:
    def prefix_mask(_b: Tensor, _h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return (kv < tokens // 8) | (q >= kv)

    return prefix_mask


def alibi(score: Tensor, _b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
    return score + (kv - q) * torch.exp2(-(h + 1.0))


def softcap(score: Tensor, _b: Tensor, _h: Tensor, _q: Tensor, _kv: Tensor) -> Tensor:
    return CAP * torch.tanh(score / CAP)


@dataclass(frozen=True)
class Case:
    """Mask function for a number of tokens, and a score_mod."""

    mask: Callable[[int], Function]
    score_mod: Function | None = None


CASES = {
    "causal": Case(lambda _tokens: causal),
    "sliding window": Case(lambda _tokens: sliding_window),
    "documents": Case(documents),
    "prefix": Case(prefix),
    "alibi": Case(lambda _tokens: causal, alibi),
    "softcap": Case(lambda _tokens: causal, softcap),
}


def inputs(tokens: int) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(1, HEADS, tokens, WIDTH, requires_grad=True) for _ in range(3)]


def masking(case: Case, tokens: int, side: str) -> Callable[[], object]:
    """Return a function that creates the mask of an implementation."""
    mask_mod = case.mask(tokens)
    if side == "sdpa":
        return partial(dense_mask, case, mask_mod, tokens)
    create = create_block_mask if side == "edgewise" else torch_flex.create_block_mask
    return partial(create, mask_mod, None, None, tokens, tokens, device="cpu")


def dense_mask(case: Case, mask_mod: Function, tokens: int) -> Tensor:
    q, kv = torch.arange(tokens)[:, None], torch.arange(tokens)
    h = torch.arange(HEADS)[:, None, None]
    allowed = mask_mod(q, h, q, kv)
    if case.score_mod is not alibi:
        return allowed
    return alibi(torch.zeros(()), q, h, q, kv).masked_fill(~allowed, -torch.inf)[None]


def attention(case: Case, side: str, mask: object) -> Run:
    """Return a function of query, key and value."""
    if side == "sdpa" and case.score_mod is softcap:

        def capped(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            scores = CAP * torch.tanh(query @ key.transpose(-1, -2) * (WIDTH**-0.5 / CAP))
            assert isinstance(mask, Tensor)
            return scores.masked_fill(~mask, -torch.inf).softmax(-1) @ value

        return capped
    if side == "sdpa":
        return partial(F.scaled_dot_product_attention, attn_mask=mask)
    # With dynamic shapes, PyTorch 2.13 generates wrong C++ for a mask that reads a tensor.
    compiled = torch.compile(torch_flex.flex_attention, dynamic=False)
    function = flex_attention if side == "edgewise" else compiled
    return partial(function, score_mod=case.score_mod, block_mask=mask)


def both_passes(run: Run, nodes: list[Tensor]) -> object:
    return torch.autograd.grad(run(*nodes).sum(), nodes)


def timed(step: Callable[[], object]) -> float:
    start = time.process_time()
    step()
    return time.process_time() - start


def without_gradient(run: Run, nodes: list[Tensor]) -> Tensor:
    with torch.no_grad():
        return run(*[x.detach() for x in nodes])


def sides(case: Case, tokens: int, arguments: argparse.Namespace) -> list[str]:
    names = ["edgewise"] if arguments.no_compiled else ["edgewise", "compiled"]
    is_too_large = case.score_mod is not None and tokens > arguments.largest
    return names if is_too_large else [*names, "sdpa"]


def row(name: str, tokens: int, arguments: argparse.Namespace) -> list[str]:
    case, nodes = CASES[name], inputs(tokens)
    names = sides(case, tokens, arguments)
    masks = {side: masking(case, tokens, side) for side in names}
    runs = {side: attention(case, side, masks[side]()) for side in names}
    outputs = {side: without_gradient(run, nodes) for side, run in runs.items()}
    for side in names[1:]:
        difference = float((outputs[side] - outputs["edgewise"]).abs().max())
        if not difference < CLOSE:
            raise SystemExit(f"{name}: {side} differs by {difference:.1e}")
    seconds: dict[tuple[str, str], list[float]] = {}
    for _ in range(arguments.rounds):
        for side, run in runs.items():
            steps = {"mask": masks[side], "forward": partial(without_gradient, run, nodes)}
            if side != "compiled":
                steps["both"] = partial(both_passes, run, nodes)
            for step, function in steps.items():
                seconds.setdefault((step, side), []).append(timed(function))
    cells = [name, f"{tokens:,}"]
    for step in ("mask", "forward", "both"):
        ours = seconds[step, "edgewise"]
        cells.append(f"{1e3 * statistics.median(ours):.0f} ms")
        for side in ("compiled", "sdpa"):
            if (step, side) != ("both", "compiled"):
                other = seconds.get((step, side))
                ratios = [b / a for a, b in zip(ours, other or [], strict=False)]
                cells.append(f"{statistics.median(ratios):.2f}×" if ratios else "-")
    for side in ("edgewise", "compiled", "sdpa"):
        cells.append(f"{peak(name, tokens, side) / 2**20:,.0f} MiB" if side in names else "-")
    return cells


def added(name: str, tokens: int, side: str) -> int:
    """Return the bytes that mask, forward and backward add in this process."""

    def step(tokens: int, nodes: list[Tensor]) -> None:
        run = attention(CASES[name], side, masking(CASES[name], tokens, side)())
        if side == "compiled":
            without_gradient(run, nodes)
        else:
            both_passes(run, nodes)

    warm = tokens if side == "compiled" else 512  # Compilation needs memory too.
    step(warm, inputs(warm))
    nodes = inputs(tokens)
    Path("/proc/self/clear_refs").write_text("5")  # Reset the peak memory of this process.
    resident = status("VmRSS")
    step(tokens, nodes)
    return status("VmHWM") - resident


def peak(name: str, tokens: int, side: str) -> int:
    """Return :func:`added` in a separate process."""
    command = [sys.executable, "-m", "benchmarks.flex", "--threads", str(torch.get_num_threads())]
    command += ["--peak", name, str(tokens), side]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


HEADER = (
    *("case", "tokens", "mask", "PyTorch", "SDPA", "forward", "PyTorch", "SDPA"),
    *("both", "SDPA", "memory", "PyTorch, forward", "SDPA"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[4096, 16384])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", metavar="WORD", help="cases with this word")
    parser.add_argument("--largest", type=int, default=4096)
    parser.add_argument("--no-compiled", action="store_true", help="leave out compiled code")
    parser.add_argument("--peak", nargs=3, metavar=("CASE", "TOKENS", "SIDE"))
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.peak:
        name, tokens, side = arguments.peak
        print(added(name, int(tokens), side))
        return
    print("| " + " | ".join(HEADER) + " |", "|" + " --- |" * len(HEADER), sep="\n")
    for tokens in arguments.tokens:
        for name in CASES:
            if arguments.only in name:
                cells = row(name, tokens, arguments)
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
