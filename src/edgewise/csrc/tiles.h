// Attention of targets that read runs of sources, as small matrix products.
//
// A block is up to kBlock targets, with a list of pieces: runs of neighbouring sources, and what
// each target reads of them. A tile is up to kTile of these sources, from one piece or from many.
// Scores of a block and a tile are a product in registers, kGroup targets at once, and only over
// vectors of sources of which one of these kGroup reads some, so that a causal graph costs half of a
// complete one. Softmax runs along the tiles with a running maximum. Nothing as large as the scores
// of all pairs is ever held.
//
// The backward pass takes a chunk of blocks and a head at a time: it visits the tiles of sources
// that the chunk reads, and adds up the gradients of the chunk's queries. Gradients of a tile that
// several chunks read go to slots and are summed in the order of chunks, so that they are the same
// for any number of threads. Where several heads of queries read one of keys, the head is of keys.
#pragma once

#include "dropout.h"
#include "nodes.h"
#include "scratch.h"

namespace EW_NS {

constexpr int kGroup = kVectorBytes == 64 ? 8 : kWidth < 4 ? kWidth : 4;
constexpr int kBlock = EW_BLOCK, kTile = EW_TILE;

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

// c += a b for the terms that `holds(r, k)` names, where b is not finite: 0 times NaN or infinity is
// NaN, which must reach each target that reads it, however small the weight, and no other.
template <class Left, class Holds>
EW_OUTLINE void product_of_some(Left a, Matrix<const A> b, Matrix<A> c, int columns, int depth,
                                Holds holds) {
  for (int r = 0; r < kGroup; ++r)
    for (int k = 0; k < depth; ++k) {
      if (!holds(r, k)) continue;
      const A x = a(r, k);
      for (int j = 0; j < columns; ++j) c.first[r * c.row + j] += x * b.first[k * b.row + j];
    }
}
template <class Left, class Holds>
EW_INLINE void add_product(Left a, Matrix<const A> b, Matrix<A> c, int columns, int depth,
                           bool finite, Holds holds) {
  if (finite) product<true>(a, b, c, columns, depth);
  else product_of_some(a, b, c, columns, depth, holds);
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

// One head of `n` nodes: those that `node` lists, or neighbours.
struct HeadRows {
  const T* first;
  i64 stride;
  int n, width;
  const i32* node;
  const T* row(int i) const { return first + (node ? node[i] : i) * stride; }
};

// to[i, d], with zeros up to whole vectors along d and whole groups along i; whether all is finite
EW_INLINE bool pack(A* to, int row, HeadRows x, A scale) {
  const int whole = x.width / kWidth * kWidth, rest = x.width - whole;
  Vector wrong{};  // x - x is 0, or NaN
  for (int i = 0; i < x.n; ++i, to += row) {
    const T* const from = x.row(i);
    for (int d = 0; d < whole; d += kWidth) {
      const Vector y = load<kWidth>(from + d) * scale;
      store<kWidth>(to + d, y);
      wrong += y - y;
    }
    if (rest) {
      const Vector y = load_some<kWidth>(from + whole, rest) * scale;
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
    const T* from[kWidth];
    for (int r = 0; r < rows; ++r) from[r] = x.row(i + r);
    int d = 0;
    for (; d + kWidth <= x.width; d += kWidth) {
      Vector block[kWidth];
      EW_EACH (r, kWidth) block[r] = r < rows ? load<kWidth>(from[r] + d) : Vector{};
      transpose<kWidth, kWidth>(block);
      EW_EACH (r, kWidth) store<kWidth>(to + i64(d + r) * kTile + i, block[r]);
    }
    for (; d < x.width; ++d)
      for (int r = 0; r < kWidth; ++r)
        to[i64(d) * kTile + i + r] = r < rows ? A(widen(from[r][d])) : A(0);
  }
}

// ---- attention ----

struct Range {
  int begin, end;
  bool empty() const { return begin >= end; }
  Range within(int low, int high) const {
    return {begin > low ? begin : low, end < high ? end : high};
  }
  // of the vectors that hold it
  Range whole() const { return {begin / kWidth * kWidth, up_to(end, kWidth)}; }
};

// A set of the columns of a tile, a bit each.
struct Columns {
  u64 word[kTile / 64];

  static EW_INLINE u64 below(int column) {
    return column <= 0 ? 0 : column >= 64 ? ~u64(0) : (u64(1) << column) - 1;
  }
  static EW_INLINE Columns of_range(Range range) {
    Columns to;
    for (int w = 0; w < kTile / 64; ++w)
      to.word[w] = below(range.end - 64 * w) & ~below(range.begin - 64 * w);
    return to;
  }
  EW_INLINE void add(const Columns& other) {
    for (int w = 0; w < kTile / 64; ++w) word[w] |= other.word[w];
  }
  // those of the `Count` columns from a multiple of it on
  template <int Count> EW_INLINE u64 of(int first) const {
    return word[first / 64] >> first % 64 & (~u64(0) >> (64 - Count));
  }
  EW_INLINE bool covers(int first) const { return of<kWidth>(first) == ~u64(0) >> (64 - kWidth); }
  // which of a vector of columns are in the set
  EW_INLINE auto holds(int first) const {
    using I = typename IntOf<A>::type;
    using Ints = Vec<I, kWidth>;
    Ints bit, all{};
    EW_EACH (i, kWidth) bit[i] = I(1) << i;
    all += I(of<kWidth>(first));
    return (all & bit) != 0;
  }
};

// A part of a tile: `count` sources of a piece from the place `first` on, at `column`.
struct Portion {
  const ew_piece* piece;
  int first, column, count;
};

// What the targets of a group read of a tile: each, all together, and in runs of vectors that are
// not empty (the first and the last trimmed to what is read). A target with `all` reads
// all of these vectors, and its `own` need not be looked at.
struct Reads {
  Columns own[kGroup], any;
  bool all[kGroup];
  int spans;
  Range span[kTile / kWidth];

  // whether a target reads a column of the spans
  EW_INLINE bool holds(int row, int column) const {
    const Columns& of = all[row] ? any : own[row];
    return of.word[column / 64] >> column % 64 & 1;
  }
};

// The bias by offset of a group of rows and a tile that is kept from one block to the next, as of all
// windows of an image it is the same: of these columns, for targets at these places and a head.
struct Kept {
  int head = -1, count = 0;  // of the targets
  Range columns{};
  i32 from[kGroup];
};

// What both passes share, for one head of a batch member at a time.
struct Tiles {
  const ew_tiles_args& a;
  const int H, Hk, group_heads;  // heads, those of keys and values, and queries that read one
  const int D, Dv, Dp, Vp;       // their widths, and these in whole vectors
  Scratch memory;
  // a block of targets, and in [.., width] a tile of sources, or in [width, ..] transposed
  A* query;  // [kBlock, Dp] scaled
  A* key_t;
  A* weights;                   // [kBlock, kTile]: scores, then weights
  u32* edges;                   // [kTile] numbers of a row's edges
  i32* nodes;                   // [kTile] sources of a tile
  i32* places;                  // [kTile] their places, where the bias is by offset
  bool in_row[kTile / kWidth];  // whether those of a vector are in a row, one after the other
  i32* kept_places;             // [kTile] as they were when the bias was kept
  A* kept_bias;                 // [kBlock, kTile]
  Kept kept[kBlock / kGroup];
  Portion* portion;  // [kTile] what a tile is made of
  int portions = 0;
  bool bad_index = false;  // of a table

  explicit Tiles(const ew_tiles_args& args)
      : a(args),
        H(int(args.heads)),
        Hk(int(args.key_heads)),
        group_heads(H / Hk),
        D(int(args.width)),
        Dv(int(args.value_width)),
        Dp(up_to(D, kWidth)),
        Vp(up_to(Dv, kWidth)) {}

  void place_shared(Scratch& to) {
    to.place(query, kBlock * Dp), to.place(key_t, D * kTile), to.place(weights, kBlock * kTile);
    to.place(edges, kTile), to.place(nodes, kTile), to.place(places, kTile);
    to.place(portion, kTile);
    const int tiles = a.offsets.target_place != nullptr;
    to.place(kept_places, tiles * kTile), to.place(kept_bias, tiles * kBlock * kTile);
  }

  template <class P> P* at(const ew_nodes& x, i64 b, i64 node, int h, int width) const {
    return node_row<P>(x, b, node) + i64(h) * width;
  }
  i64 row_node(int place) const { return a.row ? a.row[place] : place; }
  i64 column_node(int place) const { return a.column ? a.column[place] : place; }
  // the targets at the places from begin to end
  HeadRows targets(const ew_nodes& x, i64 b, int h, int begin, int end, int width) const {
    const T* const first = at<const T>(x, b, a.row ? 0 : begin, h, width);
    return {first, x.node_stride, end - begin, width, a.row ? a.row + begin : nullptr};
  }
  // the sources of a tile of `count` columns
  HeadRows sources(const ew_nodes& x, i64 b, int h, int count, int width) const {
    const bool listed = a.column || portions != 1;
    const T* const first = at<const T>(x, b, listed ? 0 : portion[0].first, h, width);
    return {first, x.node_stride, count, width, listed ? nodes : nullptr};
  }
  void list_sources() {
    if (a.offsets.target_place) list_places();
    if (!a.column && portions == 1) return;
    for (int p = 0; p < portions; ++p)
      for (int j = 0; j < portion[p].count; ++j)
        nodes[portion[p].column + j] = i32(column_node(portion[p].first + j));
  }
  EW_OUTLINE void list_places() {
    int end = 0;
    for (int p = 0; p < portions; ++p)
      for (int j = 0; j < portion[p].count; ++j)
        places[end++] = a.offsets.source_place[column_node(portion[p].first + j)];
    for (; end % kWidth; ++end) places[end] = places[end - 1];  // up to whole vectors
    for (int j = 0; j < end; j += kWidth) {
      bool rises = true;
      for (int i = j + 1; i < j + kWidth; ++i) rises &= places[i] == places[i - 1] + 1;
      in_row[j / kWidth] = rises;
    }
    bool same = true;
    for (int j = 0; j < end; ++j) same &= kept_places[j] == places[j], kept_places[j] = places[j];
    for (Kept& group : kept)
      if (!same) group.head = -1;
  }
  // the tile of sources from the place `first` on
  void fetch(i64 b, int h, int first, int last) const {
    for (int place = first; place < last && place < first + kTile; ++place) {
      prefetch(at<const T>(a.key, b, column_node(place), h, D), D);
      prefetch(at<const T>(a.value, b, column_node(place), h, Dv), Dv);
    }
  }
  A* stats_of(i64 b, i64 node, int h) const {  // 1 / sum is H places on
    return static_cast<A*>(a.stats) + (b * a.rows + node) * 2 * H + h;
  }
  // what the row at a place reads of a portion, as columns
  Range reach(const Portion& p, int row) const {
    const ew_reach& x = a.reach[p.piece->reach + row - p.piece->row_begin];
    const Range found = Range{x.begin, x.end}.within(p.first, p.first + p.count);
    return {found.begin - p.first + p.column, found.end - p.first + p.column};
  }
  // `look` where a tile is one portion, as most are: each row reads one run of it, and what lies
  // between the runs of a group is computed too.
  EW_INLINE void look_at_runs(Reads& to, int row, int count) const {
    const Portion& p = portion[0];
    const Range rows = Range{p.piece->row_begin, p.piece->row_end}.within(row, row + count);
    Range run[kGroup] = {}, any{kTile, 0};
    for (int r = rows.begin; r < rows.end; ++r) {
      const Range own = reach(p, r);
      if (own.empty()) continue;
      run[r - row] = own;
      any = {own.begin < any.begin ? own.begin : any.begin, own.end > any.end ? own.end : any.end};
    }
    to.spans = !any.empty();
    if (any.empty()) any = {0, 0};
    to.span[0] = any;
    to.any = Columns::of_range(any);
    const Range wide = any.whole();
    for (int r = 0; r < kGroup; ++r) {
      to.all[r] = run[r].begin <= wide.begin && run[r].end >= wide.end;
      if (!to.all[r]) to.own[r] = Columns::of_range(run[r]);
    }
  }
  // what the `count` rows from the place `row` on read of the first `columns` columns of the tile
  EW_OUTLINE void look(Reads& to, int row, int count, int columns) const {
    if (portions == 1) return look_at_runs(to, row, count);
    for (int r = 0; r < kGroup; ++r) to.own[r] = Columns{};
    for (int i = 0; i < portions; ++i) {
      const Portion& p = portion[i];
      const Range rows = Range{p.piece->row_begin, p.piece->row_end}.within(row, row + count);
      for (int r = rows.begin; r < rows.end; ++r)
        to.own[r - row].add(Columns::of_range(reach(p, r)));
    }
    to.any = to.own[0];
    for (int r = 1; r < count; ++r) to.any.add(to.own[r]);
    to.spans = 0;
    Columns wide{};
    for (int j = 0; j < columns; j += kWidth) {
      const u64 here = to.any.template of<kWidth>(j);
      if (!here) continue;
      wide.word[j / 64] |= ~u64(0) >> (64 - kWidth) << j % 64;
      const int last = j + 64 - __builtin_clzll(here);
      if (to.spans && up_to(to.span[to.spans - 1].end, kWidth) == j)
        to.span[to.spans - 1].end = last;
      else to.span[to.spans++] = {j + __builtin_ctzll(here), last};
    }
    for (int r = 0; r < kGroup; ++r)
      to.all[r] = !__builtin_memcmp(&to.own[r], &wide, sizeof(Columns));
  }

  // Dropout's factors of a vector of edges
  struct Mask : Dropout {
    u32 head;
    EW_INLINE Vector of(const u32* edges) const {
      using Words = Vec<u32, kWidth>;
      Words edge;
      __builtin_memcpy(&edge, edges, sizeof(Words));
      return factor<kWidth>(edge_word<Words>(edge) ^ head);
    }
  };
  Mask mask(i64 b, int h) const {
    return {{a.seed, a.dropout, a.first_edge, b}, Dropout::head_word(u32(h))};
  }
  // Calls f(column, number) for the edges of a row.
  template <class F> EW_INLINE void each_edge(int row, F f) const {
    for (int i = 0; i < portions; ++i) {
      const Portion& p = portion[i];
      if (row < p.piece->row_begin || row >= p.piece->row_end) continue;
      const ew_reach& x = a.reach[p.piece->reach + row - p.piece->row_begin];
      const Range own = reach(p, row);
      const u32 step = u32(p.piece->step);
      const u32 base = u32(x.edge) + step * u32(p.first - x.begin - p.column);
      for (int j = own.begin; j < own.end; ++j) f(j, base + step * u32(j));
    }
  }
  void list_edges(int row) {
    each_edge(row, [&](int j, u32 edge) { edges[j] = edge; });
  }

  // The row of the bias of an edge, or of an offset: its own, or that of its class; -1 if there is
  // no such.
  EW_INLINE i64 bias_row(u32 number) const {
    if (!a.bias.index_bits) return number;
    const i64 row = a.bias.index_bits == 32 ? static_cast<const i32*>(a.bias.index)[number]
                                            : static_cast<const i64*>(a.bias.index)[number];
    return u64(row) < u64(a.bias.rows) ? row : -1;
  }
  // scores += bias, for `count` rows
  EW_OUTLINE void add_bias(i64 b, int h, int row, int count, const Reads& read, A* scores) {
    if (a.offsets.target_place) return add_bias_by_offset(h, row, count, read, scores);
    const int width = a.bias.width;
    const A* const data =
        static_cast<const A*>(a.bias.data) + b * a.bias.batch_stride + (width == 1 ? 0 : h);
    for (int r = 0; r < count; ++r)
      each_edge(row + r, [&](int j, u32 edge) {
        const i64 from = bias_row(edge);
        if (from < 0) bad_index = true;
        else scores[r * kTile + j] += data[from * width];
      });
  }
  // Between the runs too, as each pair of a target and a source has an offset. Where places are not
  // in a row they are looked up one by one, once for the blocks that have the same.
  void add_bias_by_offset(int h, int row, int count, const Reads& read, A* scores) {
    const A* const of_head = static_cast<const A*>(a.offsets.value) + h * a.offsets.count;
    A* const of_group = kept_bias + (scores - weights);
    Kept& group = kept[(scores - weights) / (kGroup * kTile)];
    const Range all = {read.span[0].whole().begin, read.span[read.spans - 1].whole().end};
    bool same = group.head == h && group.count >= count && read.spans == 1 &&
                group.columns.begin <= all.begin && group.columns.end >= all.end;
    i32 from[kGroup];
    for (int r = 0; r < count; ++r) {
      from[r] = a.offsets.target_place[row_node(row + r)];
      same = same && from[r] == group.from[r];
    }
    for (int r = 0; r < count; ++r)
      for (int i = 0; i < read.spans; ++i) {
        const Range wide = read.span[i].whole();
        for (int j = wide.begin; j < wide.end; j += kWidth) {
          A *const to = scores + r * kTile + j, *const here = of_group + r * kTile + j;
          Vector bias;
          if (in_row[j / kWidth]) bias = load<kWidth>(of_head + (places[j] - from[r]));
          else if (same) bias = load<kWidth>(here);
          else {
            EW_EACH (v, kWidth) bias[v] = of_head[places[j + v] - from[r]];
            store<kWidth>(here, bias);
          }
          store<kWidth>(to, load<kWidth>(to) + bias);
        }
      }
    if (same) return;
    group.head = h, group.count = count, group.columns = read.spans == 1 ? all : Range{};
    for (int r = 0; r < count; ++r) group.from[r] = from[r];
  }
  // gradient of the bias += that of the scores; `copy` is the number of this thread's own
  EW_OUTLINE void add_bias_gradient(i64 copy, int h, int row, int count, const A* grads) const {
    A* const to = static_cast<A*>(a.bias.grad) + copy * a.bias.rows * H + h;
    for (int r = 0; r < count; ++r) {
      const i32* const target_place = a.offsets.target_place;
      const i32 from = target_place ? target_place[row_node(row + r)] : 0;
      each_edge(row + r, [&](int j, u32 edge) {
        const i64 into = bias_row(target_place ? u32(places[j] - from) : edge);
        if (into >= 0) to[into * H] += grads[r * kTile + j];
      });
    }
  }
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
        // Where few rows read much there is little to do until the next tile comes from memory.
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

  // the `n` rows from the place `begin` on, and a tile of sources
  void tile(i64 b, int h, int begin, int n, int columns, bool more) {
    list_sources();
    pack_transposed(key_t, sources(a.key, b, h / group_heads, columns, D));
    finite_value = pack(value, Vp, sources(a.value, b, h / group_heads, columns, Dv), 1);
    for (int g = 0; g < n; g += kGroup)
      group(b, h, begin, g, n - g < kGroup ? n - g : kGroup, columns, more);
  }

  // kGroup targets from g on, `count` of them real, and a tile of sources
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
    using Each = Vec<A, kGroup>;  // a number for each row of the group
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
    for (int i = 0; i < read.spans; ++i) {
      const Range own = read.span[i];
      const auto holds = [&](int r, int k) { return r < count && read.holds(r, own.begin + k); };
      add_product(TileRows{s + own.begin}, {value + own.begin * Vp, Vp}, {out + g * Vp, Vp}, Vp,
                  own.end - own.begin, finite_value, holds);
    }
  }
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

struct TilesBackward : Tiles {
  A* key;                  // [kTile, Dp]
  A* value_t;              // [Dv, kTile]
  A* grad;                 // [kBlock, Vp] of the output
  A* grads;                // [kBlock, kTile] of the scores
  A* grad_key;             // [kTile, Dp]
  A* grad_value;           // [kTile, Vp]
  A* grad_query;           // [queries of a key's head, targets of a chunk, Dp]
  A* delta;                // [queries of a key's head, targets of a chunk] grad . out, less the
                           // gradient of the log-sum-exp
  Reads* reads;            // [kBlock / kGroup]
  i64 most_rows = 0;       // of a chunk, in whole groups
  i64 chunk_at = 0;        // the number of the chunk at hand
  bool finite_key = true;  // of the tile at hand

  EW_COLD explicit TilesBackward(const ew_tiles_args& args) : Tiles(args) {}
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
      to.place(grad_query, group_heads * most_rows * Dp);
      to.place(delta, group_heads * most_rows);
      to.place(reads, kBlock / kGroup);
    });
  }

  // A chunk of targets, and the queries of a head of keys.
  EW_OUTLINE void compute(i64 b, int hk, i64 c) {
    const ew_tiles_chunk& chunk = a.chunk[c];
    chunk_at = c;
    const int first_row = a.block[chunk.block_begin], last_row = a.block[chunk.block_end];
    zero(grad_query, group_heads * most_rows * Dp);
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

  // A tile of sources, and all blocks of a chunk that read of it.
  EW_OUTLINE void visit(i64 b, int hk, int first_row, const ew_visit& v) {
    const int first = a.tile[v.tile], last = a.tile[v.tile + 1], columns = last - first;
    portions = 1, portion[0] = {nullptr, first, 0, columns};
    list_sources();
    pack_transposed(key_t, sources(a.key, b, hk, columns, D));
    pack_transposed(value_t, sources(a.value, b, hk, columns, Dv));
    finite_key = pack(key, Dp, sources(a.key, b, hk, columns, D), 1);
    zero(grad_key, i64(kTile) * Dp);
    zero(grad_value, i64(kTile) * Vp);
    for (i32 u = v.use_begin; u < v.use_end;) {
      const i32 block = a.piece[a.use[u]].block;
      portions = 0;
      while (u < v.use_end && a.piece[a.use[u]].block == block) {
        const ew_piece& p = a.piece[a.use[u++]];
        const Range own = Range{p.first, p.last}.within(first, last);
        if (own.empty()) continue;
        if (portions == kTile) {  // as many as there is room for
          block_of(b, hk, first_row, block, columns);
          portions = 0;
        }
        portion[portions++] = {&p, own.begin, own.begin - first, own.end - own.begin};
      }
      block_of(b, hk, first_row, block, columns);
    }
    const int width = D + Dv;
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

  // What a block adds to the gradients of a tile, and a tile to those of a block.
  EW_OUTLINE void block_of(i64 b, int hk, int first_row, i32 block, int columns) {
    const int begin = a.block[block], end = a.block[block + 1], n = end - begin;
    Range in{n, 0};  // the groups that read
    for (int g = 0; g < n; g += kGroup) {
      Reads& read = reads[g / kGroup];
      look(read, begin + g, n - g < kGroup ? n - g : kGroup, columns);
      if (read.spans) in = {in.begin < g ? in.begin : g, g + kGroup < n ? g + kGroup : n};
    }
    if (in.empty()) return;
    for (int h = hk * group_heads; h < (hk + 1) * group_heads; ++h)
      head_of(b, h, first_row, begin, n, in, columns);
  }

  // The same for a head of queries, in the groups that read.
  EW_INLINE void head_of(i64 b, int h, int first_row, int begin, int n, Range in, int columns) {
    const int some = begin + in.begin, rest = begin + in.end;
    const bool finite_query =
        pack(query + in.begin * Dp, Dp, targets(a.query, b, h, some, rest, D), A(a.scale));
    const bool finite_grad =
        pack(grad + in.begin * Vp, Vp, targets(a.grad_out, b, h, some, rest, Dv), 1);
    for (int g = in.begin; g < in.end; g += kGroup)
      group(b, h, begin, g, n - g < kGroup ? n - g : kGroup, first_row, reads[g / kGroup]);
    for (int j = 0; j < columns; j += kGroup) {
      const auto reads_some = [&](int g) {
        return reads[g / kGroup].any.template of<kGroup>(j) != 0;
      };
      for (int g = in.begin, run = 0; g < in.end; g = run) {  // runs of groups that read some
        for (run = g + kGroup; run < in.end && reads_some(run) == reads_some(g); run += kGroup) {
        }
        if (!reads_some(g)) continue;
        const int depth = (run < in.end ? run : in.end) - g;
        const auto holds = [&](int r, int k) {
          return reads[(g + k) / kGroup].holds((g + k) % kGroup, j + r);
        };
        add_product(TileColumns{weights + g * kTile + j}, {grad + g * Vp, Vp},
                    {grad_value + j * Vp, Vp}, Vp, depth, finite_grad, holds);
        add_product(TileColumns{grads + g * kTile + j}, {query + g * Dp, Dp},
                    {grad_key + j * Dp, Dp}, Dp, depth, finite_query, holds);
      }
    }
  }

  // Weights after dropout and gradients of the scores of a group, zero where a row does not read.
  EW_OUTLINE void group(i64 b, int h, int begin, int g, int count, int first_row,
                        const Reads& read) {
    A *const s = weights + g * kTile, *const ds = grads + g * kTile;
    for (int i = 0; i < read.spans; ++i) {
      const Range wide = read.span[i].whole();
      const int columns = wide.end - wide.begin;
      product<false>(Rows{query + g * Dp, Dp}, {key_t + wide.begin, kTile}, {s + wide.begin, kTile},
                     columns, D);
      product<false>(Rows{grad + g * Vp, Vp}, {value_t + wide.begin, kTile},
                     {ds + wide.begin, kTile}, columns, Dv);
    }
    if (a.bias.data) add_bias(b, h, begin + g, count, read, s);
    const Mask kept = mask(b, h);
    const i64 ahead = h % group_heads * most_rows - first_row;  // of this head's rows
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
          Vector by = load<kWidth>(to_grad), after = w;
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
          store<kWidth>(to_grad, by);
        }
      }
    }
    if (a.bias.grad)
      add_bias_gradient(a.bias.index_bits ? b * a.chunks + chunk_at : b, h, begin + g, count, ds);
    for (int i = 0; i < read.spans; ++i) {
      const Range own = read.span[i];
      for (int r = count; r < kGroup; ++r)  // these are in the place of the next block's
        zero(ds + r * kTile + own.begin, own.end - own.begin);
      const auto holds = [&](int r, int k) { return r < count && read.holds(r, own.begin + k); };
      add_product(TileRows{ds + own.begin}, {key + own.begin * Dp, Dp},
                  {grad_query + (ahead + begin + g) * Dp, Dp}, Dp, own.end - own.begin, finite_key,
                  holds);
    }
  }
};

// The gradients of a tile that several chunks read, or none, from their slots.
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
