// Attention where each target attends to runs of sources, as small matrix products.
//
//   tiles_products.h  products in registers; has the glossary of short names
//   tiles_packing.h   copies of nodes into dense arrays
//   tiles_forward.h   output and log-sum-exp, block by block
//   tiles_backward.h  gradients, chunk by chunk
//
// This header has what both passes share: which pairs of a tile are edges, and their biases.
//
// A block is up to kBlock targets with a list of pieces. A piece is an interval of sources, and for
// each target of the block the part of that interval it attends to. A tile is up to kTile of these
// sources, from one piece or several. The scores of a block and a tile are a product in registers,
// kGroup targets at a time. Vectors of sources that none of these targets attends to are skipped, so
// a causal graph costs half as much as a complete one. The softmax keeps a running maximum from tile
// to tile, as in FlashAttention. The scores of all pairs are never in memory together.
//
// The backward pass handles a chunk of blocks and a head of keys at a time. It visits the tiles of
// sources that the chunk attends to and sums the gradients of the chunk's queries. If several chunks
// attend to a tile, its gradients go to slots, which are summed in the order of the chunks: results
// are the same for any number of threads. All heads of queries that share a head of keys are handled
// together.
#pragma once

#include "dropout.h"
#include "scratch.h"
#include "tiles_packing.h"

namespace EW_NS {

// Columns of a tile, or rows, from begin to before end.
struct Range {
  int begin, end;
  bool empty() const { return begin >= end; }
  Range within(int low, int high) const {
    return {begin > low ? begin : low, end < high ? end : high};
  }
  // The smallest range of whole vectors that contains this one.
  Range whole() const { return {begin / kWidth * kWidth, up_to(end, kWidth)}; }
};

// A set of columns of a tile, as a bit mask.
struct Columns {
  u64 word[kTile / 64];

  // Bits of the columns below `column`, of 64.
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
  // The bits of `Count` columns from `first`, a multiple of Count.
  template <int Count> EW_INLINE u64 of(int first) const {
    return word[first / 64] >> first % 64 & (~u64(0) >> (64 - Count));
  }
  // Whether the set contains every column of the vector at `first`.
  EW_INLINE bool covers(int first) const { return of<kWidth>(first) == ~u64(0) >> (64 - kWidth); }
  // For each column of the vector at `first`, whether the set contains it.
  EW_INLINE auto holds(int first) const {
    using I = typename IntOf<A>::type;
    using Ints = Vec<I, kWidth>;
    Ints bit, all{};
    EW_EACH (i, kWidth) bit[i] = I(1) << i;
    all += I(of<kWidth>(first));
    return (all & bit) != 0;
  }
};

// A part of a tile: `count` sources of a piece, from the place `first`, in the columns from `column`.
struct Portion {
  const ew_piece* piece;
  int first, column, count;
};

// The columns of a tile that the targets of a group attend to: each target, all of them together,
// and as spans of consecutive non-empty vectors (trimmed to the first and last column in use). A
// target with `all` attends to every column of these spans; its `own` is then not needed.
struct Reads {
  Columns own[kGroup], any;
  bool all[kGroup];
  int spans;
  Range span[kTile / kWidth];

  // Whether a target attends to a column of the spans.
  EW_INLINE bool holds(int row, int column) const {
    const Columns& of = all[row] ? any : own[row];
    return of.word[column / 64] >> column % 64 & 1;
  }
};

// Bias by offset of a group of rows, kept from one block to the next: all windows of an image have
// the same. It holds for these columns, this head and `count` targets with these places.
struct Kept {
  int head = -1, count = 0;
  Range columns{};
  i32 from[kGroup];
};

// Base class of the stages. Each thread has its own; it handles one head of a batch member at a time.
struct Tiles {
  const ew_tiles_args& a;
  const int H, Hk, group_heads;  // heads of queries, of keys, and queries for each head of keys
  const int D, Dv, Dp, Vp;       // width of a head of keys, of values, and both padded
  Scratch memory;
  A* query;                     // [kBlock, Dp] scaled
  A* key_t;                     // [D, kTile]
  A* weights;                   // [kBlock, kTile] scores, then weights
  u32* edges;                   // [kTile] edge numbers of a row
  i32* nodes;                   // [kTile] sources of the tile
  i32* places;                  // [kTile] places of these sources in `offsets`, for such a bias
  bool in_row[kTile / kWidth];  // whether the places of a vector are consecutive
  i32* kept_places;             // [kTile] places that the kept bias is for
  A* kept_bias;                 // [kBlock, kTile]
  Kept kept[kBlock / kGroup];
  Portion* portion;  // [kTile] parts of the tile
  int portions = 0;
  bool bad_index = false;  // an index of a table was out of range

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

  // Address of a head of a node.
  template <class P> P* at(const ew_nodes& x, i64 b, i64 node, int h, int width) const {
    return node_row<P>(x, b, node) + i64(h) * width;
  }
  // The target or the source at a place.
  i64 row_node(int place) const { return a.row ? a.row[place] : place; }
  i64 column_node(int place) const { return a.column ? a.column[place] : place; }
  // The targets at the places from begin to before end.
  HeadRows targets(const ew_nodes& x, i64 b, int h, int begin, int end, int width) const {
    const T* const first = at<const T>(x, b, a.row ? 0 : begin, h, width);
    return {first, x.node_stride, end - begin, width, a.row ? a.row + begin : nullptr};
  }
  // The sources of the current tile, `count` columns.
  HeadRows sources(const ew_nodes& x, i64 b, int h, int count, int width) const {
    const bool listed = a.column || portions != 1;
    const T* const first = at<const T>(x, b, listed ? 0 : portion[0].first, h, width);
    return {first, x.node_stride, count, width, listed ? nodes : nullptr};
  }
  // Fills `nodes`, and `places` if the bias is by offset.
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
    for (; end % kWidth; ++end) places[end] = places[end - 1];  // fill the last vector
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
  // Prefetches a tile of sources from the place `first`.
  void fetch(i64 b, int h, int first, int last) const {
    for (int place = first; place < last && place < first + kTile; ++place) {
      prefetch(at<const T>(a.key, b, column_node(place), h, D), D);
      prefetch(at<const T>(a.value, b, column_node(place), h, Dv), Dv);
    }
  }
  // Address of the greatest score; 1 / sum is H numbers further.
  A* stats_of(i64 b, i64 node, int h) const {
    return static_cast<A*>(a.stats) + (b * a.rows + node) * 2 * H + h;
  }
  // The columns of a portion that a row attends to.
  Range reach(const Portion& p, int row) const {
    const ew_reach& x = a.reach[p.piece->reach + row - p.piece->row_begin];
    const Range found = Range{x.begin, x.end}.within(p.first, p.first + p.count);
    return {found.begin - p.first + p.column, found.end - p.first + p.column};
  }
  // Fast path of `look` for a tile with one portion, the usual case: each row has one run of columns,
  // and all columns from the first to the last of the group are computed.
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
  // Finds which of the first `columns` columns of the tile are edges of the `count` rows from `row`.
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

  // Dropout factors for one head.
  struct Mask : Dropout {
    u32 head;
    // Factors of the vector of edges with these numbers.
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
  // Calls f(column, edge number) for each edge of a row in the tile.
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

  // Index into the bias of an edge (or of an offset): its own number, or its class if the bias is a
  // table; -1 if the table has no such class.
  EW_INLINE i64 bias_row(u32 number) const {
    if (!a.bias.index_bits) return number;
    const i64 row = a.bias.index_bits == 32 ? static_cast<const i32*>(a.bias.index)[number]
                                            : static_cast<const i64*>(a.bias.index)[number];
    return u64(row) < u64(a.bias.rows) ? row : -1;
  }
  // scores += bias for `count` rows from `row`.
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
  // The same for a bias by offset, for all pairs of the spans: every pair has an offset, edge or not.
  // If the places of a vector are not consecutive, the bias is gathered number by number and kept for
  // the following blocks with the same places.
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
  // Adds the gradient of the scores to copy number `copy` of the gradient of the bias.
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
