"""Triton kernels: attention, softmax and sums over the edges of each row of a graph.

A row is a target; in the pass over sources, it is a source. A program computes ``R`` rows and a
block of ``BH`` heads, ``E`` edges of each row at a time. Its tensors have the shape
``[R, E, BH, BD]``: rows, edges, heads and width of a head, the last two padded to powers of two.
Several short rows share a program (E = 1), and up to two long rows. Even longer rows are cut into
pieces, which are computed like long rows.

The table ``items [count, 4]`` lists the rows and pieces: row, index of the first edge, index of the
last edge + 1, and slot. The slot is the memory for the result of a piece, or -1 for a whole row. A
second kernel merges the slots of a row in order. Each number is written by one program and there
are no atomic operations, so results are reproducible bit by bit.

The algorithm is that of ``csrc`` (see ``attend_forward.h``, ``attend_backward_targets.h`` and
``attend_backward_sources.h``). The backward pass recomputes scores and weights from two saved
numbers per target and head: the greatest score, and 1 / sum(exp(score - greatest)). Arguments that
are not used are ``None``, and code for them is not compiled. Strides are divided by ``ALIGN``,
which tells the compiler their alignment. The sizes of the graph are not compile-time constants.
"""

import torch
import triton
import triton.language as tl

ACCUMULATORS = {torch.float32: tl.float32, torch.float64: tl.float64}

# Names of integer arguments that depend on the graph or on strides; they are not specialised, so
# that another graph does not cause a compilation.
SIZES = (
    *("count", "edges", "members", "rows", "columns", "slot_count", "first_program"),
    "edges_per_program",
    *("query_batch", "query_node", "key_batch", "key_node", "value_batch", "value_node"),
    *("out_batch", "out_node", "grad_batch", "grad_node"),
    *("bias_batch", "gain_batch", "edge_key_batch", "edge_value_batch", "weight_batch"),
    *("seed", "member_seed", "first_edge", "threshold"),
)
NUMBERS = frozenset((*SIZES, "scale", "slope", "keep"))
"""Names of all arguments that are numbers, for whose values nothing is compiled."""


# ---- items of a program, and loads ----


@triton.jit
def _program(members, BLOCKS: tl.constexpr):
    """Return this program's block of items, example and block of heads; the largest items first."""
    number = tl.program_id(0)
    rest = number // BLOCKS
    return rest // members, rest % members, number % BLOCKS


@triton.jit
def _items(items, count, block, R: tl.constexpr):
    """Load row, first edge, last edge + 1 and slot of ``R`` items, and a mask of existing items."""
    at = block * R + tl.arange(0, R)
    exists = at < count
    from_ = items + at.to(tl.int64) * 4
    row = tl.load(from_, mask=exists, other=0)
    begin = tl.load(from_ + 1, mask=exists, other=0)
    end = tl.load(from_ + 2, mask=exists, other=0)
    slot = tl.load(from_ + 3, mask=exists, other=-1)
    return row, begin, end, slot, exists


@triton.jit
def _inner(block, H: tl.constexpr, D: tl.constexpr, BH: tl.constexpr, BD: tl.constexpr):
    """Return the offsets ``[BH, BD]`` of a block of heads in a node, and a mask of padding."""
    head = block * BH + tl.arange(0, BH)
    width = tl.arange(0, BD)
    inside = (head < H)[:, None] & (width < D)[None, :]
    return head[:, None] * D + width[None, :], inside


@triton.jit
def _by_row(x, row, exists, stride, inner, inside, ACC: tl.constexpr):
    """Load a vector for each row from ``x``, ``[R, BH, BD]``."""
    at = row.to(tl.int64)[:, None, None] * stride + inner[None]
    return tl.load(x + at, mask=exists[:, None, None] & inside[None], other=0).to(ACC)


@triton.jit
def _gathered(x, node, live, stride, inner, inside, ACC: tl.constexpr):
    """Load the vectors of the nodes or edges ``node [R, E]`` from ``x``: ``[R, E, BH, BD]``."""
    at = node.to(tl.int64)[:, :, None, None] * stride + inner[None, None]
    return tl.load(x + at, mask=live[:, :, None, None] & inside[None, None], other=0).to(ACC)


@triton.jit
def _carried(
    x, node, stride, edge_vector, start, number, live, inner, inside, SIZE: tl.constexpr,
    ACC: tl.constexpr,
):
    """Load the vectors of nodes and add those of their edges, if any: ``[R, E, BH, BD]``."""
    carried = _gathered(x, node, live, stride, inner, inside, ACC)
    if edge_vector is not None:
        carried += _gathered(edge_vector + start * SIZE, number, live, SIZE, inner, inside, ACC)
    return carried


@triton.jit
def _features(x, number, live, F: tl.constexpr, BF: tl.constexpr, ACC: tl.constexpr):
    """Load the features of the edges ``number [R, E]`` from ``x``: ``[R, E, BF]``."""
    column = tl.arange(0, BF)
    at = number.to(tl.int64)[:, :, None] * F + column[None, None]
    return tl.load(x + at, mask=live[:, :, None] & (column < F)[None, None], other=0).to(ACC)


@triton.jit
def _by_head(x, node, live, head, H: tl.constexpr, ACC: tl.constexpr):
    """Load one number per head for each of the nodes or edges ``node [R, E]``: ``[R, E, BH]``."""
    at = node.to(tl.int64)[:, :, None] * H + head[None, None]
    return tl.load(x + at, mask=live[:, :, None] & (head < H)[None, None], other=0).to(ACC)


@triton.jit
def _term(x, index, start, number, live, head, H: tl.constexpr, W: tl.constexpr, ACC: tl.constexpr):
    """Load a bias or gain ``[R, E, BH]`` with ``W`` = 1 or H heads; with ``index`` from a table."""
    at = number.to(tl.int64)
    if index is not None:
        at = tl.load(index + at, mask=live, other=0).to(tl.int64)
    at = (start + at)[:, :, None] * W + head[None, None] * (0 if W == 1 else 1)
    return tl.load(x + at, mask=live[:, :, None] & (head < H)[None, None], other=0).to(ACC)


# ---- dropout: see engines/dropout.py and csrc/dropout.h ----


@triton.jit
def _mix(word):
    """Hash 32-bit integers with lowbias32, a bijective hash (C. Wellons, hash-prospector)."""
    word = word ^ (word >> 16)
    word = word * tl.cast(0x7FEB352D, tl.uint32)
    word = word ^ (word >> 15)
    word = word * tl.cast(0x846CA68B, tl.uint32)
    return word ^ (word >> 16)


@triton.jit
def _dropout_mask(
    number, head, member, seed, member_seed, first_edge, threshold, keep, ACC: tl.constexpr
):
    """Return the dropout mask of edges, ``[R, E, BH]``: 1 / (1 - p) for kept weights, else 0."""
    low, high = tl.cast(seed, tl.uint32), tl.cast(member_seed, tl.uint32)
    word = _mix(low ^ _mix(number.to(tl.uint32) + tl.cast(first_edge, tl.uint32)))
    golden = tl.cast(0x9E3779B9, tl.uint32)
    word = _mix(word[:, :, None] ^ _mix(head.to(tl.uint32) + golden)[None, None])
    word = _mix(word ^ _mix(member.to(tl.uint32) + high))
    return tl.where(word >= tl.cast(threshold, tl.uint32), tl.full((), keep, ACC), 0.0)


# ---- scores ----


@triton.jit
def _tanh(z):
    return 1 - 2 / (1 + tl.exp(2 * z))


@triton.jit
def _activated(z, slope, ACTIVATION: tl.constexpr):
    """Apply leaky ReLU, tanh, GELU or SiLU. Leaky ReLU with slope 0 is ReLU, with 1 identity."""
    if ACTIVATION == 0:
        return tl.where(z > 0, z, z * slope)
    elif ACTIVATION == 1:
        return _tanh(z)
    elif ACTIVATION == 2:
        return z * (0.5 * (1 + tl.math.erf(z * 0.7071067811865476)))
    else:
        return z / (1 + tl.exp(-z))


@triton.jit
def _steepness(z, slope, ACTIVATION: tl.constexpr):
    """Return the derivative of the activation at ``z``."""
    if ACTIVATION == 0:
        return tl.where(z > 0, 1.0, slope)
    elif ACTIVATION == 1:
        t = _tanh(z)
        return 1 - t * t
    elif ACTIVATION == 2:
        normal = 0.5 * (1 + tl.math.erf(z * 0.7071067811865476))
        return normal + z * tl.exp(-0.5 * z * z) * 0.3989422804014327
    else:
        g = 1 / (1 + tl.exp(-z))
        return g * (1 + z * (1 - g))


@triton.jit
def _expanded(
    z, features, weight, number, live, inner, inside, F: tl.constexpr, SIZE: tl.constexpr
):
    """Add to ``z`` the projected features of edges: ``weight [F, H, D]`` times ``features``."""
    from_ = features + number.to(tl.int64) * F
    for f in range(F):
        x = tl.load(from_ + f, mask=live, other=0)
        w = tl.load(weight + f * SIZE + inner, mask=inside, other=0)
        z += x[:, :, None, None] * w[None, None]
    return z


@triton.jit
def _score_vector(weight, inner, inside, ACC: tl.constexpr):
    """Load the weight vector of an additive score, ``[BH, BD]``; ones if ``weight`` is None."""
    if weight is None:
        return inside.to(ACC)
    else:
        return tl.load(weight + inner, mask=inside, other=0).to(ACC)


@triton.jit
def _scores(
    row_vectors, other, x, projected, a, features, weight, number, live, inner, inside, scale,
    slope,
    SCORE: tl.constexpr, ACTIVATION: tl.constexpr, F: tl.constexpr, SIZE: tl.constexpr,
):
    """Return the scores ``[R, E, BH]`` before gain and bias, and a tensor for the gradients.

    ``other [R, E, BH, BD]`` are the vectors of the nodes at the other ends of the edges. For a dot
    product, the edge features ``x`` are multiplied by the ``projected`` vector of the row; for an
    additive score, they are projected by ``weight``. The second result is ``other``, or for an
    additive score the input of the activation.
    """
    if SCORE == 1:
        s = tl.sum(row_vectors[:, None] * other, axis=3)
        if projected is not None:
            s += tl.sum(x[:, :, None, :] * projected[:, None], axis=3)
        return s * scale, other
    else:
        z = row_vectors[:, None] + other
        if weight is not None:
            z = _expanded(z, features, weight, number, live, inner, inside, F, SIZE)
        return tl.sum(a[None, None] * _activated(z, slope, ACTIVATION), axis=3), z


# ---- attention, forward ----


@triton.jit(do_not_specialize=SIZES)
def attend_forward(
    items, count: "i64", column, edge, edges: "i64", members: "i64", rows: "i64",
    query, query_batch: "i64", query_node: "i64",
    key, key_batch: "i64", key_node: "i64",
    value, value_batch: "i64", value_node: "i64",
    bias, bias_index, bias_batch: "i64", gain, gain_index, gain_batch: "i64",
    edge_key, edge_key_batch: "i64", key_features, key_weight, projected_query,
    edge_value, edge_value_batch: "i64", value_features,
    score_weight,
    scores, out, stats, lse, sums, slot_count: "i64", slot_stats, slot_out, slot_sums,
    scale: "fp64", slope: "fp64", keep: "fp64",
    seed: "i64", member_seed: "i64", first_edge: "i64", threshold: "i64",
    SCORE: tl.constexpr, ACTIVATION: tl.constexpr, DROPOUT: tl.constexpr,
    BIAS: tl.constexpr, GAIN: tl.constexpr,
    H: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, FK: tl.constexpr, FV: tl.constexpr,
    BH: tl.constexpr, BD: tl.constexpr, BDV: tl.constexpr, BFK: tl.constexpr, BFV: tl.constexpr,
    R: tl.constexpr, E: tl.constexpr, ALIGN: tl.constexpr, ACC: tl.constexpr,
):
    """Compute the attention output and the numbers that the backward pass needs.

    The latter are ``stats [B, rows, 2, H]``: the greatest score, and
    1 / sum(exp(score - greatest)). With ``scores``, compute only the scores of edges and
    write them there.
    """
    block, member, heads = _program(members, (H + BH - 1) // BH)
    row, begin, end, slot, exists = _items(items, count, block, R)
    member = member.to(tl.int64)
    head = heads * BH + tl.arange(0, BH)
    inner, inside = _inner(heads, H, D, BH, BD)
    inner_v, inside_v = _inner(heads, H, DV, BH, BDV)
    inner_fk, inside_fk = _inner(heads, H, FK, BH, BFK)
    inner_fv, inside_fv = _inner(heads, H, FV, BH, BFV)
    slope_, scale_ = tl.full((), slope, ACC), tl.full((), scale, ACC)
    bias_start, gain_start = member * bias_batch, member * gain_batch
    a = _score_vector(score_weight, inner, inside, ACC)
    pq = None
    if SCORE != 0:
        q = _by_row(query + member * (query_batch * ALIGN), row, exists, query_node * ALIGN, inner,
                    inside, ACC)
        keys = key + member * (key_batch * ALIGN)
    if projected_query is not None:
        pq = _by_row(projected_query + member * rows * (H * FK), row, exists, H * FK, inner_fk,
                     inside_fk, ACC)
    if out is not None:
        values = value + member * (value_batch * ALIGN)
        most = tl.full((R, BH), float("-inf"), ACC)
        total = tl.zeros((R, BH), ACC)
        result = tl.zeros((R, BH, BDV), ACC)
        if value_features is not None:
            result_f = tl.zeros((R, BH, BFV), ACC)
    for first in range(0, tl.max(end - begin), E):
        position = begin[:, None] + first + tl.arange(0, E)[None, :]
        live = position < end[:, None]
        node = tl.load(column + position, mask=live, other=0)
        number = tl.load(edge + position, mask=live, other=0)
        # ---- scores ----
        if SCORE == 0:
            s = tl.zeros((R, E, BH), ACC)
        else:
            k = _carried(keys, node, key_node * ALIGN, edge_key, member * edge_key_batch, number,
                         live, inner, inside, H * D, ACC)
            xk = None
            if projected_query is not None:
                xk = _features(key_features, number, live, FK, BFK, ACC)
            s, _made_from = _scores(q, k, xk, pq, a, key_features, key_weight, number, live, inner,
                                    inside, scale_, slope_, SCORE, ACTIVATION, FK, H * D)
            if gain is not None:
                s *= _term(gain, gain_index, gain_start, number, live, head, H, GAIN, ACC)
        if bias is not None:
            s += _term(bias, bias_index, bias_start, number, live, head, H, BIAS, ACC)
        if scores is not None:
            at = (member * edges + number.to(tl.int64))[:, :, None] * H + head[None, None]
            tl.store(scores + at, s, mask=live[:, :, None] & (head < H)[None, None])
        if out is not None:
            # ---- softmax ----
            s = tl.where(live[:, :, None], s, float("-inf"))
            greater = tl.maximum(most, tl.max(s, axis=1))
            shift = tl.where(greater == float("-inf"), 0.0, greater)
            w = tl.exp(s - shift[:, None])
            rescale = tl.exp(most - shift)
            total = total * rescale + tl.sum(w, axis=1)
            most = greater
            # ---- sum of values ----
            if DROPOUT:
                w *= _dropout_mask(number, head, member, seed, member_seed, first_edge, threshold,
                                   keep, ACC)
            v = _carried(values, node, value_node * ALIGN, edge_value, member * edge_value_batch,
                         number, live, inner_v, inside_v, H * DV, ACC)
            result = result * rescale[:, :, None] + tl.sum(w[:, :, :, None] * v, axis=1)
            if value_features is not None:
                x = _features(value_features, number, live, FV, BFV, ACC)
                result_f = result_f * rescale[:, :, None] + tl.sum(
                    w[:, :, :, None] * x[:, :, None, :], axis=1
                )
    if out is not None:
        shift = tl.where(most == float("-inf"), 0.0, most)
        inverse = tl.where(total == 0, 0.0, 1 / tl.where(total == 0, 1.0, total))
        valid = exists[:, None] & (head < H)[None, :]
        is_row = valid & (slot < 0)[:, None]
        node = member * rows + row.to(tl.int64)
        at = node[:, None] * (2 * H) + head[None, :]
        tl.store(stats + at, shift, mask=is_row)
        tl.store(stats + at + H, inverse, mask=is_row)
        if lse is not None:
            sum_ = tl.where(total == 0, 1.0, total)
            log = tl.where(total == 0, float("-inf"), shift + tl.log(sum_))
            tl.store(lse + node[:, None] * H + head[None, :], log, mask=is_row)
        if slot_stats is not None:
            piece = member * slot_count + tl.maximum(slot, 0).to(tl.int64)
            is_piece = valid & (slot >= 0)[:, None]
            at = piece[:, None] * (2 * H) + head[None, :]
            tl.store(slot_stats + at, shift, mask=is_piece)
            tl.store(slot_stats + at + H, total, mask=is_piece)
            at = piece[:, None, None] * (H * DV) + inner_v[None]
            tl.store(slot_out + at, result, mask=is_piece[:, :, None] & inside_v[None])
            if value_features is not None:
                at = piece[:, None, None] * (H * FV) + inner_fv[None]
                tl.store(slot_sums + at, result_f, mask=is_piece[:, :, None] & inside_fv[None])
        at = node[:, None, None] * (H * DV) + inner_v[None]
        result *= inverse[:, :, None]
        tl.store(out + at, result, mask=is_row[:, :, None] & inside_v[None])
        if value_features is not None:
            at = node[:, None, None] * (H * FV) + inner_fv[None]
            result_f *= inverse[:, :, None]
            tl.store(sums + at, result_f, mask=is_row[:, :, None] & inside_fv[None])


@triton.jit(do_not_specialize=SIZES)
def attend_merge(
    items, members: "i64", rows: "i64", slot_count: "i64", slot_stats, slot_out, slot_sums,
    out, stats, lse, sums,
    H: tl.constexpr, DV: tl.constexpr, FV: tl.constexpr,
    BH: tl.constexpr, BDV: tl.constexpr, BFV: tl.constexpr, ACC: tl.constexpr,
):
    """Merge the outputs of the pieces of a row; an item is row, first slot, last slot + 1."""
    block, member, heads = _program(members, (H + BH - 1) // BH)
    row = tl.load(items + block * 3)
    begin, end = tl.load(items + block * 3 + 1), tl.load(items + block * 3 + 2)
    member = member.to(tl.int64)
    head = heads * BH + tl.arange(0, BH)
    valid_head = head < H
    inner_v, inside_v = _inner(heads, H, DV, BH, BDV)
    inner_fv, inside_fv = _inner(heads, H, FV, BH, BFV)
    most = tl.zeros((BH,), ACC)
    total = tl.zeros((BH,), ACC)
    if out is not None:
        result = tl.zeros((BH, BDV), ACC)
    if sums is not None:
        result_f = tl.zeros((BH, BFV), ACC)
    for slot in range(begin, end):
        piece = member * slot_count + slot
        at = piece * (2 * H) + head
        shift = tl.load(slot_stats + at, mask=valid_head, other=0)
        piece_total = tl.load(slot_stats + at + H, mask=valid_head, other=0)
        # A piece whose scores are all -inf has 0 as its greatest score, which must be ignored.
        both = tl.maximum(most, shift)
        greater = tl.where(total == 0, shift, tl.where(piece_total == 0, most, both))
        rescale = tl.where(total == 0, 0.0, tl.exp(most - greater))
        piece_scale = tl.where(piece_total == 0, 0.0, tl.exp(shift - greater))
        total = total * rescale + piece_total * piece_scale
        most = greater
        if out is not None:
            x = tl.load(slot_out + piece * (H * DV) + inner_v, mask=inside_v, other=0)
            result = result * rescale[:, None] + x * piece_scale[:, None]
        if sums is not None:
            x = tl.load(slot_sums + piece * (H * FV) + inner_fv, mask=inside_fv, other=0)
            result_f = result_f * rescale[:, None] + x * piece_scale[:, None]
    inverse = tl.where(total == 0, 0.0, 1 / tl.where(total == 0, 1.0, total))
    node = member * rows + row.to(tl.int64)
    at = node * (2 * H) + head
    tl.store(stats + at, most, mask=valid_head)
    tl.store(stats + at + H, inverse, mask=valid_head)
    if lse is not None:
        log = most + tl.log(tl.where(total == 0, 1.0, total))
        tl.store(lse + node * H + head, tl.where(total == 0, float("-inf"), log), mask=valid_head)
    if out is not None:
        tl.store(out + node * (H * DV) + inner_v, result * inverse[:, None], mask=inside_v)
    if sums is not None:
        tl.store(sums + node * (H * FV) + inner_fv, result_f * inverse[:, None], mask=inside_fv)


@triton.jit(do_not_specialize=SIZES)
def add_merge(
    items, members: "i64", rows: "i64", slot_count: "i64", slots, out,
    SIZE: tl.constexpr, BLOCK: tl.constexpr, ACC: tl.constexpr,
):
    """Add the results of the pieces of a row, in order. A result has ``SIZE`` numbers."""
    block, member, tile = _program(members, (SIZE + BLOCK - 1) // BLOCK)
    row = tl.load(items + block * 3)
    begin, end = tl.load(items + block * 3 + 1), tl.load(items + block * 3 + 2)
    member = member.to(tl.int64)
    at = tile * BLOCK + tl.arange(0, BLOCK)
    result = tl.zeros((BLOCK,), ACC)
    for slot in range(begin, end):
        piece = member * slot_count + slot
        result += tl.load(slots + piece * SIZE + at, mask=at < SIZE, other=0)
    node = member * rows + row.to(tl.int64)
    tl.store(out + node * SIZE + at, result, mask=at < SIZE)


# ---- attention, backward ----


@triton.jit
def _put(
    x, out, slots, member, rows, slot_count, row, slot, exists, inner, inside, SIZE: tl.constexpr
):
    """Store the results ``x [R, BH, BD]`` of whole rows in ``out``, and of pieces in ``slots``."""
    valid = exists[:, None, None] & inside[None]
    node = member * rows + row.to(tl.int64)
    at = node[:, None, None] * SIZE + inner[None]
    tl.store(out + at, x, mask=valid & (slot < 0)[:, None, None])
    if slots is not None:
        piece = member * slot_count + tl.maximum(slot, 0).to(tl.int64)
        at = piece[:, None, None] * SIZE + inner[None]
        tl.store(slots + at, x, mask=valid & (slot >= 0)[:, None, None])


@triton.jit(do_not_specialize=SIZES)
def attend_backward_rows(
    items, count: "i64", column, edge, edges: "i64", members: "i64", rows: "i64",
    first_program: "i64",
    query, query_batch: "i64", query_node: "i64",
    key, key_batch: "i64", key_node: "i64",
    value, value_batch: "i64", value_node: "i64",
    out, grad_out, grad_batch: "i64", grad_node: "i64", grad_lse, stats, delta, grad_scores,
    bias, bias_index, bias_batch: "i64", gain, gain_index, gain_batch: "i64",
    edge_key, edge_key_batch: "i64", key_features, key_weight, projected_query,
    edge_value, edge_value_batch: "i64", value_features, projected_grad,
    score_weight,
    grad_query, slot_query, grad_projected, slot_projected, sums, slot_sums, slot_count: "i64",
    grad_bias, grad_gain, grad_edge_key, grad_edge_value,
    grad_edge_key_features, grad_edge_value_features,
    grad_score_weight, edge_grad, edge_weight,
    scale: "fp64", slope: "fp64", keep: "fp64",
    seed: "i64", member_seed: "i64", first_edge: "i64", threshold: "i64",
    SCORE: tl.constexpr, ACTIVATION: tl.constexpr, DROPOUT: tl.constexpr,
    BIAS: tl.constexpr, GAIN: tl.constexpr,
    H: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, FK: tl.constexpr, FV: tl.constexpr,
    BH: tl.constexpr, BD: tl.constexpr, BDV: tl.constexpr, BFK: tl.constexpr, BFV: tl.constexpr,
    R: tl.constexpr, E: tl.constexpr, ALIGN: tl.constexpr, ACC: tl.constexpr,
):
    """Compute all gradients except those of key and value, in a pass over targets.

    With ``grad_scores``, the gradient of the scores, there is no softmax. The kernel also writes
    the input of the pass over sources: ``delta [B, rows, H]``, which is the sum over the edges of a
    row of weight times gradient of the weight, minus the gradient of the log-sum-exp; and if they
    are passed, ``edge_grad [B, E, H]``, the gradients of the scores before gain and bias, and
    ``edge_weight [B, E, H]``, the weights after dropout.
    """
    block, member, heads = _program(members, (H + BH - 1) // BH)
    row, begin, end, slot, exists = _items(items, count, block, R)
    member = member.to(tl.int64)
    head = heads * BH + tl.arange(0, BH)
    there = (head < H)[None, None]
    inner, inside = _inner(heads, H, D, BH, BD)
    inner_v, inside_v = _inner(heads, H, DV, BH, BDV)
    inner_fk, inside_fk = _inner(heads, H, FK, BH, BFK)
    inner_fv, inside_fv = _inner(heads, H, FV, BH, BFV)
    slope_, scale_ = tl.full((), slope, ACC), tl.full((), scale, ACC)
    bias_start, gain_start = member * bias_batch, member * gain_batch
    # Each example and block of heads writes the gradients of edge features to a separate copy.
    copy = (member * ((H + BH - 1) // BH) + heads) * edges
    a = _score_vector(score_weight, inner, inside, ACC)
    pq = None
    if SCORE != 0:
        q = _by_row(query + member * (query_batch * ALIGN), row, exists, query_node * ALIGN, inner,
                    inside, ACC)
        keys = key + member * (key_batch * ALIGN)
        result = tl.zeros((R, BH, BD), ACC)
    if projected_query is not None:
        pq = _by_row(projected_query + member * rows * (H * FK), row, exists, H * FK, inner_fk,
                     inside_fk, ACC)
        result_fk = tl.zeros((R, BH, BFK), ACC)
    if grad_score_weight is not None:
        result_a = tl.zeros((R, BH, BD), ACC)
    if grad_scores is None:
        values = value + member * (value_batch * ALIGN)
        g = _by_row(grad_out + member * (grad_batch * ALIGN), row, exists, grad_node * ALIGN,
                    inner_v, inside_v, ACC)
        o = _by_row(out + member * rows * (H * DV), row, exists, H * DV, inner_v, inside_v, ACC)
        row_at = (member * rows + row.to(tl.int64))[:, None]
        valid_head = exists[:, None] & (head < H)[None, :]
        mean = tl.sum(g * o, axis=2)
        if grad_lse is not None:
            mean -= tl.load(grad_lse + row_at * H + head[None, :], mask=valid_head, other=0)
        tl.store(delta + row_at * H + head[None, :], mean, mask=valid_head)
        row_stats = stats + row_at * (2 * H) + head[None, :]
        most = tl.load(row_stats, mask=valid_head, other=0)
        inverse = tl.load(row_stats + H, mask=valid_head, other=0)
        if projected_grad is not None:
            pg = _by_row(projected_grad + member * rows * (H * FV), row, exists, H * FV, inner_fv,
                         inside_fv, ACC)
            result_fv = tl.zeros((R, BH, BFV), ACC)
    for first in range(0, tl.max(end - begin), E):
        position = begin[:, None] + first + tl.arange(0, E)[None, :]
        live = position < end[:, None]
        node = tl.load(column + position, mask=live, other=0)
        number = tl.load(edge + position, mask=live, other=0)
        edge_at = (member * edges + number.to(tl.int64))[:, :, None] * H + head[None, None]
        valid = live[:, :, None] & there
        # ---- recompute scores ----
        if SCORE == 0:
            s = tl.zeros((R, E, BH), ACC)
        else:
            k = _carried(keys, node, key_node * ALIGN, edge_key, member * edge_key_batch, number,
                         live, inner, inside, H * D, ACC)
            xk = None
            if projected_query is not None:
                xk = _features(key_features, number, live, FK, BFK, ACC)
            s, z = _scores(q, k, xk, pq, a, key_features, key_weight, number, live, inner, inside,
                           scale_, slope_, SCORE, ACTIVATION, FK, H * D)
            raw = s
            if gain is not None:
                by = _term(gain, gain_index, gain_start, number, live, head, H, GAIN, ACC)
                s *= by
        # ---- gradients of the scores ----
        if grad_scores is not None:
            ds = tl.load(grad_scores + edge_at, mask=valid, other=0).to(ACC)
        else:
            if bias is not None:
                s += _term(bias, bias_index, bias_start, number, live, head, H, BIAS, ACC)
            p = tl.where(valid, tl.exp(s - most[:, None]) * inverse[:, None], 0.0)
            v = _carried(values, node, value_node * ALIGN, edge_value, member * edge_value_batch,
                         number, live, inner_v, inside_v, H * DV, ACC)
            dw = tl.sum(g[:, None] * v, axis=3)
            if projected_grad is not None:
                xv = _features(value_features, number, live, FV, BFV, ACC)
                dw += tl.sum(xv[:, :, None, :] * pg[:, None], axis=3)
            w = p
            if DROPOUT:
                drop_mask = _dropout_mask(number, head, member, seed, member_seed, first_edge,
                                          threshold, keep, ACC)
                dw *= drop_mask
                w = p * drop_mask
            ds = tl.where(valid, p * (dw - mean[:, None]), 0.0)
            # ---- gradients of edge values ----
            if grad_edge_value is not None:
                at = (member * edges + number.to(tl.int64))[:, :, None, None] * (H * DV)
                tl.store(grad_edge_value + at + inner_v[None, None], w[:, :, :, None] * g[:, None],
                         mask=live[:, :, None, None] & inside_v[None, None])
            if projected_grad is not None:
                result_fv += tl.sum(w[:, :, :, None] * xv[:, :, None, :], axis=1)
                if grad_edge_value_features is not None:
                    dx = tl.sum(w[:, :, :, None] * pg[:, None], axis=2)
                    f = tl.arange(0, BFV)[None, None]
                    at = (copy + number.to(tl.int64))[:, :, None] * FV + f
                    tl.store(grad_edge_value_features + at, dx, mask=live[:, :, None] & (f < FV))
            if edge_weight is not None:
                tl.store(edge_weight + edge_at, w, mask=valid)
        # ---- gradients of bias and gain ----
        if grad_bias is not None:
            tl.store(grad_bias + edge_at, ds, mask=valid)
        if SCORE != 0:
            if grad_gain is not None:
                tl.store(grad_gain + edge_at, ds * raw, mask=valid)
            if gain is not None:
                ds *= by
            if edge_grad is not None:
                tl.store(edge_grad + edge_at, ds, mask=valid)
            # ---- gradients through the score ----
            at = (member * edges + number.to(tl.int64))[:, :, None, None] * (H * D)
            at = at + inner[None, None]
            stored = live[:, :, None, None] & inside[None, None]
            if SCORE == 1:
                ds *= scale_
                result += tl.sum(ds[:, :, :, None] * z, axis=1)
                if grad_edge_key is not None:
                    tl.store(grad_edge_key + at, ds[:, :, :, None] * q[:, None], mask=stored)
                if projected_query is not None:
                    result_fk += tl.sum(ds[:, :, :, None] * xk[:, :, None, :], axis=1)
                    if grad_edge_key_features is not None:
                        dx = tl.sum(ds[:, :, :, None] * pq[:, None], axis=2)
                        f = tl.arange(0, BFK)[None, None]
                        to = (copy + number.to(tl.int64))[:, :, None] * FK + f
                        tl.store(grad_edge_key_features + to, dx, mask=live[:, :, None] & (f < FK))
            else:
                dz = ds[:, :, :, None] * (a[None, None] * _steepness(z, slope_, ACTIVATION))
                result += tl.sum(dz, axis=1)
                if grad_score_weight is not None:
                    da = ds[:, :, :, None] * _activated(z, slope_, ACTIVATION)
                    result_a += tl.sum(da, axis=1)
                if grad_edge_key is not None:
                    tl.store(grad_edge_key + at, dz, mask=stored)
                if grad_edge_key_features is not None:
                    to = grad_edge_key_features + (copy + number.to(tl.int64)) * FK
                    for f in range(FK):
                        w_f = tl.load(key_weight + f * (H * D) + inner, mask=inside, other=0)
                        dx_f = tl.sum(tl.sum(dz * w_f[None, None], axis=3), axis=2)
                        tl.store(to + f, dx_f, mask=live)
    if grad_query is not None:
        _put(result, grad_query, slot_query, member, rows, slot_count, row, slot, exists, inner,
             inside, H * D)
    if grad_projected is not None:
        _put(result_fk, grad_projected, slot_projected, member, rows, slot_count, row, slot, exists,
             inner_fk, inside_fk, H * FK)
    if sums is not None:
        _put(result_fv, sums, slot_sums, member, rows, slot_count, row, slot, exists, inner_fv,
             inside_fv, H * FV)
    if grad_score_weight is not None:
        at = (first_program + block * members + member).to(tl.int64) * (H * D) + inner
        tl.store(grad_score_weight + at, tl.sum(result_a, axis=0), mask=inside)


@triton.jit(do_not_specialize=SIZES)
def attend_backward_columns(
    items, count: "i64", column, edge, edges: "i64", members: "i64", rows: "i64", columns: "i64",
    query, query_batch: "i64", query_node: "i64",
    key, key_batch: "i64", key_node: "i64",
    value, value_batch: "i64", value_node: "i64",
    grad_out, grad_batch: "i64", grad_node: "i64", stats, delta,
    bias, bias_index, bias_batch: "i64", gain, gain_index, gain_batch: "i64",
    edge_key, edge_key_batch: "i64", key_features, key_weight, score_weight,
    edge_grad, edge_weight,
    grad_key, slot_key, grad_value, slot_value, slot_count: "i64",
    scale: "fp64", slope: "fp64", keep: "fp64",
    seed: "i64", member_seed: "i64", first_edge: "i64", threshold: "i64",
    SCORE: tl.constexpr, ACTIVATION: tl.constexpr, DROPOUT: tl.constexpr,
    BIAS: tl.constexpr, GAIN: tl.constexpr,
    H: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, FK: tl.constexpr,
    BH: tl.constexpr, BD: tl.constexpr, BDV: tl.constexpr,
    R: tl.constexpr, E: tl.constexpr, ALIGN: tl.constexpr, ACC: tl.constexpr,
):
    """Compute the gradients of key and value, in a pass over sources.

    Here a row is a source: ``rows`` is the number of sources and ``columns`` the number of targets.
    The weights and the gradients of the scores are recomputed, unless ``edge_weight`` and
    ``edge_grad`` are passed.
    """
    block, member, heads = _program(members, (H + BH - 1) // BH)
    row, begin, end, slot, exists = _items(items, count, block, R)
    member = member.to(tl.int64)
    head = heads * BH + tl.arange(0, BH)
    inner, inside = _inner(heads, H, D, BH, BD)
    inner_v, inside_v = _inner(heads, H, DV, BH, BDV)
    slope_, scale_ = tl.full((), slope, ACC), tl.full((), scale, ACC)
    bias_start, gain_start = member * bias_batch, member * gain_batch
    if SCORE != 0:
        queries = query + member * (query_batch * ALIGN)
        k = _by_row(key + member * (key_batch * ALIGN), row, exists, key_node * ALIGN, inner,
                    inside, ACC)
    a = _score_vector(score_weight, inner, inside, ACC)
    if grad_out is not None:
        grads = grad_out + member * (grad_batch * ALIGN)
        v = _by_row(value + member * (value_batch * ALIGN), row, exists, value_node * ALIGN,
                    inner_v, inside_v, ACC)
    if grad_key is not None:
        result = tl.zeros((R, BH, BD), ACC)
    if grad_value is not None:
        result_v = tl.zeros((R, BH, BDV), ACC)
    for first in range(0, tl.max(end - begin), E):
        position = begin[:, None] + first + tl.arange(0, E)[None, :]
        live = position < end[:, None]
        node = tl.load(column + position, mask=live, other=0)
        number = tl.load(edge + position, mask=live, other=0)
        valid = live[:, :, None] & (head < H)[None, None]
        if SCORE != 0:
            if SCORE == 1:  # With edge keys, `edge_grad` is passed and no score is recomputed.
                q = _gathered(queries, node, live, query_node * ALIGN, inner, inside, ACC)
            else:
                q = _carried(queries, node, query_node * ALIGN, edge_key, member * edge_key_batch,
                             number, live, inner, inside, H * D, ACC)
            raw, z = _scores(k, q, None, None, a, key_features, key_weight, number, live, inner,
                             inside, scale_, slope_, SCORE, ACTIVATION, FK, H * D)
        if grad_out is not None:
            g = _gathered(grads, node, live, grad_node * ALIGN, inner_v, inside_v, ACC)
        if edge_grad is not None or edge_weight is not None:
            at = (member * edges + number.to(tl.int64))[:, :, None] * H + head[None, None]
            if edge_grad is not None:
                ds = tl.load(edge_grad + at, mask=valid, other=0).to(ACC)
            if edge_weight is not None:
                w = tl.load(edge_weight + at, mask=valid, other=0)
        else:
            # ---- recompute weights ----
            s = tl.zeros((R, E, BH), ACC) if SCORE == 0 else raw
            if SCORE != 0 and gain is not None:
                by = _term(gain, gain_index, gain_start, number, live, head, H, GAIN, ACC)
                s *= by
            if bias is not None:
                s += _term(bias, bias_index, bias_start, number, live, head, H, BIAS, ACC)
            twice = 2 * node
            most = _by_head(stats + member * columns * (2 * H), twice, live, head, H, ACC)
            inverse = _by_head(stats + member * columns * (2 * H), twice + 1, live, head, H, ACC)
            w = tl.where(valid, tl.exp(s - most) * inverse, 0.0)
            if DROPOUT:
                drop_mask = _dropout_mask(number, head, member, seed, member_seed, first_edge,
                                          threshold, keep, ACC)
            if grad_key is not None:
                dw = tl.sum(v[:, None] * g, axis=3)
                if DROPOUT:
                    dw *= drop_mask
                mean = _by_head(delta + member * columns * H, node, live, head, H, ACC)
                ds = tl.where(valid, w * (dw - mean), 0.0)
                if gain is not None:
                    ds *= by
            if DROPOUT:
                w *= drop_mask
        if grad_key is not None:
            if SCORE == 1:
                result += tl.sum((ds * scale_)[:, :, :, None] * z, axis=1)
            else:
                dz = ds[:, :, :, None] * (a[None, None] * _steepness(z, slope_, ACTIVATION))
                result += tl.sum(dz, axis=1)
        if grad_value is not None:
            result_v += tl.sum(w[:, :, :, None] * g, axis=1)
    if grad_key is not None:
        _put(result, grad_key, slot_key, member, rows, slot_count, row, slot, exists, inner, inside,
             H * D)
    if grad_value is not None:
        _put(result_v, grad_value, slot_value, member, rows, slot_count, row, slot, exists, inner_v,
             inside_v, H * DV)


@triton.jit(do_not_specialize=SIZES)
def projection_gradient(
    row, column, edge, edges: "i64", members: "i64", edges_per_program: "i64",
    query, query_batch: "i64", query_node: "i64",
    key, key_batch: "i64", key_node: "i64",
    key_features, key_weight, score_weight, edge_grad, grad_weight,
    slope: "fp64", ACTIVATION: tl.constexpr,
    H: tl.constexpr, D: tl.constexpr, FK: tl.constexpr,
    BH: tl.constexpr, BD: tl.constexpr, BF: tl.constexpr,
    E: tl.constexpr, ALIGN: tl.constexpr, ACC: tl.constexpr,
):
    """Compute the gradient of the weight that projects edge keys, for an additive score.

    A program sums over ``edges_per_program`` edges of any rows, for ``BF`` features, and writes its
    partial sum to ``grad_weight [programs, F, H, D]``.
    """
    block, member, tile = _program(members, ((H + BH - 1) // BH) * ((FK + BF - 1) // BF))
    heads, first_f = tile % ((H + BH - 1) // BH), tile // ((H + BH - 1) // BH) * BF
    number_of = block * members + member
    member = member.to(tl.int64)
    head = heads * BH + tl.arange(0, BH)
    f = first_f + tl.arange(0, BF)
    inner, inside = _inner(heads, H, D, BH, BD)
    slope_ = tl.full((), slope, ACC)
    a = _score_vector(score_weight, inner, inside, ACC)
    result = tl.zeros((BF, BH, BD), ACC)
    for first in range(0, edges_per_program, E):
        position = block.to(tl.int64) * edges_per_program + first + tl.arange(0, E)
        live = (first + tl.arange(0, E) < edges_per_program) & (position < edges)
        target = tl.load(row + position, mask=live, other=0)[None, :]
        source = tl.load(column + position, mask=live, other=0)[None, :]
        number = tl.load(edge + position, mask=live, other=0)[None, :]
        alive = live[None, :]
        z = _gathered(query + member * (query_batch * ALIGN), target, alive, query_node * ALIGN,
                      inner, inside, ACC)
        z += _gathered(key + member * (key_batch * ALIGN), source, alive, key_node * ALIGN, inner,
                       inside, ACC)
        z = _expanded(z, key_features, key_weight, number, alive, inner, inside, FK, H * D)
        at = (member * edges + number.to(tl.int64))[:, :, None] * H + head[None, None]
        ds = tl.load(edge_grad + at, mask=alive[:, :, None] & (head < H)[None, None], other=0)
        dz = ds.to(ACC)[:, :, :, None] * (a[None, None] * _steepness(z, slope_, ACTIVATION))
        dz = tl.reshape(dz, (E, BH, BD))
        at = tl.reshape(number, (E,)).to(tl.int64)[:, None] * FK + f[None, :]
        x = tl.load(key_features + at, mask=live[:, None] & (f < FK)[None, :], other=0)
        result += tl.sum(x[:, :, None, None] * dz[:, None], axis=0)
    at = (number_of.to(tl.int64) * FK + f[:, None, None]) * (H * D) + inner[None]
    tl.store(grad_weight + at, result, mask=(f < FK)[:, None, None] & inside[None])


# ---- softmax of scores ----


@triton.jit(do_not_specialize=SIZES)
def softmax_totals(
    items, count: "i64", edge, edges: "i64", members: "i64", rows: "i64", scores, grad, stats,
    slot_count: "i64", slot_stats,
    H: tl.constexpr, BH: tl.constexpr, R: tl.constexpr, E: tl.constexpr, ACC: tl.constexpr,
):
    """Compute for each row the greatest score and 1 / sum(exp(score - greatest)).

    With ``grad``, the gradient of the weights, ``scores`` are the weights instead, and the result
    is the sum of weight times gradient.
    """
    block, member, heads = _program(members, (H + BH - 1) // BH)
    row, begin, end, slot, exists = _items(items, count, block, R)
    member = member.to(tl.int64)
    head = heads * BH + tl.arange(0, BH)
    most = tl.full((R, BH), float("-inf"), ACC)
    total = tl.zeros((R, BH), ACC)
    for first in range(0, tl.max(end - begin), E):
        position = begin[:, None] + first + tl.arange(0, E)[None, :]
        live = position < end[:, None]
        number = tl.load(edge + position, mask=live, other=0)
        s = _by_head(scores + member * edges * H, number, live, head, H, ACC)
        if grad is not None:
            total += tl.sum(s * _by_head(grad + member * edges * H, number, live, head, H, ACC), 1)
        else:
            s = tl.where(live[:, :, None], s, float("-inf"))
            greater = tl.maximum(most, tl.max(s, axis=1))
            shift = tl.where(greater == float("-inf"), 0.0, greater)
            total = total * tl.exp(most - shift) + tl.sum(tl.exp(s - shift[:, None]), axis=1)
            most = greater
    shift = tl.where(most == float("-inf"), 0.0, most)
    valid = exists[:, None] & (head < H)[None, :]
    at = (member * rows + row.to(tl.int64))[:, None] * (2 * H) + head[None, :]
    is_row = valid & (slot < 0)[:, None]
    if slot_stats is not None:
        piece = member * slot_count + tl.maximum(slot, 0).to(tl.int64)
        to = piece[:, None] * (2 * H) + head[None, :]
        is_piece = valid & (slot >= 0)[:, None]
        tl.store(slot_stats + to, shift, mask=is_piece)
        tl.store(slot_stats + to + H, total, mask=is_piece)
    if grad is not None:
        tl.store(stats + at + H, total, mask=is_row)
    else:
        inverse = tl.where(total == 0, 0.0, 1 / tl.where(total == 0, 1.0, total))
        tl.store(stats + at, shift, mask=is_row)
        tl.store(stats + at + H, inverse, mask=is_row)


@triton.jit(do_not_specialize=SIZES)
def softmax_edges(
    items, count: "i64", edge, edges: "i64", members: "i64", rows: "i64", scores, grad, stats, out,
    H: tl.constexpr, BH: tl.constexpr, R: tl.constexpr, E: tl.constexpr, ACC: tl.constexpr,
):
    """Compute the softmax weights of edges from the results of :func:`softmax_totals`.

    With ``grad``, the gradient of the weights, ``scores`` are the weights instead, and the results
    are the gradients of the scores.
    """
    block, member, heads = _program(members, (H + BH - 1) // BH)
    row, begin, end, _slot, exists = _items(items, count, block, R)
    member = member.to(tl.int64)
    head = heads * BH + tl.arange(0, BH)
    valid = exists[:, None] & (head < H)[None, :]
    row_stats = stats + (member * rows + row.to(tl.int64))[:, None] * (2 * H) + head[None, :]
    total = tl.load(row_stats + H, mask=valid, other=0)
    if grad is None:
        most = tl.load(row_stats, mask=valid, other=0)
    for first in range(0, tl.max(end - begin), E):
        position = begin[:, None] + first + tl.arange(0, E)[None, :]
        live = position < end[:, None]
        number = tl.load(edge + position, mask=live, other=0)
        s = _by_head(scores + member * edges * H, number, live, head, H, ACC)
        if grad is not None:
            x = _by_head(grad + member * edges * H, number, live, head, H, ACC)
            s = s * (x - total[:, None])
        else:
            s = tl.exp(s - most[:, None]) * total[:, None]
        to = (member * edges + number.to(tl.int64))[:, :, None] * H + head[None, None]
        tl.store(out + to, s, mask=live[:, :, None] & (head < H)[None, None])


# ---- sums, means and extremes ----


@triton.jit
def _head_tile(tile, H: tl.constexpr, D: tl.constexpr, BH: tl.constexpr, BD: tl.constexpr):
    """Return heads, offsets and mask of ``tile``: ``BH`` heads, and ``BD`` elements of each."""
    head = tile // ((D + BD - 1) // BD) * BH + tl.arange(0, BH)
    width = tile % ((D + BD - 1) // BD) * BD + tl.arange(0, BD)
    inside = (head < H)[:, None] & (width < D)[None, :]
    return head, head[:, None] * D + width[None, :], inside


@triton.jit
def _weights(weight, start, number, live, head, H: tl.constexpr, E: tl.constexpr, R: tl.constexpr,
             BH: tl.constexpr, ACC: tl.constexpr):
    """Load the weights of the edges ``number``, ``[R, E, BH]``; ones if ``weight`` is None."""
    if weight is None:
        return tl.full((R, E, BH), 1.0, ACC)
    else:
        return _by_head(weight + start * H, number, live, head, H, ACC)


@triton.jit(do_not_specialize=SIZES)
def aggregate(
    items, count: "i64", column, edge, members: "i64", rows: "i64",
    value, value_batch: "i64", value_node: "i64", weight, weight_batch: "i64",
    out, slots, slot_count: "i64",
    REDUCE: tl.constexpr, H: tl.constexpr, D: tl.constexpr, BH: tl.constexpr, BD: tl.constexpr,
    R: tl.constexpr, E: tl.constexpr, ALIGN: tl.constexpr, ACC: tl.constexpr,
):
    """Reduce weight times value over the edges of each row.

    ``REDUCE`` is 0 for the sum, 1 for the mean, 2 for the maximum and 3 for the minimum.
    """
    block, member, tile = _program(members, ((H + BH - 1) // BH) * ((D + BD - 1) // BD))
    row, begin, end, slot, exists = _items(items, count, block, R)
    member = member.to(tl.int64)
    head, inner, inside = _head_tile(tile, H, D, BH, BD)
    values = value + member * (value_batch * ALIGN)
    if REDUCE < 2:
        result = tl.zeros((R, BH, BD), ACC)
    else:  # The minimum is the negated maximum of the negated values.
        result = tl.full((R, BH, BD), float("-inf"), ACC)
        bad = tl.zeros((R, BH, BD), tl.int32)
    for first in range(0, tl.max(end - begin), E):
        position = begin[:, None] + first + tl.arange(0, E)[None, :]
        live = position < end[:, None]
        node = tl.load(column + position, mask=live, other=0)
        x = _gathered(values, node, live, value_node * ALIGN, inner, inside, ACC)
        if weight is not None:
            number = tl.load(edge + position, mask=live, other=0)
            w = _by_head(weight + member * weight_batch * H, number, live, head, H, ACC)
            x *= w[:, :, :, None]
        if REDUCE < 2:
            result += tl.sum(x, axis=1)
        else:
            # If a value is NaN, the result must be NaN.
            bad = tl.maximum(bad, tl.max((x != x).to(tl.int32), axis=1))
            if REDUCE == 3:
                x = -x
            x = tl.where(live[:, :, None, None], x, float("-inf"))
            result = tl.maximum(result, tl.max(x, axis=1))
    if REDUCE >= 2:
        result = tl.where(bad > 0, float("nan"), result)
        if REDUCE == 3:
            result = -result
        result = tl.where((end > begin)[:, None, None], result, 0.0)
    if slots is not None:
        piece = member * slot_count + tl.maximum(slot, 0).to(tl.int64)
        at = piece[:, None, None] * (H * D) + inner[None]
        tl.store(slots + at, result, mask=(exists & (slot >= 0))[:, None, None] & inside[None])
    if REDUCE == 1:
        result /= tl.maximum(end - begin, 1).to(ACC)[:, None, None]
    at = (member * rows + row.to(tl.int64))[:, None, None] * (H * D) + inner[None]
    tl.store(out + at, result, mask=(exists & (slot < 0))[:, None, None] & inside[None])


@triton.jit(do_not_specialize=SIZES)
def aggregate_merge(
    items, pointer, members: "i64", rows: "i64", slot_count: "i64", slots, out,
    REDUCE: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr, ACC: tl.constexpr,
):
    """Merge the results of :func:`aggregate` for the pieces of a row, in order."""
    block, member, tile = _program(members, (SIZE + BLOCK - 1) // BLOCK)
    row = tl.load(items + block * 3)
    begin, end = tl.load(items + block * 3 + 1), tl.load(items + block * 3 + 2)
    member = member.to(tl.int64)
    at = tile * BLOCK + tl.arange(0, BLOCK)
    result = tl.load(slots + (member * slot_count + begin) * SIZE + at, mask=at < SIZE, other=0)
    for slot in range(begin + 1, end):
        x = tl.load(slots + (member * slot_count + slot) * SIZE + at, mask=at < SIZE, other=0)
        if REDUCE < 2:
            result += x
        else:
            bad = (x != x) | (result != result)
            result = tl.maximum(result, x) if REDUCE == 2 else tl.minimum(result, x)
            result = tl.where(bad, float("nan"), result)
    if REDUCE == 1:
        degree = tl.load(pointer + row + 1) - tl.load(pointer + row)
        result /= degree.to(ACC)
    node = member * rows + row.to(tl.int64)
    tl.store(out + node * SIZE + at, result, mask=at < SIZE)


@triton.jit
def _reaches(x, extreme, ACC: tl.constexpr):
    """Return whether ``x``, rounded to the dtype of ``extreme``, equals ``extreme``."""
    return x.to(extreme.dtype).to(ACC) == extreme.to(ACC)


@triton.jit(do_not_specialize=SIZES)
def aggregate_ties(
    items, count: "i64", column, edge, members: "i64", rows: "i64",
    value, value_batch: "i64", value_node: "i64", weight, weight_batch: "i64",
    out, ties, slots, slot_count: "i64",
    H: tl.constexpr, D: tl.constexpr, BH: tl.constexpr, BD: tl.constexpr,
    R: tl.constexpr, E: tl.constexpr, ALIGN: tl.constexpr, ACC: tl.constexpr,
):
    """Count the edges of each row that reach its maximum or minimum, ``[B, rows, H, D]``."""
    block, member, tile = _program(members, ((H + BH - 1) // BH) * ((D + BD - 1) // BD))
    row, begin, end, slot, exists = _items(items, count, block, R)
    member = member.to(tl.int64)
    head, inner, inside = _head_tile(tile, H, D, BH, BD)
    values = value + member * (value_batch * ALIGN)
    row_at = (member * rows + row.to(tl.int64))[:, None, None] * (H * D) + inner[None]
    extreme = tl.load(out + row_at, mask=exists[:, None, None] & inside[None], other=0)
    result = tl.zeros((R, BH, BD), ACC)
    for first in range(0, tl.max(end - begin), E):
        position = begin[:, None] + first + tl.arange(0, E)[None, :]
        live = position < end[:, None]
        node = tl.load(column + position, mask=live, other=0)
        number = tl.load(edge + position, mask=live, other=0)
        x = _gathered(values, node, live, value_node * ALIGN, inner, inside, ACC)
        start = member * weight_batch
        x *= _weights(weight, start, number, live, head, H, E, R, BH, ACC)[:, :, :, None]
        reached = _reaches(x, extreme[:, None], ACC) & live[:, :, None, None]
        result += tl.sum(reached.to(ACC), axis=1)
    _put(result, ties, slots, member, rows, slot_count, row, slot, exists, inner, inside, H * D)


@triton.jit(do_not_specialize=SIZES)
def aggregate_weight_gradient(
    items, count: "i64", column, edge, edges: "i64", members: "i64", rows: "i64",
    value, value_batch: "i64", value_node: "i64", weight, weight_batch: "i64",
    grad_out, grad_batch: "i64", grad_node: "i64", out, grad_weight,
    H: tl.constexpr, D: tl.constexpr, BH: tl.constexpr, BD: tl.constexpr,
    R: tl.constexpr, E: tl.constexpr, ALIGN: tl.constexpr, ACC: tl.constexpr,
):
    """Compute the gradients of edge weights ``[B, E, H]``; with ``out`` only of tied edges."""
    block, member, heads = _program(members, (H + BH - 1) // BH)
    row, begin, end, _slot, exists = _items(items, count, block, R)
    member = member.to(tl.int64)
    head = heads * BH + tl.arange(0, BH)
    values = value + member * (value_batch * ALIGN)
    grads = grad_out + member * (grad_batch * ALIGN)
    for first in range(0, tl.max(end - begin), E):
        position = begin[:, None] + first + tl.arange(0, E)[None, :]
        live = position < end[:, None]
        node = tl.load(column + position, mask=live, other=0)
        number = tl.load(edge + position, mask=live, other=0)
        result = tl.zeros((R, E, BH), ACC)
        for wide in range((D + BD - 1) // BD):
            _, inner, inside = _head_tile(heads * ((D + BD - 1) // BD) + wide, H, D, BH, BD)
            g = _by_row(grads, row, exists, grad_node * ALIGN, inner, inside, ACC)
            x = _gathered(values, node, live, value_node * ALIGN, inner, inside, ACC)
            product = g[:, None] * x
            if out is not None:
                row_at = (member * rows + row.to(tl.int64))[:, None, None] * (H * D) + inner[None]
                extreme = tl.load(out + row_at, mask=exists[:, None, None] & inside[None], other=0)
                w = _by_head(weight + member * weight_batch * H, number, live, head, H, ACC)
                reached = _reaches(w[:, :, :, None] * x, extreme[:, None], ACC)
                product = tl.where(reached, product, 0.0)
            result += tl.sum(product, axis=3)
        at = (member * edges + number.to(tl.int64))[:, :, None] * H + head[None, None]
        tl.store(grad_weight + at, result, mask=live[:, :, None] & (head < H)[None, None])


@triton.jit(do_not_specialize=SIZES)
def aggregate_extreme_gradient(
    items, count: "i64", column, edge, members: "i64", rows: "i64", columns: "i64",
    value, value_batch: "i64", value_node: "i64", weight, weight_batch: "i64", out, tie_grad,
    grad_value, slots, slot_count: "i64",
    H: tl.constexpr, D: tl.constexpr, BH: tl.constexpr, BD: tl.constexpr,
    R: tl.constexpr, E: tl.constexpr, ALIGN: tl.constexpr, ACC: tl.constexpr,
):
    """Compute the gradients of values from ``tie_grad``, the gradient of each tied edge."""
    block, member, tile = _program(members, ((H + BH - 1) // BH) * ((D + BD - 1) // BD))
    row, begin, end, slot, exists = _items(items, count, block, R)
    member = member.to(tl.int64)
    head, inner, inside = _head_tile(tile, H, D, BH, BD)
    x = _by_row(value + member * (value_batch * ALIGN), row, exists, value_node * ALIGN, inner,
                inside, ACC)
    result = tl.zeros((R, BH, BD), ACC)
    for first in range(0, tl.max(end - begin), E):
        position = begin[:, None] + first + tl.arange(0, E)[None, :]
        live = position < end[:, None]
        node = tl.load(column + position, mask=live, other=0)
        number = tl.load(edge + position, mask=live, other=0)
        start = member * weight_batch
        w = _weights(weight, start, number, live, head, H, E, R, BH, ACC)[:, :, :, None]
        at = (member * columns + node.to(tl.int64))[:, :, None, None] * (H * D) + inner[None, None]
        there = live[:, :, None, None] & inside[None, None]
        extreme = tl.load(out + at, mask=there, other=0)
        tied = tl.load(tie_grad + at, mask=there, other=0)
        result += tl.sum(tl.where(_reaches(w * x[:, None], extreme, ACC), w * tied, 0.0), axis=1)
    _put(result, grad_value, slots, member, rows, slot_count, row, slot, exists, inner, inside,
         H * D)
