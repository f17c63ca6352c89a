// Edge vectors W e, the projection of edge features e by a weight W. They are not computed for each
// edge: the dot product x . (W e) equals (W^T x) . e, where W^T x is computed once per node, and a
// sum of weight * W e equals W times the sum of weight * e.
#pragma once

#include "row_loops.h"

namespace EW_NS {

// Returns the features [count] of an edge.
EW_INLINE const A* features_of(const ew_vectors& v, i64 batch, i32 edge) {
  const A* all = static_cast<const A*>(v.features) + batch * v.features_batch_stride;
  return all + i64(edge) * v.count;
}
EW_INLINE const A* weight_of(const ew_vectors& v) { return static_cast<const A*>(v.weight); }

// Prefetches the features of the edge that the loop over a row reaches kAhead edges later. They are
// not adjacent in memory, because features are in the caller's edge order.
EW_INLINE void fetch_features(const ew_vectors& v, const Row& row, int e) {
  if (e + kAhead < row.numbers.limit)
    prefetch(features_of(v, row.batch, row.numbers.index[e + kAhead]), int(v.count));
}

// Calls f(Const<N>) with N = kWidth if it divides n, else with 4 or 1. There are fewer variants than
// in with_lanes, to keep the code small.
template <class F> EW_INLINE void with_whole_lanes(int n, F f) {
  if (n % kWidth == 0) return f(Const<kWidth>{});
  if constexpr (kWidth > 4)
    if (n % 4 == 0) return f(Const<4>{});
  f(Const<1>{});
}

// Projects a node: to[f, h] = sum over d of row[h, d] W[f, h, d]
inline void project(A* to, const A* row, const ew_vectors& v, int heads, int hp, int width) {
  const int count = int(v.count), elements = heads * width;
  const A* all = weight_of(v);
  if (hp != heads) zero(to, i64(count) * hp);
  with_whole_lanes(width, [&](auto lanes) {
    constexpr int N = lanes;
    for (int f = 0; f < count; ++f) {
      const A* w = all + i64(f) * elements;
      in_blocks<kAtOnce<N>>(heads, [&](auto block, int h) {
        constexpr int Heads = block;
        Vec<A, N> part[Heads];
        EW_EACH (k, Heads) {
          const int first = (h + k) * width;
          Vec<A, N> sum{};
          for (int d = first; d < first + width; d += N) sum += load<N>(row + d) * load<N>(w + d);
          part[k] = sum;
        }
        store<Heads>(to + i64(f) * hp + h, sum_each<A, N, Heads>(part));
      });
    }
  });
}

// to[e, h] += sum over f of features[e, f] projected[f, h]
inline void add_projected(A* to, const A* projected, const ew_vectors& v, const Row& row, int hp) {
  const int count = int(v.count);
  with_whole_lanes(hp, [&](auto lanes) {
    constexpr int N = lanes;
    in_blocks<4>(row.n(), [&](auto block, int e) {
      constexpr int Count = block;
      const A* from[Count];
      EW_EACH (b, Count) {
        fetch_features(v, row, e + b);
        from[b] = features_of(v, row.batch, row.numbers.index[e + b]);
      }
      for (int h = 0; h < hp; h += N) {
        Vec<A, N> sum[Count];
        EW_EACH (b, Count) sum[b] = load<N>(to + i64(e + b) * hp + h);
        for (int f = 0; f < count; ++f) {
          const Vec<A, N> p = load<N>(projected + i64(f) * hp + h);
          EW_EACH (b, Count) sum[b] += splat<A, N>(from[b][f]) * p;
        }
        EW_EACH (b, Count) store<N>(to + i64(e + b) * hp + h, sum[b]);
      }
    });
  });
}

// to[h, f] = sum over e of w[e, h] features[e, f], in vectors of features, or in vectors of heads if
// there are too few features to fill a vector
inline void sum_features(A* to, const A* w, const ew_vectors& v, const Row& row, int heads,
                         int hp) {
  const int count = int(v.count);
  if (count % 4 == 0 || hp < 4) {
    with_whole_lanes(count, [&](auto lanes) {
      constexpr int N = lanes;
      for (int f = 0; f < count; f += N)
        in_blocks<4>(heads, [&](auto block, int h) {
          constexpr int Heads = block;
          Vec<A, N> sum[Heads] = {};
          for (int e = 0; e < row.n(); ++e) {
            fetch_features(v, row, e);
            const Vec<A, N> x = load<N>(features_of(v, row.batch, row.numbers.index[e]) + f);
            EW_EACH (k, Heads) sum[k] += splat<A, N>(w[i64(e) * hp + h + k]) * x;
          }
          EW_EACH (k, Heads) store<N>(to + i64(h + k) * count + f, sum[k]);
        });
    });
    return;
  }
  with_whole_lanes(hp, [&](auto lanes) {
    constexpr int N = lanes;
    for (int h = 0; h < heads; h += N)
      in_blocks<4>(count, [&](auto block, int f) {
        constexpr int Features = block;
        Vec<A, N> sum[Features] = {};
        for (int e = 0; e < row.n(); ++e) {
          fetch_features(v, row, e);
          const A* from = features_of(v, row.batch, row.numbers.index[e]) + f;
          const Vec<A, N> weight = load<N>(w + i64(e) * hp + h);
          EW_EACH (k, Features) sum[k] += splat<A, N>(from[k]) * weight;
        }
        EW_EACH (k, Features)
          for (int i = 0; i < N && h + i < heads; ++i)
            to[i64(h + i) * count + f + k] = lane(sum[k], i);
      });
  });
}

// to[h, d] += sum over f of W[f, h, d] sums[h, f]
inline void add_expanded(A* to, const A* sums, const ew_vectors& v, int heads, int width) {
  const int count = int(v.count), elements = heads * width;
  const A* all = weight_of(v);
  with_whole_lanes(width, [&](auto lanes) {
    constexpr int N = lanes;
    in_blocks<4>(heads, [&](auto block, int h) {
      constexpr int Heads = block;
      for (int d = 0; d < width; d += N) {
        const A* w = all + h * width + d;
        A* at = to + h * width + d;
        Vec<A, N> sum[Heads];
        EW_EACH (k, Heads) sum[k] = load<N>(at + k * width);
        for (int f = 0; f < count; ++f, w += elements)
          EW_EACH (k, Heads)
            sum[k] += splat<A, N>(sums[i64(h + k) * count + f]) * load<N>(w + k * width);
        EW_EACH (k, Heads) store<N>(at + k * width, sum[k]);
      }
    });
  });
}

// Computes the gradients of features and W. There are two cases: g[e, h] is the gradient of the dot
// product of own[h] with the edge vector; or own[h] is the gradient of a sum of edge vectors, and
// g[e, h] are its weights. In both, the gradient of the features is g[e, h] projected[f, h], and
// that of W is own[h, d] sums[h, f], where sums[h, f] is the sum over e of g[e, h] features[e, f].
inline void projected_gradient(const ew_vectors& v, const A* g, const A* projected, const A* sums,
                               const A* own, const Row& row, i64 edges, int heads, int hp,
                               int width) {
  const int count = int(v.count), elements = heads * width;
  if (v.features_grad)
    with_whole_lanes(heads, [&](auto lanes) {
      constexpr int N = lanes;
      for (int e = 0; e < row.n(); ++e) {
        const i64 place = row.batch * edges + row.numbers.index[e];
        A* to = static_cast<A*>(v.features_grad) + place * count;
        in_blocks<kAtOnce<N>>(count, [&](auto block, int f) {
          constexpr int Features = block;
          Vec<A, N> part[Features] = {};
          for (int h = 0; h < heads; h += N) {
            const Vec<A, N> by = load<N>(g + i64(e) * hp + h);
            EW_EACH (k, Features) part[k] += by * load<N>(projected + i64(f + k) * hp + h);
          }
          store<Features>(to + f, load<Features>(to + f) + sum_each<A, N, Features>(part));
        });
      }
    });
  if (v.weight_grad) {
    A* all = static_cast<A*>(v.weight_grad) + row.group * elements * count;
    with_whole_lanes(width, [&](auto lanes) {
      constexpr int N = lanes;
      for (int h = 0; h < heads; ++h)
        for (int d = h * width; d < (h + 1) * width; d += N) {
          const Vec<A, N> x = load<N>(own + d);
          A* to = all + d;
          for (int f = 0; f < count; ++f, to += elements)
            store<N>(to, load<N>(to) + splat<A, N>(sums[i64(h) * count + f]) * x);
        }
    });
  }
}

// Writes the gradients g[e, h] own[h] of edge vectors that are not projected, in the caller's order.
inline void vector_gradient(T* to, const A* g, const A* own, Edges numbers, int heads, int hp,
                            int width) {
  for (int e = 0; e < numbers.n; ++e) {
    T* at = to + i64(numbers.index[e]) * heads * width;
    for (int h = 0; h < heads; ++h)
      narrow_row(at + h * width, own + h * width, width, g[i64(e) * hp + h]);
  }
}

// An additive score is not linear in the edge vectors, so these are computed after all, for at most
// kSpread edges at a time: to[e] = W e for n edges from `first`.
constexpr int kSpread = 32;

inline void expand(T* to, const ew_vectors& v, const Row& row, int first, int n, int elements) {
  const int count = int(v.count);
  const A* from[kSpread];
  for (int e = 0; e < n; ++e) {
    fetch_features(v, row, first + e);
    from[e] = features_of(v, row.batch, row.numbers.index[first + e]);
  }
  with_whole_lanes(elements, [&](auto lanes) {
    constexpr int N = lanes;
    in_blocks<4>(n, [&](auto edge_block, int e) {
      constexpr int Count = edge_block;
      in_blocks<2>(elements / N, [&](auto block, int i) {
        constexpr int Vectors = block;
        Vec<A, N> sum[Count * Vectors] = {};
        const A* w = weight_of(v) + i * N;
        for (int f = 0; f < count; ++f, w += elements)
          EW_EACH (k, Vectors) {
            const Vec<A, N> x = load<N>(w + k * N);
            EW_EACH (b, Count) sum[b * Vectors + k] += splat<A, N>(from[e + b][f]) * x;
          }
        EW_EACH (b, Count)
          EW_EACH (k, Vectors)
            store<N>(to + i64(e + b) * elements + (i + k) * N, sum[b * Vectors + k]);
      });
    });
  });
}
// Computes the gradients of features and W from the gradients of the vectors made by `expand`.
inline void unexpand(const T* grad, const ew_vectors& v, const Row& row, int first, int n,
                     i64 edges, int elements) {
  const int count = int(v.count);
  const A* from[kSpread];
  for (int e = 0; e < n; ++e) from[e] = features_of(v, row.batch, row.numbers.index[first + e]);
  with_whole_lanes(elements, [&](auto lanes) {
    constexpr int N = lanes;
    if (v.features_grad)
      for (int e = 0; e < n; ++e) {
        const i64 place = row.batch * edges + row.numbers.index[first + e];
        A* to = static_cast<A*>(v.features_grad) + place * count;
        const T* g = grad + i64(e) * elements;
        in_blocks<kAtOnce<N>>(count, [&](auto block, int f) {
          constexpr int Features = block;
          Vec<A, N> part[Features] = {};
          for (int i = 0; i < elements; i += N) {
            const Vec<A, N> x = load<N>(g + i);
            EW_EACH (k, Features) part[k] += x * load<N>(weight_of(v) + i64(f + k) * elements + i);
          }
          store<Features>(to + f, load<Features>(to + f) + sum_each<A, N, Features>(part));
        });
      }
    if (v.weight_grad) {
      A* all = static_cast<A*>(v.weight_grad) + row.group * elements * count;
      in_blocks<4>(count, [&](auto feature_block, int f) {
        constexpr int Features = feature_block;
        in_blocks<2>(elements / N, [&](auto block, int i) {
          constexpr int Vectors = block;
          A* to = all + i64(f) * elements + i * N;
          Vec<A, N> sum[Features * Vectors];
          EW_EACH (b, Features)
            EW_EACH (k, Vectors) sum[b * Vectors + k] = load<N>(to + i64(b) * elements + k * N);
          for (int e = 0; e < n; ++e)
            EW_EACH (k, Vectors) {
              const Vec<A, N> x = load<N>(grad + i64(e) * elements + (i + k) * N);
              EW_EACH (b, Features) sum[b * Vectors + k] += splat<A, N>(from[e][f + b]) * x;
            }
          EW_EACH (b, Features)
            EW_EACH (k, Vectors) store<N>(to + i64(b) * elements + k * N, sum[b * Vectors + k]);
        });
      });
    }
  });
}

}  // namespace EW_NS
