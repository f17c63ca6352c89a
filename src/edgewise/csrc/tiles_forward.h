// Forward pass of the tiles engine: output and log-sum-exp, for one block of targets at a time.
#pragma once

#include "tiles.h"

namespace EW_NS {

struct TilesForward : Tiles {
  A* value;                  // [kTile, Vp]
  A* scalar;                 // [kTile]: values of width 1.
  A* out;                    // [kBlock, Vp]: sum of exp(score - most) * value.
  A* most;                   // [kBlock]: greatest score so far.
  A* total;                  // [kBlock]: sum of exp(score - most).
  bool finite_value = true;  // Whether all values of the current tile are finite.

  EW_COLD explicit TilesForward(const ew_tiles_args& args) : Tiles(args) {}
  EW_COLD bool prepare() {
    return memory.allocate([&](Scratch& to) {
      place_shared(to);
      to.place(value, kTile * Vp), to.place(out, kBlock * Vp);
      to.place(scalar, kTile);
      to.place(most, kBlock), to.place(total, kBlock);
    });
  }

  // Computes the output of a block for one head. It packs the sources of its pieces into tiles, and
  // divides the sums of values by `total` at the end.
  EW_OUTLINE void compute(i64 b, int h, i64 block) {
    const int begin = a.block[block], end = a.block[block + 1], n = end - begin;
    pack(query, Dp, targets(a.query, b, h, begin, end, D), A(a.scale));
    zero(out, i64(up_to(n, kGroup)) * Vp);
    for (int i = 0; i < kBlock; ++i) most[i] = -kInf<A>, total[i] = 0;
    int filled = 0;
    bool more = false;
    const auto finish = [&] {
      tile(b, h, begin, n, filled, more);
      filled = portions = 0;
      more = true;
    };
    for (i32 i = a.block_piece[block]; i < a.block_piece[block + 1]; ++i) {
      const ew_piece& p = a.piece[i];
      for (int first = p.first; first < p.last;) {
        const int room = kTile - filled, count = p.last - first < room ? p.last - first : room;
        portion[portions++] = {&p, first, filled, count};
        first += count, filled += count;
        // With few rows, the next tile would not be in the cache in time, so prefetch it.
        if (p.row_end - p.row_begin <= kGroup) fetch(b, h / group_heads, first, p.last);
        if (filled == kTile) finish();
      }
    }
    if (filled) finish();
    for (int i = 0; i < n; ++i) {
      const i64 node = row_node(begin + i);
      const A inverse = total[i] == 0 ? A(0) : 1 / total[i];
      narrow_row(at<T>(a.out, b, node, h, Dv), out + i * Vp, Dv, inverse);
      A* const stats = stats_of(b, node, h);
      stats[0] = most[i] == -kInf<A> ? A(0) : most[i];
      stats[H] = inverse;
      if (!a.lse) continue;
      A* const lse = static_cast<A*>(a.lse) + (b * a.rows + node) * H + h;
      *lse = total[i] == 0 ? -kInf<A> : most[i] + log_of(total[i]);
    }
  }

  // Adds a tile of sources to the results of `n` rows from `begin`. `more` is false for the first
  // tile.
  void tile(i64 b, int h, int begin, int n, int columns, bool more) {
    list_sources();
    pack_transposed(key_t, sources(a.key, b, h / group_heads, columns, D));
    finite_value = pack(value, Vp, sources(a.value, b, h / group_heads, columns, Dv), 1);
    for (int j = 0; Dv == 1 && j < kTile; ++j) scalar[j] = j < columns ? value[j * Vp] : A(0);
    for (int g = 0; g < n; g += kGroup)
      group(b, h, begin, g, n - g < kGroup ? n - g : kGroup, columns, more);
  }

  // Does the work of `tile` for a group of rows from row g of the block; only `count` of the kGroup
  // rows exist.
  EW_OUTLINE void group(i64 b, int h, int begin, int g, int count, int columns, bool more) {
    Reads read;
    look(read, begin + g, count, columns);
    if (!read.spans) return;
    A* const s = weights + g * kTile;
    for (int i = 0; i < read.spans; ++i) {
      const Range wide = read.span[i].whole();
      product<false>(Rows{query + g * Dp, Dp}, {key_t + wide.begin, kTile}, {s + wide.begin, kTile},
                     wide.end - wide.begin, D);
    }
    if (a.bias.data) add_bias(b, h, begin + g, count, read, s);
    Vector lanes[kGroup];
    for (int r = 0; r < kGroup; ++r) lanes[r] = splat<A, kWidth>(-kInf<A>);
    for (int i = 0; i < read.spans; ++i) {
      const Range wide = read.span[i].whole();
      for (int r = 0; r < kGroup; ++r) {
        for (int j = wide.begin; j < wide.end; j += kWidth) {
          Vector x = load<kWidth>(s + r * kTile + j);
          if (!read.all[r] && !read.own[r].covers(j)) {
            x = read.own[r].holds(j) ? x : splat<A, kWidth>(-kInf<A>);
            store<kWidth>(s + r * kTile + j, x);
          }
          lanes[r] = x > lanes[r] ? x : lanes[r];
        }
      }
    }
    using Each = Vec<A, kGroup>;  // One number for each row of the group.
    const Each before = load<kGroup>(most + g);
    const Each here = fold_each<Greater, A, kWidth, kGroup>(lanes),
               now = here > before ? here : before;
    const Each shift = now == -kInf<A> ? Each{} : now, fade = exp_vec<kGroup>(before - shift);
    for (int r = 0; r < kGroup; ++r) {
      lanes[r] = Vector{};
      for (int i = 0; i < read.spans; ++i) {
        const Range wide = read.span[i].whole();
        for (int j = wide.begin; j < wide.end; j += kWidth) {
          const Vector w = exp_vec<kWidth>(load<kWidth>(s + r * kTile + j) - shift[r]);
          lanes[r] += w;
          store<kWidth>(s + r * kTile + j, w);
        }
      }
    }
    store<kGroup>(most + g, now);
    const Each sums = fold_each<Plus, A, kWidth, kGroup>(lanes);
    store<kGroup>(total + g, load<kGroup>(total + g) * fade + sums);
    if (a.dropout > 0) drop(b, h, begin + g, count, read, s);
    for (int r = 0; more && r < kGroup; ++r) {
      A* const to = out + (g + r) * Vp;
      for (int d = 0; d < Vp; d += kWidth) store<kWidth>(to + d, load<kWidth>(to + d) * fade[r]);
    }
    if (Dv == 1 && finite_value) return add_scalars(g, read, s);
    for (int i = 0; i < read.spans; ++i) {
      const Range own = read.span[i];
      const auto holds = [&](int r, int k) { return r < count && read.holds(r, own.begin + k); };
      add_product(TileRows{s + own.begin}, {value + own.begin * Vp, Vp}, {out + g * Vp, Vp}, Vp,
                  own.end - own.begin, finite_value, holds);
    }
  }
  // Adds the values of width 1, times the weights of a group of rows, to their results.
  EW_INLINE void add_scalars(int g, const Reads& read, const A* s) {
    Vector lanes[kGroup];
    for (int r = 0; r < kGroup; ++r) {
      lanes[r] = Vector{};
      for (int i = 0; i < read.spans; ++i) {
        const Range wide = read.span[i].whole();
        for (int j = wide.begin; j < wide.end; j += kWidth)
          lanes[r] += load<kWidth>(s + r * kTile + j) * load<kWidth>(scalar + j);
      }
    }
    const auto sums = fold_each<Plus, A, kWidth, kGroup>(lanes);
    for (int r = 0; r < kGroup; ++r) out[(g + r) * Vp] += sums[r];
  }
  // Multiplies the weights of a group of rows by their dropout factors.
  void drop(i64 b, int h, int row, int count, const Reads& read, A* s) {
    const Mask kept = mask(b, h);
    for (int r = 0; r < count; ++r) {
      list_edges(row + r);
      for (int i = 0; i < read.spans; ++i) {
        const Range wide = read.span[i].whole();
        for (int j = wide.begin; j < wide.end; j += kWidth) {
          A* const to = s + r * kTile + j;
          store<kWidth>(to, load<kWidth>(to) * kept.of(edges + j));
        }
      }
    }
  }
};

}  // namespace EW_NS
