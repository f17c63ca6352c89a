// Inner loops over the edges of a row: dot products with nodes, and weighted sums.
//
//   dot   scores[e, h] (+)= x[h] . y[index[e], h]      for scores and gradients of weights
//   axpy  sum[h] += weights[e, h] y[index[e], h]       for weighted sums and gradients of nodes
//
// The head widths 8, 16, 32, 64 and 128 are compile-time constants. For these, as many heads as
// fill eight registers are computed at once, so that a gathered row is read once and in order. Other
// widths use a generic loop, in which the last vector of a head may be partial. The loops for the
// additive score are in additive_loops.h.
#pragma once

#include "row.h"

namespace EW_NS {

constexpr int kAhead = 16;  // Prefetch this many edges ahead: hardware cannot predict the indices.

// Whether loops for specific widths are compiled. They are not if 16-bit types have no conversion
// instructions, because such code is slow anyway.
constexpr bool kWidthsMatter = sizeof(T) == sizeof(A) || kVectorBytes > 16;

template <int D>
constexpr int kLanesOf = D < kWidth ? D : kWidth;  // Lanes per vector, for heads of width D.
template <int D> constexpr int heads_at_once() {
  const int heads = 8 * kLanesOf<D> / D;
  return heads < 1 ? 1 : heads > kLanesOf<D> ? kLanesOf<D> : heads;
}

// Number of vectors of N lanes that are summed across their lanes together.
template <int N> constexpr int kAtOnce = N < 4 ? N : 4;

// Prefetches n numbers of the node that the loop reaches kAhead edges later.
EW_INLINE void fetch_ahead(const T* y, i64 stride, Edges edges, int e, int n) {
  if (e + kAhead < edges.limit) prefetch(y + i64(edges.index[e + kAhead]) * stride, n);
}

// ---- dot ----

// Dot products for `Heads` heads and `Count` edges; their sums across lanes are computed together.
template <int D, int Heads, int Count>
EW_INLINE void dot_step(const Vec<A, kLanesOf<D>>* x, const T* y, i64 stride, Edges edges, int e,
                        A* scores, int hp, bool add) {
  constexpr int N = kLanesOf<D>, PerHead = D / N, Sums = Heads * Count;
  Vec<A, N> part[Sums];
  EW_EACH (b, Count) {
    const T* row = y + i64(edges.index[e + b]) * stride;
    fetch_ahead(y, stride, edges, e + b, Heads * D);
    EW_EACH (h, Heads) {
      Vec<A, N> sum = x[h * PerHead] * load<N>(row + h * D);
      EW_EACH (v, PerHead - 1) sum += x[h * PerHead + v + 1] * load<N>(row + h * D + (v + 1) * N);
      part[b * Heads + h] = sum;
    }
  }
  const Vec<A, Sums> sums = sum_each<A, N, Sums>(part);
  scores += i64(e) * hp;
  if (add) {
    EW_EACH (i, Sums) scores[i64(i / Heads) * hp + i % Heads] += lane(sums, i);
  } else {
    EW_EACH (i, Sums) scores[i64(i / Heads) * hp + i % Heads] = lane(sums, i);
  }
}

template <int D>
void dot_rows(const A* x, const T* y, i64 stride, Edges edges, A* scores, int heads, int hp, int,
              bool add) {
  constexpr int N = kLanesOf<D>, PerHead = D / N;
  in_blocks<heads_at_once<D>()>(heads, [&](auto block, int h) {
    constexpr int Heads = block, full = N < 8 ? N : 8, Count = Heads >= full ? 1 : full / Heads;
    Vec<A, N> own[Heads * PerHead];
    EW_EACH (i, Heads * PerHead) own[i] = load<N>(x + h * D + i * N);
    int e = 0;
    for (; e + Count <= edges.n; e += Count)
      dot_step<D, Heads, Count>(own, y + h * D, stride, edges, e, scores + h, hp, add);
    if constexpr (Count > 1)
      for (; e < edges.n; ++e)
        dot_step<D, Heads, 1>(own, y + h * D, stride, edges, e, scores + h, hp, add);
  });
}

// Calls f(Const<Count>, e, rows) for the edges e to e + Count - 1, with the vectors of their nodes.
template <int Most, class F>
EW_INLINE void in_rows(const T* y, i64 stride, Edges edges, int n, F f) {
  in_blocks<Most>(edges.n, [&](auto block, int e) {
    constexpr int Count = block;
    const T* rows[Count];
    EW_EACH (b, Count) {
      rows[b] = y + i64(edges.index[e + b]) * stride;
      fetch_ahead(y, stride, edges, e + b, n);
    }
    f(block, e, rows);
  });
}

inline void dot_rows_any(const A* x, const T* y, i64 stride, Edges edges, A* scores, int heads,
                         int hp, int width, bool add) {
  const int whole = width / kWidth * kWidth, rest = width - whole;
  in_rows<kAtOnce<kWidth>>(y, stride, edges, heads * width,
                           [&](auto block, int e, const T* const* rows) {
                             constexpr int Count = block;
                             for (int h = 0, at = 0; h < heads; ++h) {
                               Vector part[Count] = {};
                               for (const int end = at + whole; at < end; at += kWidth) {
                                 const Vector own = load<kWidth>(x + at);
                                 EW_EACH (b, Count) part[b] += own * load<kWidth>(rows[b] + at);
                               }
                               if (rest) {
                                 const Vector own = load_some<kWidth>(x + at, rest);
                                 EW_EACH (b, Count)
                                   part[b] += own * load_some<kWidth>(rows[b] + at, rest);
                                 at += rest;
                               }
                               const auto sums = sum_each<A, kWidth, Count>(part);
                               EW_EACH (b, Count) {
                                 A* to = scores + i64(e + b) * hp + h;
                                 *to = (add ? *to : A(0)) + lane(sums, b);
                               }
                             }
                           });
}

// ---- axpy ----

// Weighted sum for `Heads` heads. A head has n numbers in `PerHead` vectors of N lanes, of which the
// last may be partial. `width` is the distance between heads in memory.
template <int N, int PerHead, int Heads>
EW_INLINE void axpy_block(const A* weights, int hp, const T* y, i64 stride, Edges edges, A* to,
                          int width, int n = PerHead * N) {
  Vec<A, N> sum[Heads * PerHead];
  EW_EACH (h, Heads)
    EW_EACH (v, PerHead) sum[h * PerHead + v] = load_up_to<N>(to + h * width + v * N, n - v * N);
  for (int e = 0; e < edges.n; ++e) {
    const T* row = y + i64(edges.index[e]) * stride;
    fetch_ahead(y, stride, edges, e, (Heads - 1) * width + PerHead * N);
    EW_EACH (h, Heads) {
      const Vec<A, N> weight = splat<A, N>(weights[i64(e) * hp + h]);
      EW_EACH (v, PerHead) {  // Add weight times value.
        const T* value = row + h * width + v * N;
        sum[h * PerHead + v] +=
            weight * (v + 1 < PerHead ? load<N>(value) : load_up_to<N>(value, n - v * N));
      }
    }
  }
  EW_EACH (h, Heads)
    EW_EACH (v, PerHead) store_up_to<N>(to + h * width + v * N, sum[h * PerHead + v], n - v * N);
}

template <int D>
void axpy_rows(const A* weights, int hp, const T* y, i64 stride, Edges edges, A* to, int heads,
               int) {
  constexpr int N = kLanesOf<D>;
  in_blocks<heads_at_once<D>()>(heads, [&](auto block, int h) {
    axpy_block<N, D / N, block>(weights + h, hp, y + h * D, stride, edges, to + h * D, D);
  });
}

inline void axpy_rows_any(const A* weights, int hp, const T* y, i64 stride, Edges edges, A* to,
                          int heads, int width) {
  if (width < kWidth)
    return in_blocks<8>(heads, [&](auto block, int h) {
      const int at = h * width;
      axpy_block<kWidth, 1, block>(weights + h, hp, y + at, stride, edges, to + at, width, width);
    });
  for (int h = 0; h < heads; ++h)
    in_blocks<4>((width + kWidth - 1) / kWidth, [&](auto block, int v) {
      const int at = h * width + v * kWidth, n = width - v * kWidth;
      axpy_block<kWidth, block, 1>(weights + h, hp, y + at, stride, edges, to + at, 0, n);
    });
}

// ---- choice of the loops for a call ----

using DotRows = void (*)(const A* x, const T* y, i64 stride, Edges, A* scores, int heads, int hp,
                         int width, bool add);
using AxpyRows = void (*)(const A* weights, int hp, const T* y, i64 stride, Edges, A* to, int heads,
                          int width);

inline DotRows dot_of(int width) {
  if constexpr (kWidthsMatter) switch (width) {
      case 8:
        return dot_rows<8>;
      case 16:
        return dot_rows<16>;
      case 32:
        return dot_rows<32>;
      case 64:
        return dot_rows<64>;
      case 128:
        return dot_rows<128>;
    }
  return dot_rows_any;
}
inline AxpyRows axpy_of(int width) {
  if constexpr (kWidthsMatter) switch (width) {
      case 8:
        return axpy_rows<8>;
      case 16:
        return axpy_rows<16>;
      case 32:
        return axpy_rows<32>;
      case 64:
        return axpy_rows<64>;
      case 128:
        return axpy_rows<128>;
    }
  return axpy_rows_any;
}

}  // namespace EW_NS
