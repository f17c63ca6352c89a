// Attention of targets that each read one run of sources, as small matrix products.
//
// A block is up to kBlock targets, a tile up to kTile of the sources that they read. Scores of a
// block and a tile are a product in registers, kGroup targets at once, and only over the sources
// that one of these kGroup reads, so that a causal graph costs half of a complete one. Softmax runs
// along the tiles with a running maximum. Nothing as large as the scores of all pairs is ever held.
//
// A unit is a range of targets and the range of sources that they alone may read: a member of a
// packed batch. The backward pass takes a unit and a head at a time, so that every gradient belongs
// to one thread.
#pragma once

#include "dropout.h"
#include "nodes.h"
#include "scratch.h"

namespace EW_NS {

constexpr int kGroup = kVectorBytes == 64 ? 8 : kWidth < 4 ? kWidth : 4;
constexpr int kBlock = 64, kTile = 128;

// ---- products ----

// The left side of a product: kGroup rows of `depth` numbers.
struct Rows {  // a[r, k]
  const A* first;
  i64 row;
  EW_INLINE A operator()(int r, i64 k) const { return first[r * row + k]; }
};
struct TileRows {  // a[r, k] of a tile
  const A* first;
  EW_INLINE A operator()(int r, i64 k) const { return first[r * kTile + k]; }
};
struct TileColumns {  // a[k, r] of a tile, read across
  const A* first;
  EW_INLINE A operator()(int r, i64 k) const { return first[k * kTile + r]; }
};
// The other two: rows `row` numbers apart.
template <class P> struct Matrix {
  P* first;
  i64 row;
};

// c[r, j] (+)= sum over k of a[r, k] b[k, j] for kGroup rows r and Count vectors of columns j.
template <bool Add, int Count, class Left>
EW_INLINE void product_of(Left a, Matrix<const A> b, Matrix<A> c, int depth) {
  Vector sum[kGroup][Count];
  EW_EACH (r, kGroup)
    EW_EACH (v, Count) sum[r][v] = Add ? load<kWidth>(c.first + r * c.row + v * kWidth) : Vector{};
  for (int k = 0; k < depth; ++k) {
    Vector row[Count];
    EW_EACH (v, Count) row[v] = load<kWidth>(b.first + k * b.row + v * kWidth);
    EW_EACH (r, kGroup) {
      const Vector x = splat<A, kWidth>(a(r, k));
      EW_EACH (v, Count) sum[r][v] += x * row[v];
    }
  }
  EW_EACH (r, kGroup)
    EW_EACH (v, Count) store<kWidth>(c.first + r * c.row + v * kWidth, sum[r][v]);
}
// The same for any number of columns, a multiple of the vector.
template <bool Add, class Left>
EW_INLINE void product(Left a, Matrix<const A> b, Matrix<A> c, int columns, int depth) {
  for (; columns >= 2 * kWidth; columns -= 2 * kWidth) {
    product_of<Add, 2>(a, b, c, depth);
    b.first += 2 * kWidth, c.first += 2 * kWidth;
  }
  if (columns) product_of<Add, 1>(a, b, c, depth);
}

// c += a b without the terms whose a is 0, where b is not finite: what is not read must not matter.
template <class Left>
EW_OUTLINE void product_of_some(Left a, Matrix<const A> b, Matrix<A> c, int columns, int depth) {
  for (int r = 0; r < kGroup; ++r)
    for (int k = 0; k < depth; ++k) {
      const A x = a(r, k);
      for (int j = 0; x != 0 && j < columns; ++j)
        c.first[r * c.row + j] += x * b.first[k * b.row + j];
    }
}
template <class Left>
EW_INLINE void add_product(Left a, Matrix<const A> b, Matrix<A> c, int columns, int depth,
                           bool finite) {
  if (finite) product<true>(a, b, c, columns, depth);
  else product_of_some(a, b, c, columns, depth);
}

// ---- packing ----

template <int L, int Half> constexpr int zip_lane(int lane) {
  return lane / 2 + Half * (L / 2) + (lane % 2) * L;
}
template <int L, class V, int... I> EW_INLINE void zip(V a, V b, V* low, V* high, Lanes<I...>) {
  *low = __builtin_shufflevector(a, b, zip_lane<L, 0>(I)...);
  *high = __builtin_shufflevector(a, b, zip_lane<L, 1>(I)...);
}
// L vectors of L lanes, rows for columns.
template <int L, int Left> EW_INLINE void transpose(Vec<A, L>* x) {
  if constexpr (Left > 1) {
    Vec<A, L> y[L];
    EW_EACH (i, L / 2)
      zip<L>(x[i], x[i + L / 2], &y[2 * i], &y[2 * i + 1], typename MakeLanes<L>::type{});
    EW_EACH (i, L) x[i] = y[i];
    transpose<L, Left / 2>(x);
  }
}

EW_INLINE int up_to(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

// One head of `n` nodes.
struct HeadRows {
  const T* first;
  i64 stride;
  int n, width;
  const T* row(int i) const { return first + i * stride; }
};

// to[i, d], with zeros up to whole vectors along d and whole groups along i; whether all is finite
EW_INLINE bool pack(A* to, int row, HeadRows x, A scale) {
  const int whole = x.width / kWidth * kWidth, rest = x.width - whole;
  Vector wrong{};  // x - x is 0, or NaN
  for (int i = 0; i < x.n; ++i, to += row) {
    for (int d = 0; d < whole; d += kWidth) {
      const Vector y = load<kWidth>(x.row(i) + d) * scale;
      store<kWidth>(to + d, y);
      wrong += y - y;
    }
    if (rest) {
      const Vector y = load_some<kWidth>(x.row(i) + whole, rest) * scale;
      store<kWidth>(to + whole, y);
      wrong += y - y;
    }
  }
  zero(to, i64(up_to(x.n, kGroup) - x.n) * row);
  return sum_lanes<kWidth, A>(wrong) == 0;
}
// to[d, i], with zeros up to whole vectors along i
EW_INLINE void pack_transposed(A* to, HeadRows x) {
  for (int i = 0; i < x.n; i += kWidth) {
    const int rows = x.n - i < kWidth ? x.n - i : kWidth;
    int d = 0;
    for (; d + kWidth <= x.width; d += kWidth) {
      Vector block[kWidth];
      EW_EACH (r, kWidth) block[r] = r < rows ? load<kWidth>(x.row(i + r) + d) : Vector{};
      transpose<kWidth, kWidth>(block);
      EW_EACH (r, kWidth) store<kWidth>(to + i64(d + r) * kTile + i, block[r]);
    }
    for (; d < x.width; ++d)
      for (int r = 0; r < kWidth; ++r)
        to[i64(d) * kTile + i + r] = r < rows ? A(widen(x.row(i + r)[d])) : A(0);
  }
}

// ---- attention ----

struct Range {
  int begin, end;
  bool empty() const { return begin >= end; }
  Range from(int first) const { return {begin - first, end - first}; }
  Range within(int low, int high) const {
    return {begin > low ? begin : low, end < high ? end : high};
  }
  // of the vectors that hold it
  Range whole() const { return {begin / kWidth * kWidth, up_to(end, kWidth)}; }
  bool covers(int first) const { return begin <= first && first + kWidth <= end; }
  // which of the places from `first` on, a vector of them, are in the range
  EW_INLINE auto holds(int first) const {
    using I = typename IntOf<A>::type;
    Vec<I, kWidth> place;
    EW_EACH (i, kWidth) place[i] = I(i);
    return (place >= I(begin - first)) & (place < I(end - first));
  }
};

// Whether no index leads out of its array, and every unit's rows read the unit's sources alone.
static bool fits(const ew_tiles_args& a) {
  if (a.blocks < 0 || a.units < 0 || a.unit[0] || a.unit[1] || a.block[0]) return false;
  if (a.unit[2 * a.units] != a.blocks || a.unit[2 * a.units + 1] != a.columns) return false;
  if (a.block[a.blocks] != a.rows) return false;
  for (i64 u = 0; u < a.units; ++u) {
    const i32 *from = a.unit + 2 * u, *to = from + 2;
    if (from[0] > to[0] || from[1] > to[1] || to[0] > a.blocks || to[1] > a.columns) return false;
    for (i32 k = from[0]; k < to[0]; ++k) {
      const i32 begin = a.block[k], end = a.block[k + 1];
      if (begin < 0 || end < begin || end - begin > kBlock || end > a.rows) return false;
      for (i32 i = begin; i < end; ++i)
        if (a.start[i] < a.stop[i] && (a.start[i] < from[1] || a.stop[i] > to[1])) return false;
    }
  }
  return true;
}

// What both passes share, for one head of a batch member at a time.
struct Tiles {
  const ew_tiles_args& a;
  const int H, D, Dv, Dp, Vp;  // heads, their widths, and these in whole vectors
  Scratch memory;
  // a block of targets, and in [.., width] a tile of sources, or in [width, ..] transposed
  A* query;  // [kBlock, Dp] scaled
  A* key_t;
  A* weights;  // [kBlock, kTile]: scores, then weights
  static constexpr bool bad_index = false;

  explicit Tiles(const ew_tiles_args& args)
      : a(args),
        H(int(args.heads)),
        D(int(args.width)),
        Dv(int(args.value_width)),
        Dp(up_to(D, kWidth)),
        Vp(up_to(Dv, kWidth)) {}

  void place_shared(Scratch& to) {
    to.place(query, kBlock * Dp), to.place(key_t, D * kTile), to.place(weights, kBlock * kTile);
  }

  template <class P> P* at(const ew_nodes& x, i64 b, i64 node, int h, int width) const {
    return node_row<P>(x, b, node) + i64(h) * width;
  }
  HeadRows head(const ew_nodes& x, i64 b, int h, int begin, int end, int width) const {
    return {at<const T>(x, b, begin, h, width), x.node_stride, end - begin, width};
  }
  A* stats_of(i64 b, i64 row, int h) const {  // 1 / sum is H places on
    return static_cast<A*>(a.stats) + (b * a.rows + row) * 2 * H + h;
  }
  // the sources that the rows [begin, end) read, and those that lie between
  Range reach(int begin, int end) const {
    Range all{INT32_MAX, 0};
    for (int i = begin; i < end; ++i) {
      if (a.start[i] >= a.stop[i]) continue;
      if (a.start[i] < all.begin) all.begin = a.start[i];
      if (a.stop[i] > all.end) all.end = a.stop[i];
    }
    return all;
  }
  // what one row reads of the sources from first to last, counted from first
  Range row_reach(int row, int first, int last) const {
    return Range{a.start[row], a.stop[row]}.within(first, last).from(first);
  }

  // Dropout's factors of a vector of edges, by the number of the first
  struct Mask : Dropout {
    u32 head;
    EW_INLINE Vector of(u32 edge) const {
      using Words = Vec<u32, kWidth>;
      Words place;
      EW_EACH (i, kWidth) place[i] = u32(i);
      return factor<kWidth>(edge_word<Words>(place + edge) ^ head);
    }
  };
  Mask mask(i64 b, int h) const {
    return {{a.seed, a.dropout, a.first_edge, b}, Dropout::head_word(u32(h))};
  }
  // the number of the edge from source j to target i, counted on where there is none
  u32 edge(int i, int j) const { return u32(a.edge[i]) + u32(j - a.start[i]); }
};

struct TilesForward : Tiles {
  A* value;                  // [kTile, Vp]
  A* out;                    // [kBlock, Vp] not normalised yet
  A* most;                   // [kBlock] greatest score so far
  A* total;                  // [kBlock] sum of exp(score - most)
  bool finite_value = true;  // of the tile at hand

  EW_COLD explicit TilesForward(const ew_tiles_args& args) : Tiles(args) {}
  EW_COLD bool prepare() {
    return memory.allocate([&](Scratch& to) {
      place_shared(to);
      to.place(value, kTile * Vp), to.place(out, kBlock * Vp);
      to.place(most, kBlock), to.place(total, kBlock);
    });
  }

  EW_OUTLINE void compute(i64 b, int h, i64 block) {
    const int begin = a.block[block], end = a.block[block + 1], n = end - begin;
    const Range all = reach(begin, end);
    pack(query, Dp, head(a.query, b, h, begin, end, D), A(a.scale));
    zero(out, i64(up_to(n, kGroup)) * Vp);
    for (int i = 0; i < kBlock; ++i) most[i] = -kInf<A>, total[i] = 0;
    for (int first = all.begin; first < all.end; first += kTile) {
      const int last = first + kTile < all.end ? first + kTile : all.end;
      pack_transposed(key_t, head(a.key, b, h, first, last, D));
      finite_value = pack(value, Vp, head(a.value, b, h, first, last, Dv), 1);
      for (int g = 0; g < n; g += kGroup)
        group(b, h, begin, g, n - g < kGroup ? n - g : kGroup, first, last, first > all.begin);
    }
    for (int i = 0; i < n; ++i) {
      const A inverse = total[i] == 0 ? A(0) : 1 / total[i];
      narrow_row(at<T>(a.out, b, begin + i, h, Dv), out + i * Vp, Dv, inverse);
      A* const stats = stats_of(b, begin + i, h);
      stats[0] = most[i] == -kInf<A> ? A(0) : most[i];
      stats[H] = inverse;
      if (!a.lse) continue;
      A* const lse = static_cast<A*>(a.lse) + (b * a.rows + begin + i) * H + h;
      *lse = total[i] == 0 ? -kInf<A> : most[i] + log_of(total[i]);
    }
  }

  // kGroup targets from g on, `count` of them real, and a tile of sources
  EW_OUTLINE void group(i64 b, int h, int begin, int g, int count, int first, int last, bool more) {
    const Range read = reach(begin + g, begin + g + count).within(first, last).from(first);
    const Range wide = read.whole();
    if (read.empty()) return;
    A* const s = weights + g * kTile;
    product<false>(Rows{query + g * Dp, Dp}, {key_t + wide.begin, kTile}, {s + wide.begin, kTile},
                   wide.end - wide.begin, D);
    Vector lanes[kGroup];
    for (int r = 0; r < kGroup; ++r) {
      const Range own = r < count ? row_reach(begin + g + r, first, last) : Range{0, 0};
      lanes[r] = splat<A, kWidth>(-kInf<A>);
      for (int j = wide.begin; j < wide.end; j += kWidth) {
        Vector x = load<kWidth>(s + r * kTile + j);
        if (!own.covers(j)) {
          x = own.holds(j) ? x : splat<A, kWidth>(-kInf<A>);
          store<kWidth>(s + r * kTile + j, x);
        }
        lanes[r] = x > lanes[r] ? x : lanes[r];
      }
    }
    using Each = Vec<A, kGroup>;  // a number for each row of the group
    const Each before = load<kGroup>(most + g);
    const Each here = fold_each<Greater, A, kWidth, kGroup>(lanes),
               now = here > before ? here : before;
    const Each shift = now == -kInf<A> ? Each{} : now, fade = exp_vec<kGroup>(before - shift);
    for (int r = 0; r < kGroup; ++r) {
      lanes[r] = Vector{};
      for (int j = wide.begin; j < wide.end; j += kWidth) {
        const Vector w = exp_vec<kWidth>(load<kWidth>(s + r * kTile + j) - shift[r]);
        lanes[r] += w;
        store<kWidth>(s + r * kTile + j, w);
      }
    }
    store<kGroup>(most + g, now);
    const Each sums = fold_each<Plus, A, kWidth, kGroup>(lanes);
    store<kGroup>(total + g, load<kGroup>(total + g) * fade + sums);
    if (a.dropout > 0) drop(b, h, begin + g, count, first, wide, s);
    for (int r = 0; more && r < kGroup; ++r) {
      A* const to = out + (g + r) * Vp;
      for (int d = 0; d < Vp; d += kWidth) store<kWidth>(to + d, load<kWidth>(to + d) * fade[r]);
    }
    add_product(TileRows{s + read.begin}, {value + read.begin * Vp, Vp}, {out + g * Vp, Vp}, Vp,
                read.end - read.begin, finite_value);
  }
  void drop(i64 b, int h, int row, int count, int first, Range wide, A* s) const {
    const Mask kept = mask(b, h);
    for (int r = 0; r < count; ++r)
      for (int j = wide.begin; j < wide.end; j += kWidth) {
        A* const to = s + r * kTile + j;
        store<kWidth>(to, load<kWidth>(to) * kept.of(edge(row + r, first + j)));
      }
  }
};

struct TilesBackward : Tiles {
  A* key;                  // [kTile, Dp]
  A* value_t;              // [Dv, kTile]
  A* grad;                 // [kBlock, Vp] of the output
  A* grads;                // [kBlock, kTile] of the scores
  A* grad_key;             // [kTile, Dp]
  A* grad_value;           // [kTile, Vp]
  A* grad_query;           // [targets of a unit, Dp]
  A* delta;                // [targets of a unit] grad . out, less the gradient of the log-sum-exp
  bool finite_key = true;  // of the tile at hand

  EW_COLD explicit TilesBackward(const ew_tiles_args& args) : Tiles(args) {}
  EW_COLD bool prepare() {
    i64 rows = 0;
    for (i64 u = 0; u < a.units; ++u) {
      const i64 count = a.block[a.unit[2 * u + 2]] - a.block[a.unit[2 * u]];
      rows = count > rows ? count : rows;
    }
    return memory.allocate([&](Scratch& to) {
      place_shared(to);
      to.place(key, kTile * Dp), to.place(value_t, Dv * kTile);
      to.place(grad, kBlock * Vp), to.place(grads, kBlock * kTile);
      to.place(grad_key, kTile * Dp), to.place(grad_value, kTile * Vp);
      to.place(grad_query, (rows + kGroup) * Dp), to.place(delta, rows);
    });
  }

  EW_OUTLINE void compute(i64 b, int h, i64 u) {
    const i64 block_begin = a.unit[2 * u], block_end = a.unit[2 * u + 2];
    const int first_row = a.block[block_begin], last_row = a.block[block_end];
    const int first_column = a.unit[2 * u + 1], last_column = a.unit[2 * u + 3];
    zero(grad_query, i64(last_row - first_row + kGroup) * Dp);
    const A* const grad_lse = static_cast<const A*>(a.grad_lse);
    for (int i = first_row; i < last_row; ++i) {
      const T *o = at<const T>(a.out, b, i, h, Dv), *go = at<const T>(a.grad_out, b, i, h, Dv);
      Vector sum{};
      int d = 0;
      for (; d + kWidth <= Dv; d += kWidth) sum += load<kWidth>(o + d) * load<kWidth>(go + d);
      if (d < Dv) sum += load_some<kWidth>(o + d, Dv - d) * load_some<kWidth>(go + d, Dv - d);
      const A lse = grad_lse ? grad_lse[(b * a.rows + i) * H + h] : A(0);
      delta[i - first_row] = sum_lanes<kWidth, A>(sum) - lse;
    }
    for (int first = first_column; first < last_column; first += kTile) {
      const int last = first + kTile < last_column ? first + kTile : last_column;
      tile(b, h, block_begin, block_end, first, last);
    }
    for (int i = first_row; a.grad_query.data && i < last_row; ++i)
      narrow_row(at<T>(a.grad_query, b, i, h, D), grad_query + i64(i - first_row) * Dp, D,
                 A(a.scale));
  }

  EW_OUTLINE void tile(i64 b, int h, i64 block_begin, i64 block_end, int first, int last) {
    const int first_row = a.block[block_begin];
    zero(grad_key, i64(kTile) * Dp);
    zero(grad_value, i64(kTile) * Vp);
    bool packed = false;
    for (i64 block = block_begin; block < block_end; ++block) {
      const int begin = a.block[block], end = a.block[block + 1], n = end - begin;
      if (reach(begin, end).within(first, last).empty()) continue;
      if (!packed) {
        pack_transposed(key_t, head(a.key, b, h, first, last, D));
        pack_transposed(value_t, head(a.value, b, h, first, last, Dv));
        finite_key = pack(key, Dp, head(a.key, b, h, first, last, D), 1);
        packed = true;
      }
      const bool finite_query = pack(query, Dp, head(a.query, b, h, begin, end, D), A(a.scale));
      const bool finite_grad = pack(grad, Vp, head(a.grad_out, b, h, begin, end, Dv), 1);
      Range read[kBlock / kGroup];
      for (int g = 0; g < n; g += kGroup) {
        const int count = n - g < kGroup ? n - g : kGroup;
        read[g / kGroup] = group(b, h, begin, g, count, first, last, first_row);
      }
      for (int j = 0; j < last - first; j += kGroup) {
        const auto reads = [&](int g) {
          return read[g / kGroup].begin < j + kGroup && read[g / kGroup].end > j;
        };
        for (int g = 0, run = 0; g < n;
             g = run) {  // runs of groups that read some of these sources
          for (run = g + kGroup; run < n && reads(run) == reads(g); run += kGroup) {
          }
          if (!reads(g)) continue;
          const int depth = (run < n ? run : n) - g;
          add_product(TileColumns{weights + g * kTile + j}, {grad + g * Vp, Vp},
                      {grad_value + j * Vp, Vp}, Vp, depth, finite_grad);
          add_product(TileColumns{grads + g * kTile + j}, {query + g * Dp, Dp},
                      {grad_key + j * Dp, Dp}, Dp, depth, finite_query);
        }
      }
    }
    for (int j = first; j < last; ++j) {
      if (a.grad_key.data)
        narrow_row(at<T>(a.grad_key, b, j, h, D), grad_key + (j - first) * Dp, D);
      if (a.grad_value.data)
        narrow_row(at<T>(a.grad_value, b, j, h, Dv), grad_value + (j - first) * Vp, Dv);
    }
  }

  // Weights after dropout and gradients of the scores of a group, zero where a row does not read;
  // the sources read.
  EW_OUTLINE Range group(i64 b, int h, int begin, int g, int count, int first, int last,
                         int first_row) {
    const Range read = reach(begin + g, begin + g + count).within(first, last).from(first);
    const Range wide = read.whole();
    if (read.empty()) return {0, 0};
    A *const s = weights + g * kTile, *const ds = grads + g * kTile;
    const int columns = wide.end - wide.begin;
    product<false>(Rows{query + g * Dp, Dp}, {key_t + wide.begin, kTile}, {s + wide.begin, kTile},
                   columns, D);
    product<false>(Rows{grad + g * Vp, Vp}, {value_t + wide.begin, kTile}, {ds + wide.begin, kTile},
                   columns, Dv);
    const Mask kept = mask(b, h);
    for (int r = 0; r < count; ++r) {
      const int i = begin + g + r;
      const Range own = row_reach(i, first, last);
      const A* const stats = stats_of(b, i, h);
      const A shift = stats[0], inverse = stats[H], mean = delta[i - first_row];
      for (int j = wide.begin; j < wide.end; j += kWidth) {
        A *const to_weight = s + r * kTile + j, *const to_grad = ds + r * kTile + j;
        Vector w = exp_vec<kWidth>(load<kWidth>(to_weight) - shift) * inverse;
        Vector by = load<kWidth>(to_grad), after = w;
        if (a.dropout > 0) {
          const Vector keep = kept.of(edge(i, first + j));
          by *= keep;
          after *= keep;
        }
        by = w * (by - mean);
        if (!own.covers(j)) {
          const auto reads = own.holds(j);
          after = reads ? after : Vector{};
          by = reads ? by : Vector{};
        }
        store<kWidth>(to_weight, after);
        store<kWidth>(to_grad, by);
      }
    }
    add_product(TileRows{ds + read.begin}, {key + read.begin * Dp, Dp},
                {grad_query + i64(begin - first_row + g) * Dp, Dp}, Dp, read.end - read.begin,
                finite_key);
    return read;
  }
};

}  // namespace EW_NS
