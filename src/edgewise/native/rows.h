// The inner loops: one row against the nodes that its edges name.
//
// All kernels are built from three of them. dot_rows: s[e, h] = x[h] . y[index[e], h]. axpy_rows:
// acc[h] += w[e, h] y[index[e], h]. additive_rows: s[e, h] = a[h] . act(x[h] + y[index[e], h]).
// Head widths 8 to 128 are compile-time constants, with as many heads at once as fill eight registers, so a
// gathered row is read once, in order; any other width takes the generic path. Scores live in a small buffer
// [edges, hp], hp the number of heads rounded up so that heads repeat evenly along a vector.
#pragma once

#include "simd.h"

namespace EW_NS {

constexpr int kAhead = 16;  // edges between a prefetch and its use: hardware cannot follow an index

template <class A> EW_INLINE int padded_heads(int heads) {
  int hp = 1;
  while (hp < heads && hp < kLanes<A>) hp *= 2;
  return hp < heads ? (heads + kLanes<A> - 1) / kLanes<A> * kLanes<A> : hp;
}

// A row's edges: index[0..n) of an array with `limit` valid entries from here on (more than n: the next rows).
struct Edges {
  const i32* index;
  int n;
  i64 limit;
};

template <class A, int D> constexpr int kWidthLanes = D < kLanes<A> ? D : kLanes<A>;
template <class A, int D> constexpr int heads_at_once() {
  const int L = kWidthLanes<A, D>;
  int heads = 8 * L / D;
  return heads < 1 ? 1 : heads > L ? L : heads;
}

// Calls f(integral constant HB, first head) over blocks of heads: the largest block first, then smaller ones.
template <int HB> struct Const { static constexpr int value = HB; };
template <int HB, class F> EW_INLINE void head_blocks(int h, int heads, F f) {
  for (; heads - h >= HB; h += HB) f(Const<HB>{}, h);
  if constexpr (HB > 1) {
    if (h < heads) head_blocks<HB / 2>(h, heads, f);
  }
}

// ---- dot ---------------------------------------------------------------------------------------------

template <class T, class A, int D, int HB, int EB>
EW_INLINE void dot_step(const Vec<A, kWidthLanes<A, D>>* x, const T* y, i64 ld, Edges edges, int e, A* s, int hp, bool add) {
  constexpr int L = kWidthLanes<A, D>, NV = D / L, R = HB * EB;
  Vec<A, L> part[R];
  for (int b = 0; b < EB; ++b) {
    const T* row = y + i64(edges.index[e + b]) * ld;
    if (e + b + kAhead < edges.limit) prefetch(y + i64(edges.index[e + b + kAhead]) * ld, HB * D);
    for (int h = 0; h < HB; ++h) {
      Vec<A, L> sum = x[h * NV] * load<L>(row + h * D);
      for (int v = 1; v < NV; ++v) sum += x[h * NV + v] * load<L>(row + h * D + v * L);
      part[b * HB + h] = sum;
    }
  }
  const Vec<A, R> sums = sum_each<A, L, R>(part);
  for (int b = 0; b < EB; ++b)
    for (int h = 0; h < HB; ++h) {
      A* to = s + i64(e + b) * hp + h;
      *to = add ? *to + sums[b * HB + h] : sums[b * HB + h];
    }
}

template <class T, class A, int D>
void dot_rows(const A* x, const T* y, i64 ld, Edges edges, A* s, int heads, int hp, int, bool add) {
  constexpr int L = kWidthLanes<A, D>, NV = D / L;
  head_blocks<heads_at_once<A, D>()>(0, heads, [&](auto block, int h) {
    constexpr int HB = decltype(block)::value;
    constexpr int full = L < 8 ? L : 8, EB = HB >= full ? 1 : full / HB;
    Vec<A, L> xr[HB * NV];
    for (int i = 0; i < HB * NV; ++i) xr[i] = load<L>(x + h * D + i * L);
    int e = 0;
    for (; e + EB <= edges.n; e += EB) dot_step<T, A, D, HB, EB>(xr, y + h * D, ld, edges, e, s + h, hp, add);
    if constexpr (EB > 1)
      for (; e < edges.n; ++e) dot_step<T, A, D, HB, 1>(xr, y + h * D, ld, edges, e, s + h, hp, add);
  });
}

template <class T, class A>
void dot_rows_any(const A* x, const T* y, i64 ld, Edges edges, A* s, int heads, int hp, int width, bool add) {
  constexpr int L = kLanes<A>;
  const int whole = width / L * L, rest = width - whole;
  for (int e = 0; e < edges.n; ++e) {
    const T* row = y + i64(edges.index[e]) * ld;
    if (e + kAhead < edges.limit) prefetch(y + i64(edges.index[e + kAhead]) * ld, heads * width);
    for (int h = 0; h < heads; ++h) {
      Vec<A, L> sum{};
      for (int d = 0; d < whole; d += L) sum += load<L>(x + h * width + d) * load<L>(row + h * width + d);
      if (rest) sum += load_some<L>(x + h * width + whole, rest) * load_some<L>(row + h * width + whole, rest);
      A* to = s + i64(e) * hp + h;
      *to = (add ? *to : A(0)) + sum_lanes<L, A>(sum);
    }
  }
}

// ---- axpy --------------------------------------------------------------------------------------------

// HB heads of NV vectors each; `width` is the distance between heads.
template <class T, class A, int L, int NV, int HB>
EW_INLINE void axpy_block(const A* w, int hp, const T* y, i64 ld, Edges edges, A* acc, int width) {
  Vec<A, L> sum[HB * NV];
  for (int h = 0; h < HB; ++h)
    for (int v = 0; v < NV; ++v) sum[h * NV + v] = load<L>(acc + h * width + v * L);
  for (int e = 0; e < edges.n; ++e) {
    const T* row = y + i64(edges.index[e]) * ld;
    if (e + kAhead < edges.limit) prefetch(y + i64(edges.index[e + kAhead]) * ld, (HB - 1) * width + NV * L);
    for (int h = 0; h < HB; ++h) {
      const Vec<A, L> weight = splat<A, L>(w[i64(e) * hp + h]);
      for (int v = 0; v < NV; ++v) sum[h * NV + v] += weight * load<L>(row + h * width + v * L);
    }
  }
  for (int h = 0; h < HB; ++h)
    for (int v = 0; v < NV; ++v) store<L>(acc + h * width + v * L, sum[h * NV + v]);
}

template <class T, class A, int D>
void axpy_rows(const A* w, int hp, const T* y, i64 ld, Edges edges, A* acc, int heads, int) {
  constexpr int L = kWidthLanes<A, D>;
  head_blocks<heads_at_once<A, D>()>(0, heads, [&](auto block, int h) {
    axpy_block<T, A, L, D / L, decltype(block)::value>(w + h, hp, y + h * D, ld, edges, acc + h * D, D);
  });
}

template <class T, class A>
void axpy_rows_any(const A* w, int hp, const T* y, i64 ld, Edges edges, A* acc, int heads, int width) {
  constexpr int L = kLanes<A>;
  for (int h = 0; h < heads; ++h) {
    const A* wh = w + h;
    const T* yh = y + h * width;
    A* to = acc + h * width;
    int d = 0;
    for (; width - d >= 8 * L; d += 8 * L) axpy_block<T, A, L, 8, 1>(wh, hp, yh + d, ld, edges, to + d, 0);
    if (width - d >= 4 * L) { axpy_block<T, A, L, 4, 1>(wh, hp, yh + d, ld, edges, to + d, 0); d += 4 * L; }
    if (width - d >= 2 * L) { axpy_block<T, A, L, 2, 1>(wh, hp, yh + d, ld, edges, to + d, 0); d += 2 * L; }
    if (width - d >= L) { axpy_block<T, A, L, 1, 1>(wh, hp, yh + d, ld, edges, to + d, 0); d += L; }
    if (d == width) continue;
    const int rest = width - d;
    Vec<A, L> sum = load_some<L>(to + d, rest);
    for (int e = 0; e < edges.n; ++e) {
      if (e + kAhead < edges.limit) prefetch(yh + d + i64(edges.index[e + kAhead]) * ld, rest);
      sum += wh[i64(e) * hp] * load_some<L>(yh + d + i64(edges.index[e]) * ld, rest);
    }
    store_some<L>(to + d, sum, rest);
  }
}

// ---- activations -------------------------------------------------------------------------------------

// value and slope of the activation at z, a vector at a time
struct Leaky {
  template <class A, int L> static EW_INLINE Vec<A, L> value(Vec<A, L> z, int, A slope) { return z > 0 ? z : z * slope; }
  template <class A, int L> static EW_INLINE Vec<A, L> slope(Vec<A, L> z, int, A slope) {
    return z > 0 ? splat<A, L>(1) : splat<A, L>(slope);
  }
};
EW_INLINE float erf_of(float x) { return __builtin_erff(x); }
EW_INLINE double erf_of(double x) { return __builtin_erf(x); }
struct Smooth {  // 1 tanh, 2 gelu (exact), 3 silu
  template <class A, int L> static EW_INLINE Vec<A, L> half_erf(Vec<A, L> z) {
    Vec<A, L> r;
    for (int i = 0; i < L; ++i) r[i] = A(0.5) * (1 + erf_of(z[i] * A(0.70710678118654752)));
    return r;
  }
  template <class A, int L> static EW_INLINE Vec<A, L> value(Vec<A, L> z, int kind, A) {
    if (kind == 1) return 1 - 2 / (1 + exp_vec<L>(2 * z));
    if (kind == 2) return z * half_erf<A, L>(z);
    return z / (1 + exp_vec<L>(-z));
  }
  template <class A, int L> static EW_INLINE Vec<A, L> slope(Vec<A, L> z, int kind, A) {
    if (kind == 1) {
      const Vec<A, L> t = 1 - 2 / (1 + exp_vec<L>(2 * z));
      return 1 - t * t;
    }
    if (kind == 2) return half_erf<A, L>(z) + z * exp_vec<L>(A(-0.5) * z * z) * A(0.39894228040143268);
    const Vec<A, L> g = 1 / (1 + exp_vec<L>(-z));
    return g * (1 + z * (1 - g));
  }
};

// What an additive score needs: the weight a [heads * width] (ones if the caller gave none), the activation,
// and optionally a vector on each edge, found by its number.
template <class T, class A> struct Additive {
  const A* weight;
  int kind;
  A slope;
  const T* on_edge;      // null: none
  i64 edge_stride;
  const i32* edge;
};

template <int L, class T, class A> EW_INLINE Vec<A, L> load_up_to(const T* p, int n) {
  if (n >= L) return load<L>(p);
  return load_some<L>(p, n);
}

// s[e, h] = sum over d of a[h, d] act(x[h, d] + y[h, d] + on_edge[h, d])
template <class T, class A, class Act, int D>
void additive_rows(const A* x, const T* y, i64 ld, Edges edges, const Additive<T, A>& f, A* s, int heads, int hp, int) {
  constexpr int L = kWidthLanes<A, D>, NV = D / L;
  head_blocks<(heads_at_once<A, D>() + 1) / 2>(0, heads, [&](auto block, int h) {
    constexpr int HB = decltype(block)::value;
    Vec<A, L> xr[HB * NV], ar[HB * NV];
    for (int i = 0; i < HB * NV; ++i) xr[i] = load<L>(x + h * D + i * L), ar[i] = load<L>(f.weight + h * D + i * L);
    const T* from = y + h * D;
    for (int e = 0; e < edges.n; ++e) {
      const T* row = from + i64(edges.index[e]) * ld;
      if (e + kAhead < edges.limit) prefetch(from + i64(edges.index[e + kAhead]) * ld, HB * D);
      Vec<A, L> part[HB];
      for (int k = 0; k < HB; ++k) {
        Vec<A, L> sum{};
        for (int v = 0; v < NV; ++v) {
          Vec<A, L> z = xr[k * NV + v] + load<L>(row + k * D + v * L);
          if (f.on_edge) z += load<L>(f.on_edge + f.edge[e] * f.edge_stride + (h + k) * D + v * L);
          sum += ar[k * NV + v] * Act::template value<A, L>(z, f.kind, f.slope);
        }
        part[k] = sum;
      }
      store<HB>(s + i64(e) * hp + h, sum_each<A, L, HB>(part));
    }
  });
}

// Heads of width 1 (GAT): the heads themselves fill the vectors, L of them at a time.
template <class T, class A, class Act, int L>
void additive_rows_flat(const A* x, const T* y, i64 ld, Edges edges, const Additive<T, A>& f, A* s, int heads, int hp, int) {
  for (int h = 0; h < heads; h += L) {
    const Vec<A, L> xr = load<L>(x + h), ar = load<L>(f.weight + h);
    for (int e = 0; e < edges.n; ++e) {
      if (e + kAhead < edges.limit) prefetch(y + i64(edges.index[e + kAhead]) * ld + h, L);
      Vec<A, L> z = xr + load<L>(y + i64(edges.index[e]) * ld + h);
      if (f.on_edge) z += load<L>(f.on_edge + f.edge[e] * f.edge_stride + h);
      store<L>(s + i64(e) * hp + h, ar * Act::template value<A, L>(z, f.kind, f.slope));
    }
  }
}
template <class T, class A, class Act, int L>
void additive_grad_flat(const A* x, const T* y, i64 ld, Edges edges, const Additive<T, A>& f, const A* ds, A* dx, A* da, T* dedge,
                        int heads, int hp, int) {
  for (int h = 0; h < heads; h += L) {
    const Vec<A, L> xr = load<L>(x + h), ar = load<L>(f.weight + h);
    Vec<A, L> sum = load<L>(dx + h), wsum = da ? load<L>(da + h) : Vec<A, L>{};
    for (int e = 0; e < edges.n; ++e) {
      if (e + kAhead < edges.limit) prefetch(y + i64(edges.index[e + kAhead]) * ld + h, L);
      Vec<A, L> z = xr + load<L>(y + i64(edges.index[e]) * ld + h);
      if (f.on_edge) z += load<L>(f.on_edge + f.edge[e] * f.edge_stride + h);
      const Vec<A, L> g = load<L>(ds + i64(e) * hp + h), gz = g * ar * Act::template slope<A, L>(z, f.kind, f.slope);
      sum += gz;
      if (da) wsum += g * Act::template value<A, L>(z, f.kind, f.slope);
      if (dedge)
        for (int k = 0; k < L; ++k) dedge[f.edge[e] * i64(heads) + h + k] = Narrow<T>::of(gz[k]);
    }
    store<L>(dx + h, sum);
    if (da) store<L>(da + h, wsum);
  }
}

template <class T, class A, class Act>
void additive_rows_any(const A* x, const T* y, i64 ld, Edges edges, const Additive<T, A>& f, A* s, int heads, int hp, int width) {
  constexpr int L = kLanes<A>;
  for (int e = 0; e < edges.n; ++e) {
    const T* row = y + i64(edges.index[e]) * ld;
    const T* extra = f.on_edge ? f.on_edge + f.edge[e] * f.edge_stride : nullptr;
    if (e + kAhead < edges.limit) prefetch(y + i64(edges.index[e + kAhead]) * ld, heads * width);
    if (width == 1) {  // the heads themselves fill the vectors
      for (int h = 0; h < heads; h += L) {
        const int n = heads - h < L ? heads - h : L;
        Vec<A, L> z = load_up_to<L, A, A>(x + h, n) + load_up_to<L, T, A>(row + h, n);
        if (extra) z += load_up_to<L, T, A>(extra + h, n);
        store_some<L>(s + i64(e) * hp + h, load_up_to<L, A, A>(f.weight + h, n) * Act::template value<A, L>(z, f.kind, f.slope), n);
      }
      continue;
    }
    for (int h = 0; h < heads; ++h) {
      A sum = 0;
      for (int d = 0; d < width; d += L) {
        const int n = width - d < L ? width - d : L, at = h * width + d;
        Vec<A, L> z = load_up_to<L, A, A>(x + at, n) + load_up_to<L, T, A>(row + at, n);
        if (extra) z += load_up_to<L, T, A>(extra + at, n);
        sum += sum_lanes<L, A>(load_up_to<L, A, A>(f.weight + at, n) * Act::template value<A, L>(z, f.kind, f.slope));
      }
      s[i64(e) * hp + h] = sum;
    }
  }
}

// With ds[e, h] the gradient of the score: dx += ds a act'(z); da += ds act(z) if asked; dedge[e] = ds a act'(z)
// if asked (storage type, by edge number).
template <class T, class A, class Act, int D>
void additive_grad(const A* x, const T* y, i64 ld, Edges edges, const Additive<T, A>& f, const A* ds, A* dx, A* da, T* dedge,
                   int heads, int hp, int) {
  constexpr int L = kWidthLanes<A, D>, NV = D / L;
  head_blocks<(heads_at_once<A, D>() + 1) / 2>(0, heads, [&](auto block, int h) {
    constexpr int HB = decltype(block)::value, N = HB * NV;
    Vec<A, L> xr[N], ar[N], sum[N], wsum[N];
    for (int i = 0; i < N; ++i) {
      const int at = h * D + i * L;
      xr[i] = load<L>(x + at), ar[i] = load<L>(f.weight + at), sum[i] = load<L>(dx + at);
      wsum[i] = da ? load<L>(da + at) : Vec<A, L>{};
    }
    const T* from = y + h * D;
    for (int e = 0; e < edges.n; ++e) {
      const T* row = from + i64(edges.index[e]) * ld;
      if (e + kAhead < edges.limit) prefetch(from + i64(edges.index[e + kAhead]) * ld, HB * D);
      for (int i = 0; i < N; ++i) {
        Vec<A, L> z = xr[i] + load<L>(row + i * L);
        if (f.on_edge) z += load<L>(f.on_edge + f.edge[e] * f.edge_stride + h * D + i * L);
        const Vec<A, L> g = splat<A, L>(ds[i64(e) * hp + h + i / NV]);
        const Vec<A, L> gz = g * ar[i] * Act::template slope<A, L>(z, f.kind, f.slope);
        sum[i] += gz;
        if (da) wsum[i] += g * Act::template value<A, L>(z, f.kind, f.slope);
        if (dedge)
          for (int k = 0; k < L; ++k) dedge[f.edge[e] * i64(heads) * D + h * D + i * L + k] = Narrow<T>::of(gz[k]);
      }
    }
    for (int i = 0; i < N; ++i) {
      store<L>(dx + h * D + i * L, sum[i]);
      if (da) store<L>(da + h * D + i * L, wsum[i]);
    }
  });
}

template <class T, class A, class Act>
void additive_grad_any(const A* x, const T* y, i64 ld, Edges edges, const Additive<T, A>& f, const A* ds, A* dx, A* da, T* dedge,
                       int heads, int hp, int width) {
  constexpr int L = kLanes<A>;
  const int all = heads * width;
  for (int e = 0; e < edges.n; ++e) {
    const T* row = y + i64(edges.index[e]) * ld;
    const T* extra = f.on_edge ? f.on_edge + f.edge[e] * f.edge_stride : nullptr;
    if (e + kAhead < edges.limit) prefetch(y + i64(edges.index[e + kAhead]) * ld, all);
    const int step = width == 1 ? all : width;  // a run of elements whose score gradient is one vector or one number
    for (int begin = 0, h = 0; begin < all; begin += step, ++h)
      for (int at = begin; at < begin + step; at += L) {
        const int n = begin + step - at < L ? begin + step - at : L;
        Vec<A, L> z = load_up_to<L, A, A>(x + at, n) + load_up_to<L, T, A>(row + at, n);
        if (extra) z += load_up_to<L, T, A>(extra + at, n);
        const A* from = ds + i64(e) * hp;
        const Vec<A, L> g = width == 1 ? load_up_to<L, A, A>(from + at, n) : splat<A, L>(from[h]);
        const Vec<A, L> gz = g * load_up_to<L, A, A>(f.weight + at, n) * Act::template slope<A, L>(z, f.kind, f.slope);
        store_some<L>(dx + at, load_up_to<L, A, A>(dx + at, n) + gz, n);
        if (da) store_some<L>(da + at, load_up_to<L, A, A>(da + at, n) + g * Act::template value<A, L>(z, f.kind, f.slope), n);
        if (dedge)
          for (int k = 0; k < n; ++k) dedge[f.edge[e] * i64(all) + at + k] = Narrow<T>::of(gz[k]);
      }
  }
}

// ---- choosing ----------------------------------------------------------------------------------------

template <class T, class A> struct RowLoops {
  using Dot = void (*)(const A*, const T*, i64, Edges, A*, int, int, int, bool);
  using Axpy = void (*)(const A*, int, const T*, i64, Edges, A*, int, int);
  using Score = void (*)(const A*, const T*, i64, Edges, const Additive<T, A>&, A*, int, int, int);
  using Grad = void (*)(const A*, const T*, i64, Edges, const Additive<T, A>&, const A*, A*, A*, T*, int, int, int);

  static Dot dot(int width) {
    switch (width) {
      case 8: return dot_rows<T, A, 8>;
      case 16: return dot_rows<T, A, 16>;
      case 32: return dot_rows<T, A, 32>;
      case 64: return dot_rows<T, A, 64>;
      case 128: return dot_rows<T, A, 128>;
      default: return dot_rows_any<T, A>;
    }
  }
  static Axpy axpy(int width) {
    switch (width) {
      case 8: return axpy_rows<T, A, 8>;
      case 16: return axpy_rows<T, A, 16>;
      case 32: return axpy_rows<T, A, 32>;
      case 64: return axpy_rows<T, A, 64>;
      case 128: return axpy_rows<T, A, 128>;
      default: return axpy_rows_any<T, A>;
    }
  }
  static Score score(int width, int heads, int kind) {
    if (kind != 0) return additive_rows_any<T, A, Smooth>;
    if (width == 1 && heads % 8 == 0) return additive_rows_flat<T, A, Leaky, 8>;
    if (width == 1 && heads % 4 == 0) return additive_rows_flat<T, A, Leaky, 4>;
    if (width == 1 && heads == 1) return additive_rows_flat<T, A, Leaky, 1>;
    switch (width) {
      case 8: return additive_rows<T, A, Leaky, 8>;
      case 16: return additive_rows<T, A, Leaky, 16>;
      case 32: return additive_rows<T, A, Leaky, 32>;
      case 64: return additive_rows<T, A, Leaky, 64>;
      default: return additive_rows_any<T, A, Leaky>;
    }
  }
  static Grad grad(int width, int heads, int kind) {
    if (kind != 0) return additive_grad_any<T, A, Smooth>;
    if (width == 1 && heads % 8 == 0) return additive_grad_flat<T, A, Leaky, 8>;
    if (width == 1 && heads % 4 == 0) return additive_grad_flat<T, A, Leaky, 4>;
    if (width == 1 && heads == 1) return additive_grad_flat<T, A, Leaky, 1>;
    switch (width) {
      case 8: return additive_grad<T, A, Leaky, 8>;
      case 16: return additive_grad<T, A, Leaky, 16>;
      case 32: return additive_grad<T, A, Leaky, 32>;
      case 64: return additive_grad<T, A, Leaky, 64>;
      default: return additive_grad_any<T, A, Leaky>;
    }
  }
};

}  // namespace EW_NS
