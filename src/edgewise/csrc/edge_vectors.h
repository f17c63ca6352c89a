// Vectors W e on edges, projected from features e and never made for all edges: a dot product with
// W e is one with e once the other side is projected, and a weighted sum of them is W times one.
#pragma once

#include "row.h"

namespace EW_NS {

// The features [count] of an edge, and W [heads, width, count].
EW_INLINE const A* features_of(const ew_vectors& v, i64 batch, i32 edge) {
  const A* all = static_cast<const A*>(v.features) + batch * v.features_batch_stride;
  return all + i64(edge) * v.count;
}
EW_INLINE const A* weight_of(const ew_vectors& v) { return static_cast<const A*>(v.weight); }

// to[f, h] = sum over d of row[h, d] W[h, d, f]: the projection moved from the edges to the node
inline void project(A* to, const A* row, const ew_vectors& v, int heads, int hp, int width) {
  const int count = int(v.count);
  const A* w = weight_of(v);
  zero(to, i64(count) * hp);
  for (int h = 0; h < heads; ++h)
    for (int d = 0; d < width; ++d, w += count)
      for (int f = 0; f < count; ++f) to[f * hp + h] += row[h * width + d] * w[f];
}

// to[e, h] += sum over f of features[e, f] projected[f, h]
inline void add_projected(A* to, const A* projected, const ew_vectors& v, const Row& row, int hp) {
  for (int e = 0; e < row.n(); ++e) {
    const A* from = features_of(v, row.batch, row.numbers.index[e]);
    for (int f = 0; f < v.count; ++f) add_scaled(to + i64(e) * hp, projected + f * hp, from[f], hp);
  }
}

// to[h, f] = sum over e of w[e, h] features[e, f]
inline void sum_features(A* to, const A* w, const ew_vectors& v, const Row& row, int heads,
                         int hp) {
  const int count = int(v.count);
  zero(to, i64(heads) * count);
  for (int e = 0; e < row.n(); ++e) {
    const A* from = features_of(v, row.batch, row.numbers.index[e]);
    for (int h = 0; h < heads; ++h) add_scaled(to + h * count, from, w[i64(e) * hp + h], count);
  }
}

// to[h, d] += sum over f of W[h, d, f] sums[h, f]
inline void add_expanded(A* to, const A* sums, const ew_vectors& v, int heads, int width) {
  const int count = int(v.count);
  const A* w = weight_of(v);
  for (int h = 0; h < heads; ++h)
    for (int d = 0; d < width; ++d, w += count) {
      A sum = 0;
      for (int f = 0; f < count; ++f) sum += w[f] * sums[h * count + f];
      to[h * width + d] += sum;
    }
}

// Gradients where g[e, h] is that of a dot product of own[h] with the vectors (or of a weighted sum
// whose gradient is own): of features, g[e, h] projected[f, h], and of W, own[h, d] sums[h, f],
// where `sums` are of g.
inline void projected_gradient(const ew_vectors& v, const A* g, const A* projected, const A* sums,
                               const A* own, const Row& row, i64 edges, int heads, int hp,
                               int width) {
  const int count = int(v.count);
  if (v.features_grad)
    for (int e = 0; e < row.n(); ++e) {
      const i64 place = row.batch * edges + row.numbers.index[e];
      A* to = static_cast<A*>(v.features_grad) + place * count;
      for (int f = 0; f < count; ++f) {
        A sum = 0;
        for (int h = 0; h < heads; ++h) sum += g[i64(e) * hp + h] * projected[f * hp + h];
        to[f] += sum;
      }
    }
  if (v.weight_grad) {
    A* to = static_cast<A*>(v.weight_grad) + row.group * heads * width * count;
    for (int h = 0; h < heads; ++h)
      for (int d = 0; d < width; ++d, to += count)
        add_scaled(to, sums + h * count, own[h * width + d], count);
  }
}

// Gradients of full vectors: g[e, h] own[h], by edge number
inline void vector_gradient(T* to, const A* g, const A* own, Edges numbers, int heads, int hp,
                            int width) {
  for (int e = 0; e < numbers.n; ++e) {
    T* at = to + i64(numbers.index[e]) * heads * width;
    for (int h = 0; h < heads; ++h)
      narrow_row(at + h * width, own + h * width, width, g[i64(e) * hp + h]);
  }
}

// Through an additive score, which is not linear in the vectors, they are made after all, of a few
// edges at a time: to[e] = W e for n edges from `first` on
inline void expand(T* to, const ew_vectors& v, const Row& row, int first, int n, int elements) {
  const int count = int(v.count);
  for (int e = 0; e < n; ++e) {
    const A* from = features_of(v, row.batch, row.numbers.index[first + e]);
    const A* w = weight_of(v);
    for (int i = 0; i < elements; ++i, w += count) {
      A sum = 0;
      for (int f = 0; f < count; ++f) sum += w[f] * from[f];
      to[i64(e) * elements + i] = Narrow<T>::of(sum);
    }
  }
}
// and from the gradient of these vectors to that of features and W.
inline void unexpand(const T* grad, const ew_vectors& v, const Row& row, int first, int n,
                     i64 edges, int elements) {
  const int count = int(v.count);
  A* const to_weight =
      v.weight_grad ? static_cast<A*>(v.weight_grad) + row.group * elements * count : nullptr;
  for (int e = 0; e < n; ++e) {
    const i32 edge = row.numbers.index[first + e];
    const A* from = features_of(v, row.batch, edge);
    A* const to_features =
        v.features_grad ? static_cast<A*>(v.features_grad) + (row.batch * edges + edge) * count
                        : nullptr;
    for (int i = 0; i < elements; ++i) {
      const A g = widen(grad[i64(e) * elements + i]);
      if (to_features) add_scaled(to_features, weight_of(v) + i64(i) * count, g, count);
      if (to_weight) add_scaled(to_weight + i64(i) * count, from, g, count);
    }
  }
}

}  // namespace EW_NS
