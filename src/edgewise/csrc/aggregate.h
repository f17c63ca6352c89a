// Sums, means, maxima and minima over the edges of each row of a graph, and their gradients.
//
// The gradient of a sum with respect to the values is a sum over the transposed graph, with weights
// looked up by the index of the edge. With respect to the weights, it is a dot product for each
// edge. The gradient of an extreme (maximum or minimum) is divided evenly between the edges that
// reach it. These are counted first.
#pragma once

#include "row_loops.h"
#include "scratch.h"

namespace EW_NS {

struct Aggregate {
  const ew_aggregate_args& a;
  const ew_side& side;
  const int H, D, F, hp;  // Heads, width of a head, width of all heads, padded heads.
  const bool greatest, extreme;
  Scratch memory;
  A* weights;  // [edges of a row, padded heads]; ones if there are no weights.
  A* result;   // [heads, width]
  A* own;      // [heads, width]: gradient of the row.
  A* const slots;
  int result_size;
  static constexpr bool bad_index = false;

  EW_COLD explicit Aggregate(const ew_aggregate_args& args, bool has_result = true)
      : a(args),
        side(*args.side),
        H(int(args.heads)),
        D(int(args.width)),
        F(H * D),
        hp(padded_heads(H)),
        greatest(args.reduce == EW_MAX),
        extreme(greatest || args.reduce == EW_MIN),
        slots(static_cast<A*>(args.slots)),
        result_size(has_result ? F : 0) {}

  EW_COLD bool prepare() {
    const i64 edges = (i64(side.longest) + 1) * hp + kWidth;
    const bool allocated = memory.allocate([&](Scratch& to) {
      to.place(weights, edges), to.place(result, F + kWidth), to.place(own, F + kWidth);
    });
    for (i64 i = 0; allocated && i < edges; ++i) weights[i] = 1;
    return allocated;
  }

  void merge(Parts parts) { add_parts(result, parts); }

  void load_weights(const Row& row) {
    if (!a.weight) return;
    const A* from = static_cast<const A*>(a.weight) + row.batch * a.weight_batch_stride;
    with_lanes(H, [&](auto lanes) {
      constexpr int N = lanes;
      for (int e = 0; e < row.n(); ++e)
        for (int h = 0; h < H; h += N)
          store<N>(weights + i64(e) * hp + h, load<N>(from + i64(row.numbers.index[e]) * H + h));
    });
  }
  A* share_of(i64 batch, i64 target, i64 targets) const {
    return static_cast<A*>(a.share) + (batch * targets + target) * F;
  }
  A* weight_grad_of(const Row& row, int e) const {
    return static_cast<A*>(a.weight_grad) + (row.batch * side.edges + row.numbers.index[e]) * H;
  }
  // For each number of x, returns whether it equals the extreme after rounding to the storage type.
  template <int N> static EW_INLINE auto reach(Vec<A, N> x, const T* extreme) {
    return as_stored<N>(x, extreme) == load<N>(extreme);
  }
};

struct AggregateForward : Aggregate {
  explicit AggregateForward(const ew_aggregate_args& args) : Aggregate(args) {}

  void compute(const Row& row) {
    load_weights(row);
    if (extreme && row.n())
      return greatest ? take_extreme(row, -kInf<A>, Greatest())
                      : take_extreme(row, kInf<A>, Least());
    zero(result, F);
    const T* value = node_row<const T>(a.value, row.batch, 0);
    axpy_of(D)(weights, hp, value, a.value.node_stride, row.nodes, result, H, D);
  }
  // If a value is NaN, the extreme is NaN, as in torch.amax.
  struct Greatest {
    template <class X> EW_INLINE X operator()(X x, X y) const {
      const X more = y <= x ? x : y;
      return x == x ? more : x;
    }
  };
  struct Least {
    template <class X> EW_INLINE X operator()(X x, X y) const {
      const X less = y >= x ? x : y;
      return x == x ? less : x;
    }
  };
  template <class Better> void take_extreme(const Row& row, A first, Better better) {
    for (int i = 0; i < F; ++i) result[i] = first;
    const T* value = node_row<const T>(a.value, row.batch, 0);
    for (int e = 0; e < row.n(); ++e) {
      const T* from = value + i64(row.nodes.index[e]) * a.value.node_stride;
      fetch_ahead(value, a.value.node_stride, row.nodes, e, F);
      for (int h = 0; h < H; ++h) {
        const A weight = weights[i64(e) * hp + h];
        in_blocks<kWidth>(D, [&](auto lanes, int d) {
          A* to = result + h * D + d;
          store<lanes>(to, better(load<lanes>(to), weight * load<lanes>(from + h * D + d)));
        });
      }
    }
  }
  void merge(Parts parts) {
    if (!extreme) add_parts(result, parts);
    else if (greatest) merge_parts(result, parts, Greatest());
    else merge_parts(result, parts, Least());
  }
  void finish(i64 batch, i64 node) {
    const i32 degree = side.ptr[node + 1] - side.ptr[node];
    const A by = a.reduce == EW_MEAN && degree ? A(1) / degree : A(1);
    narrow_row(node_row<T>(a.out, batch, node), result, F, by);
  }
};

// Gradient of the weights of a sum: weight_grad[e, h] = grad_out[target, h] . value[source, h]
struct SumWeightGradient : Aggregate {
  explicit SumWeightGradient(const ew_aggregate_args& args) : Aggregate(args, false) {}

  void compute(const Row& row) {
    const T* value = node_row<const T>(a.value, row.batch, 0);
    widen_row(own, node_row<const T>(a.grad_out, row.batch, row.node), F);
    dot_of(D)(own, value, a.value.node_stride, row.nodes, weights, H, hp, D, false);
    for (int e = 0; e < row.n(); ++e) copy(weight_grad_of(row, e), weights + i64(e) * hp, H);
  }
  void finish(i64, i64) {}
};

// share = gradient of an extreme / number of edges that reach it
struct ExtremeShare : Aggregate {
  explicit ExtremeShare(const ew_aggregate_args& args) : Aggregate(args) {}

  void compute(const Row& row) {
    const T* out = node_row<const T>(a.out, row.batch, row.node);
    load_weights(row);
    zero(result, F);
    for (int e = 0; e < row.n(); ++e) {
      const T* from = node_row<const T>(a.value, row.batch, row.nodes.index[e]);
      for (int h = 0; h < H; ++h) {
        const A weight = weights[i64(e) * hp + h];
        in_blocks<kWidth>(D, [&](auto lanes, int d) {
          constexpr int N = lanes;
          const int at = h * D + d;
          const auto ties = reach<N>(weight * load<N>(from + at), out + at);
          store<N>(result + at, load<N>(result + at) + (ties ? splat<A, N>(1) : Vec<A, N>{}));
        });
      }
    }
  }
  void finish(i64 batch, i64 node) {
    A* to = share_of(batch, node, side.rows);
    const T* grad = node_row<const T>(a.grad_out, batch, node);
    for (int i = 0; i < F; ++i) to[i] = result[i] == 0 ? 0 : widen(grad[i]) / result[i];
  }
};

struct ExtremeWeightGradient : Aggregate {
  explicit ExtremeWeightGradient(const ew_aggregate_args& args) : Aggregate(args, false) {}

  void compute(const Row& row) {
    const T* out = node_row<const T>(a.out, row.batch, row.node);
    const A* share = share_of(row.batch, row.node, side.rows);
    load_weights(row);
    for (int e = 0; e < row.n(); ++e) {
      const T* from = node_row<const T>(a.value, row.batch, row.nodes.index[e]);
      A* to = weight_grad_of(row, e);
      for (int h = 0; h < H; ++h) {
        const A weight = weights[i64(e) * hp + h];
        A sum = 0;
        for (int d = h * D; d < (h + 1) * D; ++d) {
          const A v = widen(from[d]);
          if (widen(Narrow<T>::of(weight * v)) == widen(out[d])) sum += share[d] * v;
        }
        to[h] = sum;
      }
    }
  }
  void finish(i64, i64) {}
};

// Gradient of an extreme with respect to the values, over the transposed graph: a row is a source.
struct ExtremeValueGradient : Aggregate {
  explicit ExtremeValueGradient(const ew_aggregate_args& args) : Aggregate(args) {}

  void compute(const Row& row) {
    const T* value = node_row<const T>(a.value, row.batch, row.node);
    load_weights(row);
    zero(result, F);
    for (int e = 0; e < row.n(); ++e) {
      const T* out = node_row<const T>(a.out, row.batch, row.nodes.index[e]);
      const A* share = share_of(row.batch, row.nodes.index[e], side.cols);
      for (int h = 0; h < H; ++h) {
        const A weight = weights[i64(e) * hp + h];
        in_blocks<kWidth>(D, [&](auto lanes, int d) {
          constexpr int N = lanes;
          const int at = h * D + d;
          const auto ties = reach<N>(weight * load<N>(value + at), out + at);
          const Vec<A, N> part = weight * load<N>(share + at);
          store<N>(result + at, load<N>(result + at) + (ties ? part : Vec<A, N>{}));
        });
      }
    }
  }
  void finish(i64 batch, i64 node) {
    narrow_row(node_row<T>(a.grad_value, batch, node), result, F);
  }
};

}  // namespace EW_NS
