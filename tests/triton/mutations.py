"""Does a mistake in the kernels turn their tests red? Each of these is made, one at a time.

    python -m tests.triton.mutations [--only mask] [--workers 2]

A mutation is a line of the engine written wrongly: a mask, a bound, an order, a term of a gradient.
The module that it is in is imported from a changed copy, no file of the package is touched, and a
few tests run in Triton's interpreter, which must then fail. What survives is printed, and is the
command's failure. ``tests/engines/test_triton.py`` holds that each of these lines is still there.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/edgewise/engines/triton_rows"
TESTS = "tests/triton/test_interpreted.py"


class Mutation(NamedTuple):
    """``old`` becomes ``new`` at its ``place`` of several in a file; these tests must see it."""

    name: str
    old: str
    new: str
    tests: tuple[str, ...]
    file: str = "kernels.py"
    place: int = 0

    def source(self) -> str:
        """The file as the mutation leaves it."""
        parts = (PACKAGE / self.file).read_text().split(self.old)
        assert len(parts) > self.place + 1, f"{self.name}: {self.file} has no such line"
        before, after = parts[: self.place + 1], parts[self.place + 1 :]
        return self.old.join(before) + self.new + self.old.join(after)


def call(*names: str) -> tuple[str, ...]:
    """Tests of declared calls."""
    return tuple(f"test_every_call[{name}]" for name in names)


MUTATIONS = (
    # ---- masks and bounds ----
    Mutation(
        "mask: a tile's places beyond the row's last are read",
        "live = position < end[:, None]",
        "live = position <= end[:, None]",
        call("plain"),
    ),
    Mutation(
        "mask: places that are none count in the softmax",
        's = tl.where(live[:, :, None], s, float("-inf"))',
        "s = s + 0",
        call("plain"),
    ),
    Mutation(
        "mask: padded widths are read",
        "inside = (head < H)[:, None] & (width < D)[None, :]",
        "inside = (head < H)[:, None] & (width < BD)[None, :]",
        call("plain"),
    ),
    Mutation(
        "mask: programs of rows that are none write",
        "valid = exists[:, None, None] & inside[None]",
        "valid = (exists | True)[:, None, None] & inside[None]",
        call("plain"),
    ),
    Mutation(
        "bound: the last tile of a row is left out",
        "for first in range(0, tl.max(end - begin), E):",
        "for first in range(0, tl.max(end - begin) - 1, E):",
        call("plain"),
    ),
    Mutation(
        "bound: a piece begins one place late",
        "rank * PIECE",
        "rank * (PIECE + 1)",
        ("test_sides_are_sorted_and_divided",),
        "layout.py",
    ),
    Mutation(
        "bound: a program of the projection's gradient sums beyond the edges",
        "& (position < edges)",
        "& (position <= edges)",
        call("tanh, projected, gain"),
    ),
    # ---- the merging of pieces ----
    Mutation(
        "merge: the first piece is left out",
        "for slot in range(begin, end):",
        "for slot in range(begin + 1, end):",
        call("plain"),
    ),
    Mutation(
        "merge: what was summed before is not rescaled",
        "result = result * rescale[:, None] + x * piece_scale[:, None]",
        "result = result + x * piece_scale[:, None]",
        ("test_every_piece_may_have_a_greater_score_than_those_before[plain]",),
    ),
    Mutation(
        "merge: nor is what was summed of the edges' features",
        "result_f = result_f * rescale[:, None] + x * piece_scale[:, None]",
        "result_f = result_f + x * piece_scale[:, None]",
        ("test_every_piece_may_have_a_greater_score_than_those_before[projected values]",),
    ),
    Mutation(
        "merge: a piece that reads nothing has a greatest score",
        "greater = tl.where(total == 0, shift, tl.where(piece_total == 0, most, both))",
        "greater = tl.where(total == 0, shift, tl.maximum(most, shift))",
        ("test_a_piece_that_may_read_nothing",),
    ),
    Mutation(
        "merge: gradients of pieces are added without the last",
        "for slot in range(begin, end):",
        "for slot in range(begin, end - 1):",
        call("plain"),
        place=1,
    ),
    Mutation(
        "merge: sums are merged from the last piece to the first",
        "(member * slot_count + slot) * SIZE",
        "(member * slot_count + begin + end - slot) * SIZE",
        ("test_the_order_of_pieces_is_that_of_their_places",),
    ),
    # ---- dropout ----
    Mutation(
        "dropout: another word for heads",
        "0x9E3779B9",
        "0x9E3779B8",
        call("dropout"),
    ),
    Mutation(
        "dropout: members of a batch share their mask",
        "_mix(member.to(tl.uint32) + high)",
        "_mix(high + 0 * member.to(tl.uint32))",
        call("dropout, batch"),
    ),
    Mutation(
        "dropout: the edges of a part count from 0",
        "_mix(number.to(tl.uint32) + tl.cast(first_edge, tl.uint32))",
        "_mix(number.to(tl.uint32))",
        ("test_parts_of_a_union_drop_what_the_whole_drops",),
    ),
    Mutation(
        "dropout: weights that are kept do not grow",
        "tl.full((), keep, ACC), 0.0)",
        "tl.full((), 1.0, ACC), 0.0)",
        call("dropout"),
    ),
    Mutation(
        "dropout: the gradient of scores does not see it, over rows",
        "                dw *= drop_mask\n                w = p * drop_mask",
        "                w = p * drop_mask",
        call("dropout"),
    ),
    Mutation(
        "dropout: the gradient of scores does not see it, over columns",
        "                if DROPOUT:\n                    dw *= drop_mask",
        "                if DROPOUT:\n                    dw *= 1",
        call("dropout"),
    ),
    Mutation(
        "dropout: the gradient of values does not see it",
        "            if DROPOUT:\n                w *= drop_mask",
        "            if DROPOUT:\n                w *= 1",
        call("dropout"),
    ),
    # ---- gradients, one by one ----
    Mutation(
        "gradient: queries of dot products keep the last tile alone",
        "result += tl.sum(ds[:, :, :, None] * z, axis=1)",
        "result = tl.sum(ds[:, :, :, None] * z, axis=1)",
        call("plain"),
    ),
    Mutation(
        "gradient: queries of additive scores",
        "dz = ds[:, :, :, None] * (a[None, None] * _steepness(z, slope_, ACTIVATION))",
        "dz = ds[:, :, :, None] * a[None, None]",
        call("gatv2"),
    ),
    Mutation(
        "gradient: keys of dot products are not scaled",
        "(ds * scale_)[:, :, :, None] * z",
        "ds[:, :, :, None] * z",
        call("plain"),
    ),
    Mutation(
        "gradient: keys of additive scores",
        "dz = ds[:, :, :, None] * (a[None, None] * _steepness(z, slope_, ACTIVATION))",
        "dz = ds[:, :, :, None] * a[None, None]",
        call("gatv2"),
        place=1,
    ),
    Mutation(
        "gradient: keys, without the average of the weights' gradients",
        "ds = tl.where(valid, w * (dw - mean), 0.0)",
        "ds = tl.where(valid, w * dw, 0.0)",
        call("plain"),
    ),
    Mutation(
        "gradient: values, by the score instead of the weight",
        "result_v += tl.sum(w[:, :, :, None] * g, axis=1)",
        "result_v += tl.sum(s[:, :, :, None] * g, axis=1)",
        call("plain"),
    ),
    Mutation(
        "gradient: the log-sum-exp's, with the other sign",
        "mean -= tl.load(grad_lse",
        "mean += tl.load(grad_lse",
        call("plain"),
    ),
    Mutation(
        "gradient: bias",
        "tl.store(grad_bias + edge_at, ds, mask=valid)",
        "tl.store(grad_bias + edge_at, p, mask=valid)",
        call("bias"),
    ),
    Mutation(
        "gradient: a table's, by the class of another edge",
        "edge = torch.arange(len(index), device=index.device)",
        "edge = torch.arange(len(index), device=index.device).flip(0)",
        call("bias from a table"),
        "layout.py",
    ),
    Mutation(
        "gradient: a table's of all heads, from the first head alone",
        "copies = copies.sum(-1, keepdim=True)",
        "copies = copies[..., :1]",
        call("bias from a table of all heads"),
        "attend.py",
    ),
    Mutation(
        "gradient: gain",
        "tl.store(grad_gain + edge_at, ds * raw, mask=valid)",
        "tl.store(grad_gain + edge_at, ds, mask=valid)",
        call("gain"),
    ),
    Mutation(
        "gradient: queries do not see the gain",
        "                ds *= by\n            if edge_grad",
        "                ds *= 1\n            if edge_grad",
        call("gain"),
    ),
    Mutation(
        "gradient: keys do not see the gain",
        "                if gain is not None:\n                    ds *= by",
        "                if gain is not None:\n                    ds *= 1",
        call("gain"),
    ),
    Mutation(
        "gradient: vectors of edges added to keys",
        "tl.store(grad_edge_key + at, ds[:, :, :, None] * q[:, None], mask=stored)",
        "tl.store(grad_edge_key + at, ds[:, :, :, None] * k, mask=stored)",
        call("edge keys"),
    ),
    Mutation(
        "gradient: the same in an additive score",
        "tl.store(grad_edge_key + at, dz, mask=stored)",
        "tl.store(grad_edge_key + at, dz * a[None, None], mask=stored)",
        call("additive, edge keys"),
    ),
    Mutation(
        "gradient: vectors of edges added to values do not see dropout",
        "tl.store(grad_edge_value + at + inner_v[None, None], w[:, :, :, None]",
        "tl.store(grad_edge_value + at + inner_v[None, None], p[:, :, :, None]",
        call("dropout, batch"),
    ),
    Mutation(
        "gradient: features of keys, of which members share a copy",
        "copy = (member * ((H + BH - 1) // BH) + heads) * edges",
        "copy = heads.to(tl.int64) * edges",
        call("batch, all shared"),
    ),
    Mutation(
        "gradient: features of keys in a dot product",
        "dx = tl.sum(ds[:, :, :, None] * pq[:, None], axis=2)",
        "dx = tl.sum(s[:, :, :, None] * pq[:, None], axis=2)",
        call("projected"),
    ),
    Mutation(
        "gradient: features of keys in an additive score",
        "dx_f = tl.sum(tl.sum(dz * w_f[None, None], axis=3), axis=2)",
        "dx_f = tl.sum(tl.sum(z * w_f[None, None], axis=3), axis=2)",
        call("additive, projected"),
    ),
    Mutation(
        "gradient: the projection of keys in a dot product",
        "result_fk += tl.sum(ds[:, :, :, None] * xk[:, :, None, :], axis=1)",
        "result_fk += tl.sum(s[:, :, :, None] * xk[:, :, None, :], axis=1)",
        call("projected"),
    ),
    Mutation(
        "gradient: the projection of keys in an additive score",
        "result += tl.sum(x[:, :, None, None] * dz[:, None], axis=0)",
        "result = tl.sum(x[:, :, None, None] * dz[:, None], axis=0)",
        call("tanh, projected, gain"),
    ),
    Mutation(
        "gradient: features of values",
        "dx = tl.sum(w[:, :, :, None] * pg[:, None], axis=2)",
        "dx = tl.sum(ds[:, :, :, None] * pg[:, None], axis=2)",
        call("projected values"),
    ),
    Mutation(
        "gradient: the projection of values keeps the last tile alone",
        "result_fv += tl.sum(",
        "result_fv = tl.sum(",
        call("projected values"),
    ),
    Mutation(
        "gradient: the weights' does not see projected values",
        "dw += tl.sum(xv[:, :, None, :] * pg[:, None], axis=3)",
        "dw += 0",
        call("projected values"),
    ),
    Mutation(
        "gradient: the vector of an additive score",
        "da = ds[:, :, :, None] * _activated(z, slope_, ACTIVATION)",
        "da = ds[:, :, :, None] * _steepness(z, slope_, ACTIVATION)",
        call("gatv2"),
    ),
    Mutation(
        "gradient: of given scores, without the gain that keys see",
        "gained = ",
        "gained = False and ",
        ("test_scores_and_weights_of_edges[gain]",),
        "attend.py",
    ),
    # ---- softmax over edges ----
    Mutation(
        "softmax: what was summed before a greater score is not rescaled",
        "total = total * tl.exp(most - shift) + tl.sum(tl.exp(s - shift[:, None]), axis=1)",
        "total = total + tl.sum(tl.exp(s - shift[:, None]), axis=1)",
        ("test_softmax_over_edges[3]",),
    ),
    Mutation(
        "softmax: its gradient without the average",
        "s = s * (x - total[:, None])",
        "s = s * x",
        ("test_softmax_over_edges[3]",),
    ),
    # ---- sums and extremes ----
    Mutation(
        "aggregate: a mean that is not divided",
        "result /= tl.maximum(end - begin, 1).to(ACC)[:, None, None]",
        "result /= 1",
        ("test_every_aggregation[mean-]",),
    ),
    Mutation(
        "aggregate: the mean of pieces that is not divided",
        "result /= degree.to(ACC)",
        "result /= 1",
        ("test_every_aggregation[mean-]",),
    ),
    Mutation(
        "aggregate: the least is the greatest",
        "            if REDUCE == 3:\n                x = -x",
        "            if REDUCE == 4:\n                x = -x",
        ("test_every_aggregation[min-]",),
    ),
    Mutation(
        "aggregate: an extreme that NaN does not win",
        "bad = tl.maximum(bad, tl.max((x != x).to(tl.int32), axis=1))",
        "bad = bad",
        ("test_an_extreme_of_nan_is_nan",),
    ),
    Mutation(
        "ties: places that are none tie with an extreme of 0",
        "reached = _reaches(x, extreme[:, None], ACC) & live[:, :, None, None]",
        "reached = _reaches(x, extreme[:, None], ACC)",
        ("test_aggregation_of_ties_in_lower_precision[max-torch.float32]",),
    ),
    Mutation(
        "ties: an extreme that was rounded is reached by nobody",
        "return x.to(extreme.dtype).to(ACC) == extreme.to(ACC)",
        "return x == extreme.to(ACC) + 1e-6",
        ("test_every_aggregation[max-]",),
    ),
    Mutation(
        "ties: each takes the whole gradient",
        "tie_grad = (grad / ties).masked_fill(ties == 0, 0.0)",
        "tie_grad = grad.masked_fill(ties == 0, 0.0)",
        ("test_aggregation_of_ties_in_lower_precision[max-torch.float32]",),
        "aggregate.py",
    ),
    Mutation(
        "gradient: weights of an extreme, of edges that do not reach it",
        "product = tl.where(reached, product, 0.0)",
        "product = product",
        ("test_every_aggregation[max-head]",),
    ),
    Mutation(
        "gradient: values of an extreme, without the weight",
        "tl.where(_reaches(w * x[:, None], extreme, ACC), w * tied, 0.0)",
        "tl.where(_reaches(w * x[:, None], extreme, ACC), tied, 0.0)",
        ("test_every_aggregation[max-head]",),
    ),
    Mutation(
        "gradient: weights of a sum keep the last part of a wide head alone",
        "result += tl.sum(product, axis=3)",
        "result = tl.sum(product, axis=3)",
        ("test_every_aggregation[sum-head]",),
    ),
)


FORKED, FRESH = multiprocessing.get_context("forkserver"), multiprocessing.get_context("spawn")
"""Processes that begin with all imported but the kernels, which come last; or with nothing."""


class Changed(MetaPathFinder):
    """Imports one module from another file."""

    def __init__(self, module: str, path: Path) -> None:
        self.module, self.path = module, path

    def find_spec(self, name: str, _path: Any, _target: Any = None) -> ModuleSpec | None:
        return spec_from_file_location(name, self.path) if name == self.module else None


def run_tests(mutation: Mutation, said: Path) -> NoReturn:
    """In a process that has the module from another file; its exit code is pytest's."""
    import pytest

    with said.open("wb") as file, tempfile.TemporaryDirectory() as folder:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
        path = Path(folder) / mutation.file
        path.write_text(mutation.source())
        module = f"edgewise.engines.triton_rows.{mutation.file.removesuffix('.py')}"
        assert module not in sys.modules
        sys.meta_path.insert(0, Changed(module, path))
        options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", f"--rootdir={ROOT}"]
        code = pytest.main([*options, *(f"{ROOT / TESTS}::{test}" for test in mutation.tests)])
    sys.exit(int(code))


def is_seen(mutation: Mutation) -> tuple[bool, str]:
    """Whether the tests fail, and what they say if they do not."""
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "said"
        begin = FORKED.Process if mutation.file == "kernels.py" else FRESH.Process
        process = begin(target=run_tests, args=(mutation, said))
        process.start()
        process.join()
        text = said.read_text() if said.exists() else ""
    code = process.exitcode
    assert code is not None
    # Tests that failed, or a process that a write outside of memory has ended.
    seen = (code == 1 and "FAILED" in text) or code < 0
    return seen, "" if seen else f"exit code {code}: {text[-600:]}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="those whose name contains this")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args(arguments)
    os.environ |= {"TRITON_INTERPRET": "1", "EDGEWISE_TRITON": "1"}
    FORKED.set_forkserver_preload(["pytest", "tests.triton.test_interpreted"])
    chosen = [mutation for mutation in MUTATIONS if options.only in mutation.name]
    start, survived = time.perf_counter(), 0
    with ThreadPoolExecutor(options.workers) as pool:
        for mutation, (seen, said) in zip(chosen, pool.map(is_seen, chosen), strict=True):
            print(f"{'red     ' if seen else 'SURVIVES'} {mutation.name}", flush=True)
            if not seen:
                survived += 1
                print(said, flush=True)
    spent = time.perf_counter() - start
    print(f"{len(chosen)} mutations, {survived} survive, {spent:.0f} s")
    sys.exit(survived > 0 or not chosen)


if __name__ == "__main__":
    main()
