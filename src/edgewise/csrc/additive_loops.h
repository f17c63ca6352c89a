// Inner loops for the additive score, a . act(x + y) for each head, and for its gradients.
//
// As in row_loops.h, common widths are compile-time constants. For heads of width 1 (GAT), a SIMD
// vector holds several heads. Only leaky ReLU has loops for specific widths, because computing one
// of the other activations takes longer than the rest of the loop.
#pragma once

#include "row_loops.h"

namespace EW_NS {

// ---- activations ----

struct Leaky {  // Leaky ReLU; with slope 0 it is ReLU, with slope 1 the identity.
  template <int N> static EW_INLINE Vec<A, N> value(Vec<A, N> z, int, A slope) {
    return z > 0 ? z : z * slope;
  }
  template <int N> static EW_INLINE Vec<A, N> slope(Vec<A, N> z, int, A slope) {
    return z > 0 ? splat<A, N>(1) : splat<A, N>(slope);
  }
};

EW_INLINE float erf_of(float x) { return __builtin_erff(x); }
EW_INLINE double erf_of(double x) { return __builtin_erf(x); }

struct Smooth {  // tanh, GELU (exact) or SiLU.
  template <int N> static EW_INLINE Vec<A, N> normal_distribution(Vec<A, N> z) {
    Vec<A, N> r;
    EW_EACH (i, N) r[i] = A(0.5) * (1 + erf_of(z[i] * A(0.70710678118654752)));
    return r;
  }
  template <int N> static EW_INLINE Vec<A, N> sigmoid(Vec<A, N> z) {
    return 1 / (1 + exp_vec<N>(-z));
  }
  template <int N> static EW_INLINE Vec<A, N> tanh(Vec<A, N> z) {
    return 1 - 2 / (1 + exp_vec<N>(2 * z));
  }
  template <int N> static EW_INLINE Vec<A, N> value(Vec<A, N> z, int kind, A) {
    if (kind == EW_TANH) return tanh<N>(z);
    if (kind == EW_GELU) return z * normal_distribution<N>(z);
    return z / (1 + exp_vec<N>(-z));
  }
  template <int N> static EW_INLINE Vec<A, N> slope(Vec<A, N> z, int kind, A) {
    if (kind == EW_TANH) {
      const Vec<A, N> t = tanh<N>(z);
      return 1 - t * t;
    }
    if (kind == EW_GELU)
      return normal_distribution<N>(z) + z * exp_vec<N>(A(-0.5) * z * z) * A(0.39894228040143268);
    const Vec<A, N> g = sigmoid<N>(z);
    return g * (1 + z * (1 - g));
  }
};

// ---- scores ----

// Arguments of the additive score of one row. `own` [heads, width] is the vector of the row, and
// `weight` [heads, width] is the vector a (ones if absent). `on_edge` are edge vectors, which are
// added inside the activation, or null.
struct Additive {
  const A* own;
  const A* weight;
  int activation;
  A slope;
  const T* on_edge;
  Edges numbers;  // Indices of the row's edges in `on_edge`.
  int heads, hp, width;

  EW_INLINE i64 edge_place(int e) const { return i64(numbers.index[e]) * heads * width; }
};

// scores[e, h] = sum over d of a[h, d] act(own[h, d] + y[index[e], h, d] + on_edge[e, h, d])
template <class Act, int D>
void additive_rows(const Additive& f, const T* y, i64 stride, Edges edges, A* scores) {
  constexpr int N = kLanesOf<D>, PerHead = D / N;
  const int hp = f.hp;
  in_blocks<(heads_at_once<D>() + 1) / 2>(f.heads, [&](auto block, int h) {
    constexpr int Heads = block;
    Vec<A, N> own[Heads * PerHead], a[Heads * PerHead];
    EW_EACH (i, Heads * PerHead)
      own[i] = load<N>(f.own + h * D + i * N), a[i] = load<N>(f.weight + h * D + i * N);
    const T* from = y + h * D;
    for (int e = 0; e < edges.n; ++e) {
      const T* row = from + i64(edges.index[e]) * stride;
      fetch_ahead(from, stride, edges, e, Heads * D);
      Vec<A, N> part[Heads];
      EW_EACH (k, Heads) {
        Vec<A, N> sum{};
        EW_EACH (v, PerHead) {
          Vec<A, N> z = own[k * PerHead + v] + load<N>(row + k * D + v * N);
          if (f.on_edge) z += load<N>(f.on_edge + f.edge_place(e) + (h + k) * D + v * N);
          sum += a[k * PerHead + v] * Act::template value<N>(z, f.activation, f.slope);
        }
        part[k] = sum;
      }
      store<Heads>(scores + i64(e) * hp + h, sum_each<A, N, Heads>(part));
    }
  });
}

// additive_rows for heads of width 1, N heads at a time.
template <class Act, int N>
void additive_rows_flat(const Additive& f, const T* y, i64 stride, Edges edges, A* scores) {
  const int hp = f.hp;
  for (int h = 0; h < f.heads; h += N) {
    const Vec<A, N> own = load<N>(f.own + h), a = load<N>(f.weight + h);
    for (int e = 0; e < edges.n; ++e) {
      fetch_ahead(y + h, stride, edges, e, N);
      Vec<A, N> z = own + load<N>(y + i64(edges.index[e]) * stride + h);
      if (f.on_edge) z += load<N>(f.on_edge + f.edge_place(e) + h);
      store<N>(scores + i64(e) * hp + h, a * Act::template value<N>(z, f.activation, f.slope));
    }
  }
}

template <class Act>
void additive_rows_any(const Additive& f, const T* y, i64 stride, Edges edges, A* scores) {
  constexpr int N = kWidth;
  const int hp = f.hp, all = f.heads * f.width;
  const int step = f.width == 1 ? all : f.width;  // All heads of width 1, or one wider head.
  if (f.width == 0)                               // A sum over no elements is 0.
    for (int e = 0; e < edges.n; ++e)
      for (int h = 0; h < f.heads; ++h) scores[i64(e) * hp + h] = 0;
  for (int begin = 0, h = 0; begin < all; begin += step, ++h)
    for (int at = begin; at < begin + step; at += N) {
      const int n = begin + step - at < N ? begin + step - at : N;
      const Vector own = load_up_to<N>(f.own + at, n), a = load_up_to<N>(f.weight + at, n);
      for (int e = 0; e < edges.n; ++e) {
        fetch_ahead(y + at, stride, edges, e, n);
        Vector z = own + load_up_to<N>(y + i64(edges.index[e]) * stride + at, n);
        if (f.on_edge) z += load_up_to<N>(f.on_edge + f.edge_place(e) + at, n);
        const Vector terms = a * Act::template value<N>(z, f.activation, f.slope);
        A* to = scores + i64(e) * hp;
        if (f.width == 1) store_up_to<N>(to + at, terms, n);  // Each lane is a head.
        else to[h] = (at > begin ? to[h] : A(0)) + sum_lanes<N, A>(terms);
      }
    }
}

// ---- gradients ----

// Outputs of the gradient, given the gradient g[e, h] of the scores and the argument z of the
// activation: own += g a act'(z), and if not null, weight += g act(z) and
// on_edge[e] = g a act'(z), where e is the caller's index of the edge.
struct AdditiveGrad {
  A* own;
  A* weight;
  T* on_edge;
};

template <class Act, int D>
void additive_grad(const Additive& f, const T* y, i64 stride, Edges edges, const A* grads,
                   const AdditiveGrad& to) {
  constexpr int N = kLanesOf<D>, PerHead = D / N;
  const int hp = f.hp;
  in_blocks<(heads_at_once<D>() + 1) / 2>(f.heads, [&](auto block, int h) {
    constexpr int Count = block * PerHead;
    Vec<A, N> own[Count], a[Count], own_sum[Count], weight_sum[Count];
    EW_EACH (i, Count) {
      const int at = h * D + i * N;
      own[i] = load<N>(f.own + at), a[i] = load<N>(f.weight + at),
      own_sum[i] = load<N>(to.own + at);
      weight_sum[i] = to.weight ? load<N>(to.weight + at) : Vec<A, N>{};
    }
    const T* from = y + h * D;
    for (int e = 0; e < edges.n; ++e) {
      const T* row = from + i64(edges.index[e]) * stride;
      fetch_ahead(from, stride, edges, e, block * D);
      EW_EACH (i, Count) {
        Vec<A, N> z = own[i] + load<N>(row + i * N);
        if (f.on_edge) z += load<N>(f.on_edge + f.edge_place(e) + h * D + i * N);
        const Vec<A, N> g = splat<A, N>(grads[i64(e) * hp + h + i / PerHead]);
        const Vec<A, N> gz = g * a[i] * Act::template slope<N>(z, f.activation, f.slope);
        own_sum[i] += gz;
        if (to.weight) weight_sum[i] += g * Act::template value<N>(z, f.activation, f.slope);
        if (to.on_edge) store<N>(to.on_edge + f.edge_place(e) + h * D + i * N, gz);
      }
    }
    EW_EACH (i, Count) {
      store<N>(to.own + h * D + i * N, own_sum[i]);
      if (to.weight) store<N>(to.weight + h * D + i * N, weight_sum[i]);
    }
  });
}

template <class Act, int N>
void additive_grad_flat(const Additive& f, const T* y, i64 stride, Edges edges, const A* grads,
                        const AdditiveGrad& to) {
  const int hp = f.hp;
  for (int h = 0; h < f.heads; h += N) {
    const Vec<A, N> own = load<N>(f.own + h), a = load<N>(f.weight + h);
    Vec<A, N> own_sum = load<N>(to.own + h);
    Vec<A, N> weight_sum = to.weight ? load<N>(to.weight + h) : Vec<A, N>{};
    for (int e = 0; e < edges.n; ++e) {
      fetch_ahead(y + h, stride, edges, e, N);
      Vec<A, N> z = own + load<N>(y + i64(edges.index[e]) * stride + h);
      if (f.on_edge) z += load<N>(f.on_edge + f.edge_place(e) + h);
      const Vec<A, N> g = load<N>(grads + i64(e) * hp + h);
      const Vec<A, N> gz = g * a * Act::template slope<N>(z, f.activation, f.slope);
      own_sum += gz;
      if (to.weight) weight_sum += g * Act::template value<N>(z, f.activation, f.slope);
      if (to.on_edge) store<N>(to.on_edge + f.edge_place(e) + h, gz);
    }
    store<N>(to.own + h, own_sum);
    if (to.weight) store<N>(to.weight + h, weight_sum);
  }
}

template <class Act>
void additive_grad_any(const Additive& f, const T* y, i64 stride, Edges edges, const A* grads,
                       const AdditiveGrad& to) {
  constexpr int N = kWidth;
  const int all = f.heads * f.width;
  const int step = f.width == 1 ? all : f.width;  // All heads of width 1, or one wider head.
  for (int begin = 0, h = 0; begin < all; begin += step, ++h)
    for (int at = begin; at < begin + step; at += N) {
      const int n = begin + step - at < N ? begin + step - at : N;
      const Vector own = load_up_to<N>(f.own + at, n), a = load_up_to<N>(f.weight + at, n);
      Vector own_sum = load_up_to<N>(to.own + at, n), weight_sum{};
      for (int e = 0; e < edges.n; ++e) {
        fetch_ahead(y + at, stride, edges, e, n);
        const A* from = grads + i64(e) * f.hp;
        Vector z = own + load_up_to<N>(y + i64(edges.index[e]) * stride + at, n);
        if (f.on_edge) z += load_up_to<N>(f.on_edge + f.edge_place(e) + at, n);
        const Vector g = f.width == 1 ? load_up_to<N>(from + at, n) : splat<A, N>(from[h]);
        const Vector gz = g * a * Act::template slope<N>(z, f.activation, f.slope);
        own_sum += gz;
        if (to.weight) weight_sum += g * Act::template value<N>(z, f.activation, f.slope);
        for (int k = 0; to.on_edge && k < n; ++k)
          to.on_edge[f.edge_place(e) + at + k] = Narrow<T>::of(gz[k]);
      }
      store_up_to<N>(to.own + at, own_sum, n);
      if (to.weight)
        store_up_to<N>(to.weight + at, load_up_to<N>(to.weight + at, n) + weight_sum, n);
    }
}

// ---- choice of the loops for a call ----

struct AdditiveLoops {
  void (*scores)(const Additive&, const T* y, i64 stride, Edges, A* scores);
  void (*grad)(const Additive&, const T* y, i64 stride, Edges, const A* grads, const AdditiveGrad&);
};

inline AdditiveLoops additive_of(int width, int heads, int activation) {
  if (activation != EW_LEAKY) return {additive_rows_any<Smooth>, additive_grad_any<Smooth>};
  if (width == 1) {
    if (heads % 8 == 0) return {additive_rows_flat<Leaky, 8>, additive_grad_flat<Leaky, 8>};
    if (heads % 4 == 0) return {additive_rows_flat<Leaky, 4>, additive_grad_flat<Leaky, 4>};
    if (heads == 1) return {additive_rows_flat<Leaky, 1>, additive_grad_flat<Leaky, 1>};
  }
  if constexpr (kWidthsMatter) switch (width) {
      case 8:
        return {additive_rows<Leaky, 8>, additive_grad<Leaky, 8>};
      case 16:
        return {additive_rows<Leaky, 16>, additive_grad<Leaky, 16>};
      case 32:
        return {additive_rows<Leaky, 32>, additive_grad<Leaky, 32>};
      case 64:
        return {additive_rows<Leaky, 64>, additive_grad<Leaky, 64>};
    }
  return {additive_rows_any<Leaky>, additive_grad_any<Leaky>};
}

}  // namespace EW_NS
