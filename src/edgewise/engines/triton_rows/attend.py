"""Operators ``edgewise::triton_rows_attend`` and ``triton_rows_scores``: attention on a GPU.

Arguments and results are those of :mod:`edgewise.engines.rows.attend`. If edge features e are
projected by W, the kernels do not compute W e for each edge. A matrix product before or after the
kernels projects nodes instead, because q · (W e) = (Wᵀq) · e and Σ w (W e) = W (Σ w e). An additive
score is not linear, so for it the kernels compute W e for each edge.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from edgewise.engines.dropout import WORD
from edgewise.engines.native.operator import Grads, Inputs, Results, node_sizes
from edgewise.engines.rows.attend import RowsAttend, RowsScores, one_sided
from edgewise.engines.triton_rows.aggregate import sum_rows
from edgewise.engines.triton_rows.launch import Job, Tiles, padded
from edgewise.engines.triton_rows.layout import TritonSide, classes_of, triton_side

SCORES = {"none": 0, "dot": 1, "additive": 2}
EDGE_VECTORS = {"edge_key", "edge_value", "edge_key_features", "edge_value_features"}
EDGES_PER_PROGRAM = 256
"""A program sums the gradient of the weight of edge features over at least this many edges."""
MOST_PROGRAMS = 512
"""Maximum number of programs that sum the gradient of the weight of edge features."""
FEATURES = 4
"""Maximum number of edge features for which a program computes the gradient of their weight."""


class TritonAttend(RowsAttend):
    """Attention output and log-sum-exp, computed by Triton kernels; see the base class."""

    name = "triton_rows_attend"
    devices = ("cpu", "cuda")

    def forward(self, inputs: Inputs, results: Results) -> None:
        call = _Call(inputs)
        job, side, members = call.job, call.side, call.members
        out = results["out"]
        projected = "edge_value_features" in inputs
        # The output stays in the accumulation dtype until the projected features are added.
        if projected:
            out = out.new_empty(out.shape, dtype=job.accumulator)
            job.put(sums=job.empty(members, side.rows, call.heads, call.value_features))
        job.put(out=out, stats=results["stats"], lse=results.get("lse"))
        values, features = call.heads * call.value_width, call.heads * call.value_features
        job.results(side, members, slot_stats=2 * call.heads, slot_out=values)
        if projected:
            job.results(side, members, slot_sums=features)
        job.over_rows("attend_forward", side, members, call.tiles, call.tiles.blocks)
        job.merge("attend_merge", side, members, call.tiles, call.tiles.blocks)
        if projected:
            sums = job.arguments["sums"].view(*out.shape[:-1], -1)
            out += _product("...hf,hdf->...hd", sums, inputs["edge_value_weight"])
            results["out"].copy_(out)

    def backward(
        self, inputs: Inputs, results: Results, grads: Grads, needed: Sequence[str]
    ) -> dict[str, Tensor]:
        call = _Call(inputs)
        out, grad_out, grad_lse = results["out"], grads["out"], grads.get("lse")
        grad_out = torch.zeros_like(out) if grad_out is None else grad_out
        call.job.nodes("grad_out", grad_out, "grad")
        call.job.array("out", out)
        call.job.array("stats", results["stats"])
        call.job.put(delta=call.job.empty(call.members, call.side.rows, call.heads))
        if grad_lse is not None and inputs["with_lse"]:
            call.job.array("grad_lse", grad_lse)
        if "edge_value_features" in inputs:
            wide = grad_out.to(call.job.accumulator)
            weight = inputs["edge_value_weight"]
            call.job.put(projected_grad=_product("...hd,hdf->...hf", wide, weight).contiguous())
        input_grads = call.gradients(needed, one_sided=one_sided(inputs))
        if "edge_value_weight" in needed:
            sums = call.job.arguments["sums"].view(*out.shape[:-1], -1)
            wide = grad_out.to(call.job.accumulator)
            input_grads["edge_value_weight"] = _product("...nhd,...nhf->hdf", wide, sums)
        return input_grads


class TritonScores(RowsScores):
    """Scores of edges, computed by Triton kernels; see the base class."""

    name = "triton_rows_scores"
    devices = ("cpu", "cuda")

    def forward(self, inputs: Inputs, results: Results) -> None:
        call = _Call(inputs)
        call.job.put(scores=results["scores"])
        tiles = call.tiles
        call.job.over_rows("attend_forward", call.side, call.members, tiles, tiles.blocks)

    def gradients(self, inputs: Inputs, grad: Tensor, needed: Sequence[str]) -> dict[str, Tensor]:
        call = _Call(inputs)
        call.job.array("grad_scores", grad)
        return call.gradients(needed, one_sided=False)


class _Call:
    """Arguments of all kernels for a call of ``attend``, forward and backward."""

    def __init__(self, inputs: Inputs) -> None:
        value: Tensor = inputs["value"]
        self.inputs = inputs
        self.members, self.sources, self.heads, self.value_width = node_sizes(value)
        self.width = inputs["query"].shape[-1] if "query" in inputs else 1
        self.side = triton_side(inputs["by_target"], self.sources)
        self.job = job = Job(value)
        self.key_features = self._features("edge_key")
        self.value_features = self._features("edge_value")
        expanded = inputs["score"] == SCORES["additive"]
        sizes = {
            "D": self.width,
            "DV": self.value_width,
            "FK": self.key_features,
            "FV": self.value_features,
        }
        blocks = {f"B{name}": padded(size) for name, size in sizes.items()}
        if expanded:
            blocks["BFK"] = 1
        tiles = Tiles.of(self.heads, max(blocks.values()), value.dtype)
        padding = blocks["BD"] + blocks["BDV"] - self.width - self.value_width
        # Masks for padding occupy registers, so use smaller tiles.
        self.tiles = tiles.halved if padding or self.heads % tiles.block else tiles
        job.put(H=self.heads, **sizes, **blocks)
        job.put(SCORE=inputs["score"], ACTIVATION=inputs["activation"], BIAS=0, GAIN=0)
        job.put(scale=inputs["scale"], slope=inputs["slope"], DROPOUT=inputs["dropout"] > 0)
        self._dropout(inputs["dropout"], inputs["seed"], inputs["first_edge"])
        for name in ("query", "key", "value"):
            if name in inputs:
                job.nodes(name, inputs[name])
        for name in ("bias", "gain"):
            if name in inputs:
                self._term(name, inputs[name], inputs.get(f"{name}_index"))
        for name in ("edge_key", "edge_value"):
            if name in inputs:
                x = job.array(name, inputs[name])
                job.put(**{f"{name}_batch": self.side.edges if x.shape[0] > 1 else 0})
        if "edge_key_features" in inputs:
            job.array("key_features", inputs["edge_key_features"])
            weight: Tensor = inputs["edge_key_weight"]
            if expanded:
                job.array("key_weight", weight.permute(2, 0, 1))
            else:
                wide = inputs["query"].to(job.accumulator)
                job.array("projected_query", _product("...hd,hdf->...hf", wide, weight))
        if "edge_value_features" in inputs:
            job.array("value_features", inputs["edge_value_features"])
        if "score_weight" in inputs:
            job.array("score_weight", inputs["score_weight"])

    @property
    def backward_tiles(self) -> Tiles:
        """Tile sizes of the backward pass over targets; edge vectors occupy registers."""
        if EDGE_VECTORS.isdisjoint(self.inputs):
            return self.tiles
        additive = self.inputs["score"] == SCORES["additive"]
        expands = additive and "edge_key_features" in self.inputs
        return self.tiles.halved.halved if expands else self.tiles.halved

    def _features(self, name: str) -> int:
        features: Tensor | None = self.inputs.get(f"{name}_features")
        return 1 if features is None else features.shape[-1]

    def _dropout(self, rate: float, seed: int, first_edge: int) -> None:
        """Set the arguments for the mask of :mod:`edgewise.engines.dropout`.

        Raises RuntimeError while a CUDA graph is captured, because its replays would repeat the
        mask.
        """
        if rate and self.job.like.is_cuda and torch.cuda.is_current_stream_capturing():
            raise RuntimeError(
                "attention dropout cannot be captured in a CUDA graph, because every replay would "
                "drop the same weights; capture with dropout=0.0 (model.eval()), or train "
                "without CUDA graphs"
            )
        self.job.put(
            seed=seed & WORD,
            member_seed=(seed >> 32) & WORD,
            first_edge=first_edge & WORD,
            threshold=int(rate * 2**32) if rate < 1 else 0,
            keep=1.0 / (1.0 - rate) if rate < 1 else 0.0,
        )

    def _term(self, name: str, x: Tensor, index: Tensor | None) -> None:
        """Set the kernel arguments for a bias or gain, given per edge or as a table of classes."""
        self.job.array(name, x)
        self.job.put(**{name.upper(): x.shape[-1]})
        self.job.put(**{f"{name}_batch": x.shape[-2] if x.shape[0] > 1 else 0})
        if index is not None:
            classes_of(index, x.shape[-2])  # Raise IndexError if a class is out of range.
            self.job.array(f"{name}_index", index)

    def gradients(self, needed: Sequence[str], *, one_sided: bool) -> dict[str, Tensor]:
        """Return the gradients of the arguments in ``needed``.

        If ``one_sided``, the pass over targets stores the weight and the score gradient of each
        edge.
        """
        job, inputs, edges = self.job, self.inputs, self.side.edges
        additive = inputs["score"] == SCORES["additive"]
        weighs = additive and "edge_key_weight" in needed
        gained = "grad_scores" in job.arguments and "gain" in inputs
        if (one_sided or weighs or gained) and inputs["score"]:
            job.put(edge_grad=job.empty(self.members, edges, self.heads))
        if one_sided:
            job.put(edge_weight=job.empty(self.members, edges, self.heads))
        sums = self._sums(needed, additive=additive)
        copies = self._copies(needed)
        self._over_rows(sums)
        input_grads = {
            name: self._summed(name, sums_by_copy, inputs[name])
            for name, sums_by_copy in copies.items()
        }
        if "query" in needed:
            input_grads["query"] = sums["query"]
        if "projected" in sums:
            self._move_back(sums["projected"], input_grads, needed)
        if weighs:
            input_grads["edge_key_weight"] = self._projection_gradient()
        if "key" in needed or "value" in needed:
            self._over_columns(input_grads, needed, one_sided=one_sided)
        return input_grads

    def _sums(self, needed: Sequence[str], *, additive: bool) -> dict[str, Tensor]:
        """Allocate the results of the pass over targets that have one entry per target."""
        job, rows, inputs = self.job, self.side.rows, self.inputs
        sums: dict[str, Tensor] = {}
        moved = "edge_key_features" in inputs and not additive
        # The gradient stays in the accumulation dtype until the part from the projection is added.
        if "query" in needed:
            dtype = job.accumulator if moved else job.like.dtype
            sums["query"] = inputs["query"].new_empty(inputs["query"].shape, dtype=dtype)
        if moved and ("query" in needed or "edge_key_weight" in needed):
            sums["projected"] = job.empty(self.members, rows, self.heads, self.key_features)
        if "edge_value_weight" in needed:
            sums["sums"] = job.empty(self.members, rows, self.heads, self.value_features)
        return sums

    def _copies(self, needed: Sequence[str]) -> dict[str, Tensor]:
        """Allocate partial gradients, one for each example, block of heads or Triton program."""
        job, inputs, members = self.job, self.inputs, self.members
        copies: dict[str, Tensor] = {}
        for name in needed:
            x: Tensor = inputs[name]
            if name in ("bias", "gain"):
                copies[name] = job.empty(members, self.side.edges, self.heads)
            elif name in ("edge_key", "edge_value"):
                copies[name] = x.new_empty(members, *x.shape[1:])
            elif name.endswith("_features"):
                copies[name] = job.empty(members * self.backward_tiles.blocks, *x.shape)
            elif name == "score_weight":
                groups = self.backward_tiles.groups(self.side)
                programs = sum(-(-len(items) // rows) for items, rows, _ in groups)
                copies[name] = job.empty(programs * members, *x.shape)
        job.put(**{f"grad_{name}": x for name, x in copies.items()})
        return copies

    def _over_rows(self, sums: dict[str, Tensor]) -> None:
        job, side = self.job, self.side
        names = {"query": "grad_query", "projected": "grad_projected", "sums": "sums"}
        job.put(**{names[name]: x for name, x in sums.items()})
        slots = {f"slot_{name}": x.shape[-2:].numel() for name, x in sums.items()}
        job.results(side, self.members, **slots)
        tiles = self.backward_tiles
        job.over_rows("attend_backward_rows", side, self.members, tiles, tiles.blocks)
        self._add_pieces(side, sums)

    def _over_columns(
        self, input_grads: dict[str, Tensor], needed: Sequence[str], *, one_sided: bool
    ) -> None:
        job, inputs = self.job, self.inputs
        side = triton_side(inputs["by_source"], self.side.rows)
        results: dict[str, Tensor] = {}
        for name in ("key", "value"):
            if name in needed:
                input_grads[name] = results[name] = inputs[name].new_empty(inputs[name].shape)
                job.put(**{f"grad_{name}": input_grads[name]})
        if "grad_scores" in job.arguments and "gain" not in inputs:
            job.put(edge_grad=job.arguments["grad_scores"])
        elif not one_sided and "grad_scores" not in job.arguments:
            job.put(edge_grad=None)
        slots = {f"slot_{name}": x.shape[-2:].numel() for name, x in results.items()}
        job.results(side, self.members, **slots)
        tiles = self.tiles.halved
        # The derivative of an activation occupies registers, so use smaller tiles.
        if inputs["activation"]:
            tiles = tiles.halved
        job.over_rows("attend_backward_columns", side, self.members, tiles, tiles.blocks)
        self._add_pieces(side, results)

    def _add_pieces(self, side: TritonSide, results: dict[str, Tensor]) -> None:
        for name, out in results.items():
            slots = self.job.arguments.get(f"slot_{name}")
            self.job.merge_flat("add_merge", side, self.members, slots, out)

    def _summed(self, name: str, copies: Tensor, like: Tensor) -> Tensor:
        """Add the partial gradients of argument ``name`` in a fixed order."""
        index: Tensor | None = self.inputs.get(f"{name}_index")
        if index is not None:
            classes = classes_of(index, like.shape[-2])
            copies = sum_rows(copies[..., None, :], classes)[..., 0, :]
        if name in ("bias", "gain") and like.shape[-1] == 1:
            copies = copies.sum(-1, keepdim=True)
        if copies.shape != like.shape:
            copies = copies.sum(0)
        return copies.view(like.shape)

    def _move_back(
        self, grad: Tensor, input_grads: dict[str, Tensor], needed: Sequence[str]
    ) -> None:
        """Add the gradients of query and weight, whose product is the projected query."""
        query, weight = self.inputs["query"], self.inputs["edge_key_weight"]
        grad = grad.view(*query.shape[:-1], -1)
        if "query" in needed:
            back = _product("...hf,hdf->...hd", grad, weight)
            input_grads["query"] = (input_grads["query"] + back).to(query.dtype)
        if "edge_key_weight" in needed:
            wide = query.to(grad.dtype)
            input_grads["edge_key_weight"] = _product("...nhd,...nhf->hdf", wide, grad)

    def _projection_gradient(self) -> Tensor:
        """Return the gradient of the weight that projects edge keys, for an additive score."""
        job, side = self.job, self.side
        edges_per_program = max(EDGES_PER_PROGRAM, -(-side.edges // MOST_PROGRAMS))
        programs = -(-side.edges // edges_per_program) * self.members
        partial_sums = job.empty(programs, self.key_features, self.heads, self.width)
        widest = padded(self.width)
        tiles = Tiles.of(self.heads, widest, job.like.dtype)
        features = min(padded(self.key_features), FEATURES)
        job.put(
            row=side.row, edges_per_program=edges_per_program, grad_weight=partial_sums, BF=features
        )
        blocks = tiles.blocks * -(-self.key_features // features)
        slots = max(1, tiles.slots // features)
        job.run("projection_gradient", programs * blocks, tiles, E=slots)
        return partial_sums.sum(0).permute(1, 2, 0)


def _product(equation: str, *operands: Tensor) -> Tensor:
    """Return ``torch.einsum(equation, *operands)`` with ``torch.autocast`` disabled."""
    with torch.autocast(operands[0].device.type, enabled=False):
        product: Tensor = torch.einsum(equation, *operands)
    return product


triton_rows_attend = TritonAttend()
triton_rows_scores = TritonScores()
