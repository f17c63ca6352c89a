// Softmax of given scores over the edges of each row of a graph, and its gradient. There are two
// passes, because long rows are cut into pieces. The first computes two numbers for each row and
// head, the second the results of all edges.
#pragma once

#include "row.h"
#include "scratch.h"

namespace EW_NS {

struct Softmax {
  const ew_softmax_args& a;
  const ew_side& side;
  const int H;
  Scratch memory;
  A* result;  // [2, heads]
  A* const slots;
  static constexpr bool bad_index = false;

  EW_COLD explicit Softmax(const ew_softmax_args& args)
      : a(args), side(*args.side), H(int(args.heads)), slots(static_cast<A*>(args.slots)) {}
  EW_COLD bool prepare() {
    return memory.allocate([&](Scratch& to) { to.place(result, 2 * H + kWidth); });
  }

  A* stats_of(i64 batch, i64 node) const {
    return static_cast<A*>(a.stats) + (batch * side.rows + node) * 2 * H;
  }
  // Returns the offset of an edge in an array [batch, edges, heads].
  i64 place(const Row& row, int e) const {
    return (row.batch * side.edges + row.numbers.index[e]) * H;
  }
  const A* score(const Row& row, int e) const {
    return static_cast<const A*>(a.scores) + place(row, e);
  }
  const A* grad(const Row& row, int e) const {
    return static_cast<const A*>(a.grad) + place(row, e);
  }
  // Calls f(first head, number of heads) for each vector of heads; the last may be partial.
  template <class F> EW_INLINE void each_head(F f) const {
    for (int h = 0; h < H; h += kWidth) f(h, H - h < kWidth ? H - h : kWidth);
  }
  static EW_INLINE Vector get(const A* from, int n) { return load_up_to<kWidth>(from, n); }
  static EW_INLINE void put(A* to, Vector x, int n) { store_up_to<kWidth>(to, x, n); }
};

// First pass. Forward, it computes the greatest score and 1 / (sum of exp(score - greatest)).
// Backward, it computes the sum of weight times gradient, and 0.
struct SoftmaxTotals : Softmax {
  const int result_size;
  explicit SoftmaxTotals(const ew_softmax_args& args) : Softmax(args), result_size(2 * H) {}

  void compute(const Row& row) {
    A *const first = result, *const total = result + H;
    zero(result, 2 * H);
    if (a.grad) {  // In the backward pass, `scores` are the weights.
      for (int e = 0; e < row.n(); ++e)
        for (int h = 0; h < H; ++h) first[h] += score(row, e)[h] * grad(row, e)[h];
      return;
    }
    for (int h = 0; h < H; ++h) first[h] = -kInf<A>;
    for (int e = 0; e < row.n(); ++e)
      for (int h = 0; h < H; ++h)
        first[h] = score(row, e)[h] > first[h] ? score(row, e)[h] : first[h];
    for (int h = 0; h < H; ++h) first[h] = first[h] == -kInf<A> ? 0 : first[h];
    for (int e = 0; e < row.n(); ++e)
      each_head([&](int h, int n) {
        const Vector x = get(score(row, e) + h, n) - get(first + h, n);
        put(total + h, get(total + h, n) + exp_vec<kWidth>(x), n);
      });
  }
  void merge(Parts parts) {
    if (a.grad) add_parts(result, parts);
    else merge_softmax(result, parts, H, 0);
  }
  void finish(i64 batch, i64 node) {
    A* to = stats_of(batch, node);
    for (int h = 0; h < H; ++h)
      to[h] = result[h], to[H + h] = result[H + h] == 0 ? 0 : 1 / result[H + h];
  }
};

// Second pass. Forward, it computes exp(score - greatest) / sum. Backward, it computes
// weight * (gradient - sum).
struct SoftmaxEdges : Softmax {
  static constexpr int result_size = 0;
  explicit SoftmaxEdges(const ew_softmax_args& args) : Softmax(args) {}

  void compute(const Row& row) {
    const A *first = stats_of(row.batch, row.node), *inverse = first + H;
    for (int e = 0; e < row.n(); ++e) {
      A* out = static_cast<A*>(a.out) + place(row, e);
      each_head([&](int h, int n) {
        const Vector x = get(score(row, e) + h, n), y = get(first + h, n);
        if (a.grad) put(out + h, x * (get(grad(row, e) + h, n) - y), n);
        else put(out + h, exp_vec<kWidth>(x - y) * get(inverse + h, n), n);
      });
    }
  }
  void merge(Parts) {}
  void finish(i64, i64) {}
};

}  // namespace EW_NS
