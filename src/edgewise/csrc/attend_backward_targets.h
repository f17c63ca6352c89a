// Backward pass of attention over targets. It recomputes the weights of a row, computes the
// gradients of its scores, and from these the gradients of query, bias, gain, edge vectors and score
// weight. It also writes what the pass over sources reads: three numbers for each row and head
// (`record`), or two for each edge and head (`per_edge`).
#pragma once

#include "attend.h"

namespace EW_NS {

struct AttendBackwardTargets : Attend {
  const int result_size;  // Size of the gradient of the query, [heads, width].

  explicit AttendBackwardTargets(const ew_attend_args& args)
      : Attend(args, *args.by_target), result_size(args.grad_query.data ? F : 0) {}

  void compute(const Row& row) {
    zero(result, F);
    fetch_own(a.query, row, F);
    fetch_own(a.grad_out, row, Fv);
    if (!row.n()) return;
    const bool given = !a.grad_out.data;  // Then the gradient of the scores is an argument.
    if (!given || a.gain.grad || a.edge_key.features) score(row, a.query, a.key);
    else if (a.score != EW_SCORE_NONE)
      widen_row(own, node_row<const T>(a.query, row.batch, row.node), F);
    if (a.gain.grad) copy(raw, scores, i64(row.n()) * hp);
    if (given) {
      load_given(row);
    } else {
      apply_gain(row);
      apply_bias(row);
      softmax_gradient(row);
      value_gradients(row);
    }
    if (a.bias.grad) term_gradient(a.bias, row, nullptr);
    if (a.gain.grad) term_gradient(a.gain, row, raw);
    apply_gain(row);
    if (a.score == EW_SCORE_DOT) dot_gradients(row);
    if (a.score == EW_SCORE_ADDITIVE) additive_gradients(row);
    if (a.per_edge) save_edges(row);
  }
  void merge(Parts parts) { add_parts(result, parts); }
  void finish(i64 batch, i64 node) {
    if (a.grad_query.data) narrow_row(node_row<T>(a.grad_query, batch, node), result, F);
  }

  // ---- softmax ----

  void load_given(const Row& row) {
    const A* from = static_cast<const A*>(a.scores) + row.batch * side.edges * H;
    for (int e = 0; e < row.n(); ++e) {
      copy(scores + i64(e) * hp, from + i64(row.numbers.index[e]) * H, H);
      zero(scores + i64(e) * hp + H, hp - H);
    }
  }

  // Replaces `scores` by their gradients, and sets `kept` to the weights after dropout.
  void softmax_gradient(const Row& row) {
    load_stats(row);
    const i64 all = fill_up(scores, row.n(), 0);
    for (int c = 0; c < period; c += kWidth) {
      const Vector most = load<kWidth>(greatest + c), by = load<kWidth>(inverse + c);
      for (i64 i = c; i < all; i += period)
        store<kWidth>(weights + i, exp_vec<kWidth>(load<kWidth>(scores + i) - most) * by);
    }
    weight_gradient(row);
    average(row, all);
    for (int c = 0; c < period; c += kWidth) {
      const Vector average = load<kWidth>(mean + c);
      for (i64 i = c; i < all; i += period) {
        const Vector w = load<kWidth>(weights + i), g = load<kWidth>(scores + i);
        store<kWidth>(kept + i, a.dropout > 0 ? w * load<kWidth>(kept + i) : w);
        store<kWidth>(scores + i, w * (g - average));
      }
    }
    if (a.record && row.begins) {
      A* to = of_row(a.record, row.batch, row.node, 3);
      copy(to, greatest, H), copy(to + H, inverse, H), copy(to + 2 * H, mean, H);
    }
  }
  void load_stats(const Row& row) {
    const A* stats = of_row(a.stats, row.batch, row.node, 2);
    zero(greatest, hp), zero(inverse, hp);
    copy(greatest, stats, H), copy(inverse, stats + H, H);
    repeat(greatest);
    repeat(inverse);
  }
  // Sets `scores` to the gradients of the weights: for each edge, grad . value.
  void weight_gradient(const Row& row) {
    if (hp != H) zero(scores, i64(row.n()) * hp);
    widen_row(grad, node_row<const T>(a.grad_out, row.batch, row.node), Fv);
    dot_value(grad, node_row<const T>(a.value, row.batch, 0), a.value.node_stride, row.nodes,
              scores, H, hp, Dv, false);
    if (a.edge_value.full)
      dot_value(grad, full_vectors(a.edge_value, row.batch), Fv, row.numbers, scores, H, hp, Dv,
                true);
    if (a.edge_value.features) {
      project(projected_value, grad, a.edge_value, H, hp, Dv);
      add_projected(scores, projected_value, a.edge_value, row, hp);
    }
    const i64 all = fill_up(scores, row.n(), 0);
    if (a.dropout > 0) {
      draw_dropout(row);
      fill_up(kept, row.n(), 0);
      for (i64 i = 0; i < all; i += kWidth)
        store<kWidth>(scores + i, load<kWidth>(scores + i) * load<kWidth>(kept + i));
    }
  }
  // mean[h] = (sum over the row's edges of weight times its gradient) - (gradient of the
  // log-sum-exp). The sum is computed edge by edge, so that the gradient of the score in a row with
  // one edge is exactly 0. For a piece of a long row, grad . out is used, which is the same sum.
  void average(const Row& row, i64 all) {
    for (int c = 0; c < period; c += kWidth) {
      Vector sum{};
      for (i64 i = c; i < all && row.whole; i += period)
        sum += load<kWidth>(weights + i) * load<kWidth>(scores + i);
      store<kWidth>(mean + c, sum);
    }
    if (row.whole) {
      fold(mean, [](A x, A y) { return x + y; });
    } else {
      widen_row(extra, node_row<const T>(a.out, row.batch, row.node), Fv);
      for (int h = 0; h < H; ++h)
        for (int d = h * Dv; d < (h + 1) * Dv; ++d) mean[h] += grad[d] * extra[d];
    }
    if (a.grad_lse) {
      const A* grad_lse = of_row(a.grad_lse, row.batch, row.node);
      for (int h = 0; h < H; ++h) mean[h] -= grad_lse[h];
    }
    repeat(mean);
  }

  // ---- gradients of edge values, bias and gain ----

  void value_gradients(const Row& row) {
    const ew_vectors& v = a.edge_value;
    if (v.full_grad) {
      T* to = static_cast<T*>(v.full_grad) + row.batch * side.edges * Fv;
      vector_gradient(to, kept, grad, row.numbers, H, hp, Dv);
    }
    if (v.features_grad || v.weight_grad) {
      sum_features(feature_sums, kept, v, row, H, hp);
      projected_gradient(v, kept, projected_value, feature_sums, grad, row, side.edges, H, hp, Dv);
    }
  }

  // Computes the gradient of a bias, which is that of the score, or of a gain, which is that of the
  // score multiplied by `times`.
  void term_gradient(const ew_term& t, const Row& row, const A* times) {
    const i64 before = t.index_bits ? row.group * t.rows : row.batch * side.edges;
    A* all = static_cast<A*>(t.grad) + before * t.width;
    const bool sums = t.index_bits;  // In a table, the gradients of all edges of a class add up.
    with_lanes(H, [&](auto lanes) {
      constexpr int N = lanes;
      for (int e = 0; e < row.n(); ++e) {
        const i64 at = i64(e) * hp;
        A* to = all + term_row(t, row.numbers.index[e]) * t.width;
        A sum = 0;  // Sum over heads, if all heads share one bias or gain.
        for (int h = 0; h < H; h += N) {
          Vec<A, N> g = load<N>(scores + at + h);
          if (times) g *= load<N>(times + at + h);
          if (t.width > 1 || H == 1) store<N>(to + h, sums ? load<N>(to + h) + g : g);
          else
            EW_EACH (k, N) sum += lane(g, k);
        }
        if (t.width < H) *to = sums ? *to + sum : sum;
      }
    });
  }

  // ---- gradients of the arguments of the score; `result` gets that of the query ----

  void dot_gradients(const Row& row) {
    scale_by(scores, row.n());
    const ew_vectors& v = a.edge_key;
    if (v.full_grad) {
      T* to = static_cast<T*>(v.full_grad) + row.batch * side.edges * F;
      vector_gradient(to, scores, own, row.numbers, H, hp, D);
    }
    if (v.features) sum_features(feature_sums, scores, v, row, H, hp);
    if (v.features_grad || v.weight_grad)
      projected_gradient(v, scores, projected_key, feature_sums, own, row, side.edges, H, hp, D);
    if (!a.grad_query.data) return;
    const T* key = node_row<const T>(a.key, row.batch, 0);
    axpy(scores, hp, key, a.key.node_stride, row.nodes, result, H, D);
    if (v.full) axpy(scores, hp, full_vectors(v, row.batch), F, row.numbers, result, H, D);
    if (v.features) add_expanded(result, feature_sums, v, H, D);
  }

  void additive_gradients(const Row& row) {
    const ew_vectors& v = a.edge_key;
    const bool expanded = v.features_grad || v.weight_grad;
    AdditiveGrad to{result, nullptr, nullptr};
    if (v.full_grad) to.on_edge = static_cast<T*>(v.full_grad) + row.batch * side.edges * F;
    if (expanded) to.on_edge = spread_grad;
    if (a.score_weight_grad) {
      to.weight = extra;  // Sum over this row first: short sums have smaller rounding errors.
      zero(extra, F);
    }
    const T* key = node_row<const T>(a.key, row.batch, 0);
    const auto each = [&](const Additive& f, Edges edges, int first) {
      additive.grad(f, key, a.key.node_stride, edges, scores + i64(first) * hp, to);
      if (expanded) unexpand(spread_grad, v, row, first, edges.n, side.edges, F);
    };
    each_spread(row, each, true);  // score() has projected the edge keys of this row.
    if (to.weight) add_scaled(static_cast<A*>(a.score_weight_grad) + row.group * F, extra, 1, F);
  }

  void save_edges(const Row& row) {
    A* all = static_cast<A*>(a.per_edge) + row.batch * side.edges * 2 * H;
    with_lanes(H, [&](auto lanes) {
      constexpr int N = lanes;
      for (int e = 0; e < row.n(); ++e) {
        A* to = all + i64(row.numbers.index[e]) * 2 * H;
        for (int h = 0; h < H; h += N) {
          store<N>(to + h, load<N>(scores + i64(e) * hp + h));
          store<N>(to + H + h, load<N>(kept + i64(e) * hp + h));
        }
      }
    });
  }
};

}  // namespace EW_NS
