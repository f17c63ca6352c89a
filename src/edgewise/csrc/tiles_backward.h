// Backward pass of the tiles engine. One kernel computes the gradients for a chunk of targets and a
// head of keys at a time. A second one adds up the gradients of sources that several chunks share.
#pragma once

#include "tiles.h"

namespace EW_NS {

struct TilesBackward : Tiles {
  A* key;                  // [kTile, Dp]
  A* value_t;              // [Dv, kTile]
  A* grad;                 // [kBlock, Vp]: gradient of the output.
  A* grads;                // [kBlock, kTile]: gradient of the scores.
  A* grad_key;             // [kTile, Dp]
  A* grad_value;           // [kTile, Vp]
  A* column_sum;           // [kTile]: gradient of values of width 1.
  A* grad_query;           // [group_heads, targets of the chunk, Dp]
  A* delta;                // [group_heads, targets of the chunk]: grad . out minus the gradient of
                           // the log-sum-exp.
  Reads* reads;            // [kBlock / kGroup]
  i64 most_rows = 0;       // Largest number of targets in a chunk, plus a group.
  i64 chunk_at = 0;        // Index of the current chunk.
  bool finite_key = true;  // Whether all keys of the current tile are finite.
  const bool of_scores;    // Whether gradients of the scores are needed, not only of the values.

  EW_COLD explicit TilesBackward(const ew_tiles_args& args)
      : Tiles(args), of_scores(args.grad_query.data || args.grad_key.data || args.bias.grad) {}
  EW_COLD bool prepare() {
    for (i64 c = 0; c < a.chunks; ++c) {
      const i64 count = a.block[a.chunk[c].block_end] - a.block[a.chunk[c].block_begin];
      most_rows = count > most_rows ? count : most_rows;
    }
    most_rows += kGroup;
    return memory.allocate([&](Scratch& to) {
      place_shared(to);
      to.place(key, kTile * Dp), to.place(value_t, Dv * kTile);
      to.place(grad, kBlock * Vp), to.place(grads, kBlock * kTile);
      to.place(grad_key, kTile * Dp), to.place(grad_value, kTile * Vp);
      to.place(column_sum, kTile);
      to.place(grad_query, group_heads * most_rows * Dp);
      to.place(delta, group_heads * most_rows);
      to.place(reads, kBlock / kGroup);
    });
  }

  // Computes the gradients for a chunk of targets and all heads of queries that share the head hk of
  // keys.
  EW_OUTLINE void compute(i64 b, int hk, i64 c) {
    const ew_tiles_chunk& chunk = a.chunk[c];
    chunk_at = c;
    const int first_row = a.block[chunk.block_begin], last_row = a.block[chunk.block_end];
    if (a.grad_query.data) zero(grad_query, group_heads * most_rows * Dp);
    const A* const grad_lse = static_cast<const A*>(a.grad_lse);
    for (int q = 0; q < group_heads; ++q)
      for (int i = first_row, h = hk * group_heads + q; i < last_row; ++i) {
        const i64 node = row_node(i);
        const T *o = at<const T>(a.out, b, node, h, Dv),
                *go = at<const T>(a.grad_out, b, node, h, Dv);
        Vector sum{};
        int d = 0;
        for (; d + kWidth <= Dv; d += kWidth) sum += load<kWidth>(o + d) * load<kWidth>(go + d);
        if (d < Dv) sum += load_some<kWidth>(o + d, Dv - d) * load_some<kWidth>(go + d, Dv - d);
        const A lse = grad_lse ? grad_lse[(b * a.rows + node) * H + h] : A(0);
        delta[q * most_rows + i - first_row] = sum_lanes<kWidth, A>(sum) - lse;
      }
    for (i32 v = chunk.visit_begin; v < chunk.visit_end; ++v) {
      if (v + 1 < chunk.visit_end)
        fetch(b, hk, a.tile[a.visit[v + 1].tile], a.tile[a.visit[v + 1].tile + 1]);
      visit(b, hk, first_row, a.visit[v]);
    }
    for (int q = 0; a.grad_query.data && q < group_heads; ++q)
      for (int i = first_row; i < last_row; ++i)
        narrow_row(at<T>(a.grad_query, b, row_node(i), hk * group_heads + q, D),
                   grad_query + (q * most_rows + i - first_row) * Dp, D, A(a.scale));
  }

  // Computes the gradients of a tile of sources from all blocks of the chunk that attend to it.
  EW_OUTLINE void visit(i64 b, int hk, int first_row, const ew_visit& v) {
    const int first = a.tile[v.tile], last = a.tile[v.tile + 1], columns = last - first;
    portions = 1, portion[0] = {nullptr, first, 0, columns};
    list_sources();
    pack_transposed(key_t, sources(a.key, b, hk, columns, D));
    if (of_scores) pack_transposed(value_t, sources(a.value, b, hk, columns, Dv));
    if (a.grad_query.data) finite_key = pack(key, Dp, sources(a.key, b, hk, columns, D), 1);
    zero(grad_key, i64(kTile) * Dp);
    zero(grad_value, i64(kTile) * Vp);
    zero(column_sum, kTile);
    for (i32 u = v.use_begin; u < v.use_end;) {
      const i32 block = a.piece[a.use[u]].block;
      portions = 0;
      while (u < v.use_end && a.piece[a.use[u]].block == block) {
        const ew_piece& p = a.piece[a.use[u++]];
        const Range own = Range{p.first, p.last}.within(first, last);
        if (own.empty()) continue;
        if (portions == kTile) {  // The array `portion` is full.
          block_of(b, hk, first_row, block, columns);
          portions = 0;
        }
        portion[portions++] = {&p, own.begin, own.begin - first, own.end - own.begin};
      }
      block_of(b, hk, first_row, block, columns);
    }
    const int width = D + Dv;
    for (int j = 0; Dv == 1 && j < columns; ++j) grad_value[j * Vp] += column_sum[j];
    for (int j = 0; j < columns; ++j) {
      A *const of_key = grad_key + j * Dp, *const of_value = grad_value + j * Vp;
      if (v.slot >= 0) {
        const i64 place = (((b * Hk + hk) * a.slots + v.slot) * kTile + j) * width;
        copy(static_cast<A*>(a.summed) + place, of_key, D);
        copy(static_cast<A*>(a.summed) + place + D, of_value, Dv);
        continue;
      }
      const i64 node = column_node(first + j);
      if (a.grad_key.data) narrow_row(at<T>(a.grad_key, b, node, hk, D), of_key, D);
      if (a.grad_value.data) narrow_row(at<T>(a.grad_value, b, node, hk, Dv), of_value, Dv);
    }
  }

  // Adds the contributions of the pairs of a block and a tile to the gradients of both.
  EW_OUTLINE void block_of(i64 b, int hk, int first_row, i32 block, int columns) {
    const int begin = a.block[block], end = a.block[block + 1], n = end - begin;
    Range in{n, 0};  // Range of the rows whose groups have an edge to this tile.
    for (int g = 0; g < n; g += kGroup) {
      Reads& read = reads[g / kGroup];
      look(read, begin + g, n - g < kGroup ? n - g : kGroup, columns);
      if (read.spans) in = {in.begin < g ? in.begin : g, g + kGroup < n ? g + kGroup : n};
    }
    if (in.empty()) return;
    for (int h = hk * group_heads; h < (hk + 1) * group_heads; ++h)
      head_of(b, h, first_row, begin, n, in, columns);
  }

  // Does the work of block_of for one head of queries and the rows in `in`.
  EW_INLINE void head_of(i64 b, int h, int first_row, int begin, int n, Range in, int columns) {
    const int some = begin + in.begin, rest = begin + in.end;
    const bool finite_query =
        pack(query + in.begin * Dp, Dp, targets(a.query, b, h, some, rest, D), A(a.scale));
    const bool finite_grad =
        pack(grad + in.begin * Vp, Vp, targets(a.grad_out, b, h, some, rest, Dv), 1);
    for (int g = in.begin; g < in.end; g += kGroup)
      group(b, h, begin, g, n - g < kGroup ? n - g : kGroup, first_row, reads[g / kGroup]);
    const bool sums = Dv == 1 && finite_grad;
    for (int g = in.begin; sums && g < in.end; g += kGroup)
      add_columns(g, n - g < kGroup ? n - g : kGroup, reads[g / kGroup]);
    if (sums && !a.grad_key.data) return;
    for (int j = 0; j < columns; j += kGroup) {
      const auto reads_some = [&](int g) {
        return reads[g / kGroup].any.template of<kGroup>(j) != 0;
      };
      for (int g = in.begin, run = 0; g < in.end; g = run) {  // Runs of groups with edges.
        for (run = g + kGroup; run < in.end && reads_some(run) == reads_some(g); run += kGroup) {
        }
        if (!reads_some(g)) continue;
        const int depth = (run < in.end ? run : in.end) - g;
        const auto holds = [&](int r, int k) {
          return reads[(g + k) / kGroup].holds((g + k) % kGroup, j + r);
        };
        if (!sums)
          add_product(TileColumns{weights + g * kTile + j}, {grad + g * Vp, Vp},
                      {grad_value + j * Vp, Vp}, Vp, depth, finite_grad, holds);
        if (a.grad_key.data)
          add_product(TileColumns{grads + g * kTile + j}, {query + g * Dp, Dp},
                      {grad_key + j * Dp, Dp}, Dp, depth, finite_query, holds);
      }
    }
  }

  // Adds the rows of a group, times their gradients of width 1, to `column_sum`.
  EW_INLINE void add_columns(int g, int count, const Reads& read) {
    for (int i = 0; i < read.spans; ++i) {
      const Range wide = read.span[i].whole();
      for (int j = wide.begin; j < wide.end; j += kWidth) {
        Vector sum = load<kWidth>(column_sum + j);
        for (int r = g; r < g + count; ++r)
          sum += load<kWidth>(weights + r * kTile + j) * splat<A, kWidth>(grad[r * Vp]);
        store<kWidth>(column_sum + j, sum);
      }
    }
  }

  // Computes the weights after dropout and, if needed, the gradients of the scores for a group of
  // rows; both are 0 for pairs that are not edges. Adds to the gradients of bias and query.
  EW_OUTLINE void group(i64 b, int h, int begin, int g, int count, int first_row,
                        const Reads& read) {
    A *const s = weights + g * kTile, *const ds = grads + g * kTile;
    for (int i = 0; i < read.spans; ++i) {
      const Range wide = read.span[i].whole();
      const int columns = wide.end - wide.begin;
      product<false>(Rows{query + g * Dp, Dp}, {key_t + wide.begin, kTile}, {s + wide.begin, kTile},
                     columns, D);
      if (of_scores)
        product<false>(Rows{grad + g * Vp, Vp}, {value_t + wide.begin, kTile},
                       {ds + wide.begin, kTile}, columns, Dv);
    }
    if (a.bias.data) add_bias(b, h, begin + g, count, read, s);
    const Mask kept = mask(b, h);
    const i64 ahead = h % group_heads * most_rows - first_row;  // Position of row 0 for this head.
    for (int r = 0; r < count; ++r) {
      const int place = begin + g + r;
      const A* const stats = stats_of(b, row_node(place), h);
      const A shift = stats[0], inverse = stats[H], mean = delta[ahead + place];
      if (a.dropout > 0) list_edges(place);
      for (int i = 0; i < read.spans; ++i) {
        const Range wide = read.span[i].whole();
        for (int j = wide.begin; j < wide.end; j += kWidth) {
          A *const to_weight = s + r * kTile + j, *const to_grad = ds + r * kTile + j;
          Vector w = exp_vec<kWidth>(load<kWidth>(to_weight) - shift) * inverse;
          Vector by = of_scores ? load<kWidth>(to_grad) : Vector{}, after = w;
          if (a.dropout > 0) {
            const Vector keep = kept.of(edges + j);
            by *= keep;
            after *= keep;
          }
          by = w * (by - mean);
          if (!read.all[r] && !read.own[r].covers(j)) {
            const auto own = read.own[r].holds(j);
            after = own ? after : Vector{};
            by = own ? by : Vector{};
          }
          store<kWidth>(to_weight, after);
          if (of_scores) store<kWidth>(to_grad, by);
        }
      }
    }
    if (a.bias.grad)
      add_bias_gradient(a.bias.index_bits ? b * a.chunks + chunk_at : b, h, begin + g, count, ds);
    if (!a.grad_query.data) return;
    for (int i = 0; i < read.spans; ++i) {
      const Range own = read.span[i];
      for (int r = count; r < kGroup; ++r)  // These rows belong to the next block.
        zero(ds + r * kTile + own.begin, own.end - own.begin);
      const auto holds = [&](int r, int k) { return r < count && read.holds(r, own.begin + k); };
      add_product(TileRows{ds + own.begin}, {key + own.begin * Dp, Dp},
                  {grad_query + (ahead + begin + g) * Dp, Dp}, Dp, own.end - own.begin, finite_key,
                  holds);
    }
  }
};

// Adds up the gradients of tiles to which several chunks attend, from their slots. If no chunk
// attends to a tile, its gradients are set to 0.
struct TilesMerge : Tiles {
  A* sum;  // [D + Dv]

  EW_COLD explicit TilesMerge(const ew_tiles_args& args) : Tiles(args) {}
  EW_COLD bool prepare() {
    return memory.allocate([&](Scratch& to) { to.place(sum, D + Dv); });
  }
  EW_OUTLINE void compute(i64 b, int hk, i64 m) {
    const ew_merge& merge = a.merge[m];
    const int width = D + Dv;
    const i64 ahead = (b * Hk + hk) * a.slots;
    for (int j = 0, place = a.tile[merge.row]; place < a.tile[merge.row + 1]; ++j, ++place) {
      zero(sum, width);
      for (i64 s = merge.slot_begin; s < merge.slot_end; ++s)
        add_scaled(sum, static_cast<const A*>(a.summed) + ((ahead + s) * kTile + j) * width, 1,
                   width);
      const i64 node = column_node(place);
      if (a.grad_key.data) narrow_row(at<T>(a.grad_key, b, node, hk, D), sum, D);
      if (a.grad_value.data) narrow_row(at<T>(a.grad_value, b, node, hk, Dv), sum + D, Dv);
    }
  }
};

}  // namespace EW_NS
