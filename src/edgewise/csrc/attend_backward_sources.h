// Backward pass of attention over sources: gradients of key and value. Here a row is a source, and
// the nodes at the other ends of its edges are the targets that attend to it.
//
// Scores, weights and their gradients are recomputed for each edge. This costs arithmetic, which is
// cheap while the loop waits for memory, and saves an array of edges x heads. Products of an edge
// vector with the target's vector cannot be recomputed here, because the loops only multiply the
// vector of the row. In this case, the pass over targets stores an array (`per_edge`) for this pass.
#pragma once

#include "attend.h"

namespace EW_NS {

struct AttendBackwardSources : Attend {
  const int result_size;  // Size of the gradients of key and value, [heads, width] each.

  explicit AttendBackwardSources(const ew_attend_args& args)
      : Attend(args, *args.by_source), result_size(F + Fv) {}

  void compute(const Row& row) {
    fetch_own(a.key, row, F);
    fetch_own(a.value, row, Fv);
    if (a.per_edge) load_edges(row);
    else if (!a.grad_out.data) load_given(row);
    else gradients_again(row);
    if (!a.per_edge && a.score == EW_SCORE_DOT) scale_by(scores, row.n());
    zero(result, result_size);
    if (a.grad_key.data) key_gradient(row);
    if (a.grad_value.data) value_gradient(row);
  }
  void merge(Parts parts) { add_parts(result, parts); }
  void finish(i64 batch, i64 node) {
    if (a.grad_key.data) narrow_row(node_row<T>(a.grad_key, batch, node), result, F);
    if (a.grad_value.data) narrow_row(node_row<T>(a.grad_value, batch, node), result + F, Fv);
  }

  // grad_value[h] += weight[e, h] grad_out[target, h], for all targets that attend to this source.
  void value_gradient(const Row& row) {
    const T* grad_out = node_row<const T>(a.grad_out, row.batch, 0);
    axpy_value(weights, hp, grad_out, a.grad_out.node_stride, row.nodes, result + F, H, Dv);
  }
  // Adds up the gradient of the key; for a dot product, it is grad_score[e, h] query[target, h].
  void key_gradient(const Row& row) {
    const T* query = node_row<const T>(a.query, row.batch, 0);
    const i64 stride = a.query.node_stride;
    if (a.score == EW_SCORE_DOT) return axpy(scores, hp, query, stride, row.nodes, result, H, D);
    widen_row(own, node_row<const T>(a.key, row.batch, row.node), F);
    each_spread(row, [&](const Additive& f, Edges edges, int first) {
      const AdditiveGrad to{result, nullptr, nullptr};
      additive.grad(f, query, stride, edges, scores + i64(first) * hp, to);
    });
  }

  // Recomputes `weights`, the weights after dropout, and sets `scores` to the gradients of the
  // scores before gain and bias.
  void gradients_again(const Row& row) {
    const A* record = static_cast<const A*>(a.record) + row.batch * side.cols * 3 * H;
    for (int e = kAhead; e < row.n() + kAhead && e < row.nodes.limit; ++e)
      prefetch(record + i64(row.nodes.index[e]) * 3 * H, 3 * H);
    score(row, a.key, a.query);
    apply_gain(row);
    apply_bias(row);
    with_lanes(H, [&](auto lanes) {
      constexpr int N = lanes;
      for (int e = 0; e < row.n(); ++e) {
        const A* greatest_of = record + i64(row.nodes.index[e]) * 3 * H;
        A* s = scores + i64(e) * hp;
        for (int h = 0; h < H; h += N) store<N>(s + h, load<N>(s + h) - load<N>(greatest_of + h));
      }
    });
    const i64 all = fill_up(scores, row.n(), 0);
    for (i64 i = 0; i < all; i += kWidth)
      store<kWidth>(weights + i, exp_vec<kWidth>(load<kWidth>(scores + i)));
    if (a.grad_key.data) {
      const T* grad_out = node_row<const T>(a.grad_out, row.batch, 0);
      widen_row(grad, node_row<const T>(a.value, row.batch, row.node), Fv);
      dot_value(grad, grad_out, a.grad_out.node_stride, row.nodes, scores, H, hp, Dv, false);
    }
    if (a.dropout > 0) draw_dropout(row);
    with_lanes(H, [&](auto lanes) {
      constexpr int N = lanes;
      for (int e = 0; e < row.n(); ++e) {
        const A *inverse_of = record + (i64(row.nodes.index[e]) * 3 + 1) * H,
                *mean_of = inverse_of + H;
        A *s = scores + i64(e) * hp, *w = weights + i64(e) * hp;
        const A* factor = a.dropout > 0 ? kept + i64(e) * hp : ones;
        for (int h = 0; h < H; h += N) {
          const Vec<A, N> weight = load<N>(w + h) * load<N>(inverse_of + h),
                          by = load<N>(factor + h);
          store<N>(s + h, weight * (load<N>(s + h) * by - load<N>(mean_of + h)));
          store<N>(w + h, weight * by);
        }
      }
    });
    apply_gain(row);
  }
  void load_given(const Row& row) {
    const A* given = static_cast<const A*>(a.scores) + row.batch * side.edges * H;
    for (int e = 0; e < row.n(); ++e)
      copy(scores + i64(e) * hp, given + i64(row.numbers.index[e]) * H, H);
    apply_gain(row);
  }
  void load_edges(const Row& row) {
    const A* all = static_cast<const A*>(a.per_edge) + row.batch * side.edges * 2 * H;
    with_lanes(H, [&](auto lanes) {
      constexpr int N = lanes;
      for (int e = 0; e < row.n(); ++e) {
        if (e + kAhead < row.numbers.limit)
          prefetch(all + i64(row.numbers.index[e + kAhead]) * 2 * H, 2 * H);
        const A* from = all + i64(row.numbers.index[e]) * 2 * H;
        for (int h = 0; h < H; h += N) {
          store<N>(scores + i64(e) * hp + h, load<N>(from + h));
          store<N>(weights + i64(e) * hp + h, load<N>(from + H + h));
        }
      }
    });
  }
};

}  // namespace EW_NS
