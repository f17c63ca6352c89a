// Attention over the edges of each row of a graph: the base class of its stages.
//
//   attend_forward.h           over targets: scores, softmax, weighted sum of values
//   attend_backward_targets.h  over targets: gradients of query, bias, gain, edge vectors and score
//                              weight
//   attend_backward_sources.h  over sources (the transposed graph): gradients of key and value
//
// A stage computes one row at a time, with scores and weights in small buffers [edges, padded
// heads]. There is no array for all edges. The backward stages recompute the weights from two saved
// numbers, the greatest score and the sum of exp(score - greatest). The log-sum-exp alone would not
// be enough: in greatest + log(sum), rounding removes the logarithm if scores are large.
#pragma once

#include "additive_loops.h"
#include "dropout.h"
#include "edge_vectors.h"
#include "row_loops.h"
#include "scratch.h"

namespace EW_NS {

// Temporary arrays of one thread.
struct AttendScratch {
  Scratch memory;
  // These have the shape [edges of a row, padded heads].
  A* scores;   // Scores; in the backward pass, also their gradients.
  A* raw;      // Scores before the gain is applied.
  A* weights;  // Weights after the softmax.
  A* kept;     // Dropout factors, or weights after dropout.
  // These have the shape [padded heads], repeated to whole SIMD vectors.
  A* greatest;  // Greatest score of the row.
  A* total;     // Sum of exp(score - greatest).
  A* inverse;   // 1 / total; 0 if total is 0.
  A* mean;      // Mean of the gradients of the weights, weighted by the weights.
  // These have the shape [heads, width].
  A* own;    // Query of the row, or its key if the graph is transposed.
  A* grad;   // Gradient of the row's output, or the row's value if the graph is transposed.
  A* extra;  // Output, or gradient of the score weight.
  A* ones;   // Ones, in place of an absent score weight.
  A* result;
  // [features, padded heads], [heads, features]
  A* projected_key;
  A* projected_value;
  A* feature_sums;
  // Projected edge keys of kSpread edges, for an additive score.
  T* spread;
  T* spread_grad;
  i32* spread_number;
  u32* head_word;  // [heads]: hash of each head for dropout.
};

struct Attend : AttendScratch {
  const ew_attend_args& a;
  const ew_side& side;
  const int H, D, Dv, F, Fv;  // Heads; widths of a head of keys, values; widths of all heads.
  const int hp;               // Padded heads.
  const int period;           // Multiple of hp and of the vector width.
  const A scale;
  const DotRows dot, dot_value;
  const AxpyRows axpy, axpy_value;
  const AdditiveLoops additive;
  bool bad_index = false;
  A* const slots;

  EW_COLD Attend(const ew_attend_args& args, const ew_side& rows)
      : a(args),
        side(rows),
        H(int(args.heads)),
        D(int(args.width)),
        Dv(int(args.value_width)),
        F(H * D),
        Fv(H * Dv),
        hp(padded_heads(H)),
        period(hp > kWidth ? hp : kWidth),
        scale(args.score == EW_SCORE_DOT ? A(args.scale) : A(1)),
        dot(dot_of(D)),
        dot_value(dot_of(Dv)),
        axpy(axpy_of(D)),
        axpy_value(axpy_of(Dv)),
        additive(additive_of(D, H, args.activation)),
        slots(static_cast<A*>(args.slots)) {}

  EW_COLD bool prepare() {
    const i64 edges = (i64(side.longest) + 1) * hp + period, most = (F > Fv ? F : Fv) + kWidth;
    const i64 features =
        a.edge_key.count > a.edge_value.count ? a.edge_key.count : a.edge_value.count;
    const bool expands = a.score == EW_SCORE_ADDITIVE && a.edge_key.features;
    const bool allocated = memory.allocate([&](Scratch& to) {
      to.place(scores, edges), to.place(raw, edges);
      to.place(weights, edges), to.place(kept, edges);
      to.place(greatest, period), to.place(total, period);
      to.place(inverse, period), to.place(mean, period);
      to.place(own, most), to.place(grad, most), to.place(extra, most), to.place(ones, most);
      to.place(result, F + Fv + 2 * H + kWidth);
      to.place(projected_key, features * hp), to.place(projected_value, features * hp);
      to.place(feature_sums, features * H + kWidth);
      to.place(spread, expands ? kSpread * F : 0), to.place(spread_grad, expands ? kSpread * F : 0);
      to.place(spread_number, kSpread), to.place(head_word, H + kWidth);
    });
    if (!allocated) return false;
    for (i64 i = 0; i < most; ++i) ones[i] = 1;
    for (int h = 0; h < H; ++h) head_word[h] = Dropout::head_word(u32(h));
    for (int i = 0; i < kSpread; ++i) spread_number[i] = i;
    return true;
  }

  // Prefetches the vector of a row that comes some rows later. The hardware does not detect that
  // these are sequential, because vectors of other nodes are gathered in between.
  EW_INLINE void fetch_own(const ew_nodes& x, const Row& row, int n) const {
    constexpr int kRowsAhead = 4;
    if (x.data && row.node + kRowsAhead < side.rows)
      fetch_row(x, row.batch, row.node + kRowsAhead, n);
  }

  // Returns the address of a row in an array [batch, rows, count, heads].
  EW_INLINE A* of_row(void* all, i64 batch, i64 node, int count = 1) const {
    return static_cast<A*>(all) + (batch * side.rows + node) * count * H;
  }
  EW_INLINE const A* of_row(const void* all, i64 batch, i64 node, int count = 1) const {
    return static_cast<const A*>(all) + (batch * side.rows + node) * count * H;
  }
  const T* full_vectors(const ew_vectors& v, i64 batch) const {
    return static_cast<const T*>(v.full) + batch * v.full_batch_stride;
  }

  // ---- scores ----

  bool gains() const { return a.gain.data && a.score != EW_SCORE_NONE; }

  // Computes scores before gain and bias. If rows are targets, `rows` are queries and `others` keys;
  // if rows are sources, `rows` are keys and `others` queries.
  void score(const Row& row, const ew_nodes& rows, const ew_nodes& others) {
    const i64 all = i64(row.n()) * hp;
    if (a.score == EW_SCORE_NONE) return zero(scores, all);
    widen_row(own, node_row<const T>(rows, row.batch, row.node), F);
    if (hp != H) zero(scores, all);
    if (a.score == EW_SCORE_DOT) score_dot(row, others);
    else score_additive(row, others);
  }

  void score_dot(const Row& row, const ew_nodes& others) {
    dot(own, node_row<const T>(others, row.batch, 0), others.node_stride, row.nodes, scores, H, hp,
        D, false);
    if (a.edge_key.full)
      dot(own, full_vectors(a.edge_key, row.batch), F, row.numbers, scores, H, hp, D, true);
    if (a.edge_key.features) {
      project(projected_key, own, a.edge_key, H, hp, D);
      add_projected(scores, projected_key, a.edge_key, row, hp);
    }
    scale_by(scores, row.n());  // Scale last, so that both passes get bitwise the same score.
  }
  void scale_by(A* to, int n) const {
    for (i64 i = 0; i < i64(n) * hp; i += kWidth)
      store<kWidth>(to + i, load<kWidth>(to + i) * scale);
  }

  void score_additive(const Row& row, const ew_nodes& others) {
    each_spread(row, [&](const Additive& f, Edges edges, int first) {
      additive.scores(f, node_row<const T>(others, row.batch, 0), others.node_stride, edges,
                      scores + i64(first) * hp);
    });
  }
  // Calls body(additive, edges, first) for the edges of a row: for all at once, or for kSpread at a
  // time if their edge keys must be projected. `made` says that this was done before for this row.
  template <class Body> EW_INLINE void each_spread(const Row& row, Body body, bool made = false) {
    const A* weight = a.score_weight ? static_cast<const A*>(a.score_weight) : ones;
    Additive f{own, weight, a.activation, A(a.slope), nullptr, row.numbers, H, hp, D};
    if (!a.edge_key.features) {
      if (a.edge_key.full) f.on_edge = full_vectors(a.edge_key, row.batch);
      return body(f, row.nodes, 0);
    }
    f.on_edge = spread;
    for (int first = 0; first < row.n(); first += kSpread) {
      const int n = row.n() - first < kSpread ? row.n() - first : kSpread;
      if (!made || row.n() > kSpread) expand(spread, a.edge_key, row, first, n, F);
      f.numbers = {spread_number, n, n};
      body(f, row.nodes.from(first, n), first);
    }
  }

  // ---- gain and bias ----

  EW_INLINE i64 term_row(const ew_term& t, i32 edge) {
    if (!t.index_bits) return edge;
    const i64 row = t.index_bits == 32 ? static_cast<const i32*>(t.index)[edge]
                                       : static_cast<const i64*>(t.index)[edge];
    if (u64(row) < u64(t.rows)) return row;
    bad_index = true;
    return 0;
  }
  template <class Op> EW_INLINE void apply_term(const ew_term& t, const Row& row, Op op) {
    const A* data = static_cast<const A*>(t.data) + row.batch * t.batch_stride;
    with_lanes(H, [&](auto lanes) {
      constexpr int N = lanes;
      for (int e = 0; e < row.n(); ++e) {
        const A* from = data + term_row(t, row.numbers.index[e]) * t.width;
        A* to = scores + i64(e) * hp;
        for (int h = 0; h < H; h += N) {
          const Vec<A, N> x = t.width == 1 ? splat<A, N>(from[0]) : load<N>(from + h);
          store<N>(to + h, op(load<N>(to + h), x));
        }
      }
    });
  }
  void apply_gain(const Row& row) {
    if (gains()) apply_term(a.gain, row, [](auto x, auto y) { return x * y; });
  }
  void apply_bias(const Row& row) {
    if (a.bias.data) apply_term(a.bias, row, [](auto x, auto y) { return x + y; });
  }

  // ---- softmax of a buffer, in which element i belongs to head i % hp ----

  // Fills a buffer [n, padded heads] up to a multiple of `period`, and returns the new size.
  EW_INLINE i64 fill_up(A* to, int n, A with) const {
    const i64 used = i64(n) * hp, all = (used + period - 1) / period * period;
    for (i64 i = used; i < all; ++i) to[i] = with;
    return all;
  }
  // Reduces the `period` numbers of x to one number for each head, and repeats these.
  template <class Op> EW_INLINE void fold(A* x, Op op) const {
    if (hp == period) return;
    for (int h = 0; h < hp; ++h) {
      A all = x[h];
      for (int i = h + hp; i < period; i += hp) all = op(all, x[i]);
      x[h] = all;
    }
    repeat(x);
  }
  EW_INLINE void repeat(A* x) const {  // If hp < period, hp is a power of two.
    for (int i = hp; i < period; ++i) x[i] = x[i & (hp - 1)];
  }

  // Sets `greatest` (0 if all scores are -inf), `weights` to exp(scores - greatest), and `total`.
  void softmax(int n) {
    const i64 all = fill_up(scores, n, -kInf<A>);
    for (int c = 0; c < period; c += kWidth) {
      Vector most = splat<A, kWidth>(-kInf<A>);
      for (i64 i = c; i < all; i += period) {
        const Vector s = load<kWidth>(scores + i);
        most = s > most ? s : most;
      }
      store<kWidth>(greatest + c, most);
    }
    fold(greatest, [](A x, A y) { return y > x ? y : x; });
    for (int i = 0; i < period; ++i) greatest[i] = greatest[i] == -kInf<A> ? 0 : greatest[i];
    for (int c = 0; c < period; c += kWidth) {
      const Vector most = load<kWidth>(greatest + c);
      Vector sum{};
      for (i64 i = c; i < all; i += period) {
        const Vector w = exp_vec<kWidth>(load<kWidth>(scores + i) - most);
        store<kWidth>(weights + i, w);
        sum += w;
      }
      store<kWidth>(total + c, sum);
    }
    fold(total, [](A x, A y) { return x + y; });
  }

  // Sets kept[e, h] to 1 / (1 - rate) for weights that are kept, and to 0 for dropped weights.
  void draw_dropout(const Row& row) {
    const Dropout dropout(a.seed, a.dropout, a.first_edge, row.batch);
    with_lanes(H, [&](auto lanes) {
      constexpr int N = lanes;
      for (int e = 0; e < row.n(); ++e) {
        const u32 word = dropout.edge_word(u32(row.numbers.index[e]));
        A* to = kept + i64(e) * hp;
        for (int h = 0; h < H; h += N) {
          Vec<u32, N> head;
          __builtin_memcpy(&head, head_word + h, sizeof(head));
          store<N>(to + h, dropout.factor<N>(head ^ word));
        }
        for (int h = H; h < hp; ++h) to[h] = 0;
      }
    });
  }
};

}  // namespace EW_NS
