// Forward pass of attention over targets: scores of a row, softmax, and weighted sum of values. A
// second stage computes only the scores and writes them for every edge.
#pragma once

#include "attend.h"

namespace EW_NS {

struct AttendForward : Attend {
  // A result consists of the sum of exp(score - greatest) * value [heads, width], the greatest score
  // [heads] and the sum of exp(score - greatest) [heads].
  const int result_size;

  explicit AttendForward(const ew_attend_args& args)
      : Attend(args, *args.by_target), result_size(Fv + 2 * H) {}

  void compute(const Row& row) {
    zero(result, result_size);
    if (!row.n()) return;
    fetch_own(a.query, row, F);
    score(row, a.query, a.key);
    apply_gain(row);
    apply_bias(row);
    softmax(row.n());
    copy(result + Fv, greatest, H);
    copy(result + Fv + H, total, H);
    if (a.dropout > 0) drop(row);
    sum_values(row);
  }
  void drop(const Row& row) {
    draw_dropout(row);
    for (i64 i = 0; i < i64(row.n()) * hp; i += kWidth)
      store<kWidth>(weights + i, load<kWidth>(weights + i) * load<kWidth>(kept + i));
  }
  void sum_values(const Row& row) {
    const T* value = node_row<const T>(a.value, row.batch, 0);
    axpy_value(weights, hp, value, a.value.node_stride, row.nodes, result, H, Dv);
    if (a.edge_value.full)
      axpy_value(weights, hp, full_vectors(a.edge_value, row.batch), Fv, row.numbers, result, H,
                 Dv);
    if (a.edge_value.features) {
      sum_features(feature_sums, weights, a.edge_value, row, H, hp);
      add_expanded(result, feature_sums, a.edge_value, H, Dv);
    }
  }

  void merge(Parts parts) { merge_softmax(result, parts, H, Dv); }

  void finish(i64 batch, i64 node) {
    T* out = node_row<T>(a.out, batch, node);
    A* lse = a.lse ? of_row(a.lse, batch, node) : nullptr;
    A* stats = of_row(a.stats, batch, node, 2);
    for (int h = 0; h < H; ++h) {
      const A most = result[Fv + h], sum = result[Fv + H + h];
      stats[h] = most, stats[H + h] = sum == 0 ? 0 : 1 / sum;
      if (lse) lse[h] = sum == 0 ? -kInf<A> : most + log_of(sum);
    }
    for (int h = 0; h < H; ++h) narrow_row(out + h * Dv, result + h * Dv, Dv, stats[H + h]);
  }
};

struct EdgeScores : Attend {
  static constexpr int result_size = 0;

  explicit EdgeScores(const ew_attend_args& args) : Attend(args, *args.by_target) {}

  void compute(const Row& row) {
    if (!row.n()) return;
    score(row, a.query, a.key);
    apply_gain(row);
    apply_bias(row);
    A* to = static_cast<A*>(a.scores) + row.batch * side.edges * H;
    for (int e = 0; e < row.n(); ++e)
      copy(to + i64(row.numbers.index[e]) * H, scores + i64(e) * hp, H);
  }
  void merge(Parts) {}
  void finish(i64, i64) {}
};

}  // namespace EW_NS
