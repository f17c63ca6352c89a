// Attention by small matrix products, if each target attends to a few ranges of sources ("runs").
//
//   tiles_products.h  matrix products in registers, and a list of short names
//   tiles_packing.h   copies of nodes into dense arrays
//   tiles_forward.h   output and log-sum-exp, block by block
//   tiles_backward.h  gradients, chunk by chunk
//
// This header contains what both passes share: which pairs of a tile are edges, and their biases.
//
// A block consists of up to kBlock targets and has a list of pieces. A piece is an interval of
// sources, together with the part of it to which each target of the block attends. A tile consists
// of up to kTile of these sources, from one or several pieces. The scores of a block and a tile are
// computed by a matrix product in registers, for kGroup targets at a time. A vector of sources is
// skipped if none of these targets attends to it, so a causal graph costs half as much as a complete
// one. As in FlashAttention, the softmax keeps a running maximum from tile to tile, and the scores
// of all pairs are never in memory at the same time.
//
// The backward pass computes a chunk of blocks and a head of keys at a time, together with all heads
// of queries that share this head of keys. It visits the tiles of sources to which the chunk attends
// and adds up the gradients of the chunk's queries. If several chunks attend to a tile, each writes
// its gradients of the tile to a slot. The slots are added in the order of the chunks, so results
// are the same for any number of threads.
#pragma once

#include "dropout.h"
#include "scratch.h"
#include "tiles_packing.h"

namespace EW_NS {

// Range of columns of a tile, or of rows, from begin to end - 1.
struct Range {
  int begin, end;
  bool empty() const { return begin >= end; }
  Range within(int low, int high) const {
    return {begin > low ? begin : low, end < high ? end : high};
  }
  // Returns the smallest range of whole SIMD vectors that contains this range.
  Range whole() const { return {begin / kWidth * kWidth, up_to(end, kWidth)}; }
};

// Set of columns of a tile, as a bit mask.
struct Columns {
  u64 word[kTile / 64];

  // Returns a word in which the bits of the columns 0 to column - 1 are set.
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
  // Returns the bits of `Count` columns from `first`, which is a multiple of Count.
  template <int Count> EW_INLINE u64 of(int first) const {
    return word[first / 64] >> first % 64 & (~u64(0) >> (64 - Count));
  }
  // Returns whether the set contains all columns of the vector at `first`.
  EW_INLINE bool covers(int first) const { return of<kWidth>(first) == ~u64(0) >> (64 - kWidth); }
  // Returns for each column of the vector at `first` whether the set contains it.
  EW_INLINE auto holds(int first) const {
    using I = typename IntOf<A>::type;
    using Ints = Vec<I, kWidth>;
    Ints bit, all{};
    EW_EACH (i, kWidth) bit[i] = I(1) << i;
    all += I(of<kWidth>(first));
    return (all & bit) != 0;
  }
};

// Part of a tile: `count` sources of a piece. `first` is the place of the first of them, and
// `column` is its column in the tile.
struct Portion {
  const ew_piece* piece;
  int first, column, count;
};

// Columns of a tile to which the targets of a group attend. `own` has the columns of each target and
// `any` their union. The spans are ranges of consecutive vectors with such columns, trimmed to the
// first and last of these columns. A target with `all` attends to every column of the spans, and its
// `own` is not used.
struct Reads {
  Columns own[kGroup], any;
  bool all[kGroup];
  int spans;
  Range span[kTile / kWidth];

  // Returns whether a target of the group attends to a column of the spans.
  EW_INLINE bool holds(int row, int column) const {
    const Columns& of = all[row] ? any : own[row];
    return of.word[column / 64] >> column % 64 & 1;
  }
};

// Description of a bias by offset that was gathered for a group of rows. It is kept from one block
// to the next, because for example all windows of an image have the same bias. It is valid for these
// columns, this head and `count` targets with these places.
struct Kept {
  int head = -1, count = 0;
  Range columns{};
  i32 from[kGroup];
};

// Base class of the kernels. Each thread has an object, which computes one head of one example of
// the batch at a time.
struct Tiles {
  const ew_tiles_args& a;
  const int H, Hk, group_heads;  // Heads of queries, heads of keys, and H / Hk.
  const int D, Dv, Dp, Vp;       // Width of a head of keys and of values, and both padded.
  Scratch memory;
  A* query;                     // [kBlock, Dp]: queries times the scale of the score.
  A* key_t;                     // [D, kTile]: transposed keys.
  A* weights;                   // [kBlock, kTile]: scores, later weights.
  u32* edges;                   // [kTile]: indices of the edges of a row.
  i32* nodes;                   // [kTile]: sources of the tile.
  i32* places;                  // [kTile]: places of these sources in `offsets`.
  bool in_row[kTile / kWidth];  // Whether the places of a vector of sources are consecutive.
  i32* kept_places;             // [kTile]: places for which the kept bias is valid.
  A* kept_bias;                 // [kBlock, kTile]
  Kept kept[kBlock / kGroup];
  Portion* portion;  // [kTile]: parts of the tile.
  int portions = 0;
  bool bad_index = false;  // Whether an index of a table was out of range.

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

  // Returns the address of a head of a node.
  template <class P> P* at(const ew_nodes& x, i64 b, i64 node, int h, int width) const {
    return node_row<P>(x, b, node) + i64(h) * width;
  }
  // Return the target or the source at a place.
  i64 row_node(int place) const { return a.row ? a.row[place] : place; }
  i64 column_node(int place) const { return a.column ? a.column[place] : place; }
  // Returns the targets at the places from begin to end - 1.
  HeadRows targets(const ew_nodes& x, i64 b, int h, int begin, int end, int width) const {
    const T* const first = at<const T>(x, b, a.row ? 0 : begin, h, width);
    return {first, x.node_stride, end - begin, width, a.row ? a.row + begin : nullptr};
  }
  // Returns the sources in the first `count` columns of the current tile.
  HeadRows sources(const ew_nodes& x, i64 b, int h, int count, int width) const {
    const bool listed = a.column || portions != 1;
    const T* const first = at<const T>(x, b, listed ? 0 : portion[0].first, h, width);
    return {first, x.node_stride, count, width, listed ? nodes : nullptr};
  }
  // Fills `nodes`, and if the bias is by offset also `places`.
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
    for (; end % kWidth; ++end) places[end] = places[end - 1];  // Fill the last vector.
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
  // Prefetches the tile of sources at the places from first to last - 1.
  void fetch(i64 b, int h, int first, int last) const {
    for (int place = first; place < last && place < first + kTile; ++place) {
      prefetch(at<const T>(a.key, b, column_node(place), h, D), D);
      prefetch(at<const T>(a.value, b, column_node(place), h, Dv), Dv);
    }
  }
  // Returns the address of the greatest score of a target; 1 / sum follows H numbers later.
  A* stats_of(i64 b, i64 node, int h) const {
    return static_cast<A*>(a.stats) + (b * a.rows + node) * 2 * H + h;
  }
  // Returns the columns of a portion to which a row attends.
  Range reach(const Portion& p, int row) const {
    const ew_reach& x = a.reach[p.piece->reach + row - p.piece->row_begin];
    const Range found = Range{x.begin, x.end}.within(p.first, p.first + p.count);
    return {found.begin - p.first + p.column, found.end - p.first + p.column};
  }
  // Fast path of `look` for a tile with one portion, which is the usual case. Each row attends to
  // one range of columns, and the union of the group's ranges is computed as one span.
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
  // Finds to which of the first `columns` columns of the tile each of `count` rows attends.
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

  // Dropout mask of one head.
  struct Mask : Dropout {
    u32 head;
    // Returns the dropout factors of a vector of edges with these indices.
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
  // Calls f(column, index of the edge) for each edge of a row in the tile.
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

  // Returns the row of the bias for an edge or offset: this number itself, or its class if the bias
  // is a table. Returns -1 if the table has no such class.
  EW_INLINE i64 bias_row(u32 number) const {
    if (!a.bias.index_bits) return number;
    const i64 row = a.bias.index_bits == 32 ? static_cast<const i32*>(a.bias.index)[number]
                                            : static_cast<const i64*>(a.bias.index)[number];
    return u64(row) < u64(a.bias.rows) ? row : -1;
  }
  // Adds the bias to the scores of `count` rows from `row`.
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
  // Adds a bias by offset to the scores of all pairs in the spans, because a pair has an offset even
  // if it is not an edge. If the places of a vector are not consecutive, the bias is gathered number
  // by number, and kept for the following blocks with the same places.
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
  // Adds the gradient of the scores to the gradient of the bias, which has several copies.
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

}  // namespace EW_NS
