// Packing: copying one head of several nodes into a dense, padded and aligned array.
#pragma once

#include "nodes.h"
#include "tiles_products.h"

namespace EW_NS {

// zip interleaves the lanes of two vectors: a0 b0 a1 b1 ...
template <int L, int Half> constexpr int zip_lane(int lane) {
  return lane / 2 + Half * (L / 2) + (lane % 2) * L;
}
template <int L, class V, int... I> EW_INLINE void zip(V a, V b, V* low, V* high, Lanes<I...>) {
  *low = __builtin_shufflevector(a, b, zip_lane<L, 0>(I)...);
  *high = __builtin_shufflevector(a, b, zip_lane<L, 1>(I)...);
}
// Transposes a matrix of L vectors with L lanes in place.
template <int L, int Left> EW_INLINE void transpose(Vec<A, L>* x) {
  if constexpr (Left > 1) {
    Vec<A, L> y[L];
    EW_EACH (i, L / 2)
      zip<L>(x[i], x[i + L / 2], &y[2 * i], &y[2 * i + 1], typename MakeLanes<L>::type{});
    EW_EACH (i, L) x[i] = y[i];
    transpose<L, Left / 2>(x);
  }
}

// Returns n rounded up to a multiple of `multiple`.
EW_INLINE int up_to(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

// One head of n nodes. `node` lists the nodes; if it is null, they are consecutive.
struct HeadRows {
  const T* first;
  i64 stride;
  int n, width;
  const i32* node;
  const T* row(int i) const { return first + (node ? node[i] : i) * stride; }
};

// Writes to[i, d] = scale * x[i, d], with zeros up to whole vectors along d and whole groups along
// i. Returns whether all numbers are finite.
EW_INLINE bool pack(A* to, int row, HeadRows x, A scale) {
  const int whole = x.width / kWidth * kWidth, rest = x.width - whole;
  Vector wrong{};  // Sum of x - x, which is 0 for finite x and NaN otherwise.
  for (int i = 0; i < x.n; ++i, to += row) {
    const T* const from = x.row(i);
    for (int d = 0; d < whole; d += kWidth) {
      const Vector y = load<kWidth>(from + d) * scale;
      store<kWidth>(to + d, y);
      wrong += y - y;
    }
    if (rest) {
      const Vector y = load_some<kWidth>(from + whole, rest) * scale;
      store<kWidth>(to + whole, y);
      wrong += y - y;
    }
  }
  zero(to, i64(up_to(x.n, kGroup) - x.n) * row);
  return sum_lanes<kWidth, A>(wrong) == 0;
}
// Writes to[d, i] = x[i, d], in rows of kTile numbers, with zeros up to whole vectors along i.
EW_INLINE void pack_transposed(A* to, HeadRows x) {
  for (int i = 0; i < x.n; i += kWidth) {
    const int rows = x.n - i < kWidth ? x.n - i : kWidth;
    const T* from[kWidth];
    for (int r = 0; r < rows; ++r) from[r] = x.row(i + r);
    int d = 0;
    for (; d + kWidth <= x.width; d += kWidth) {
      Vector block[kWidth];
      EW_EACH (r, kWidth) block[r] = r < rows ? load<kWidth>(from[r] + d) : Vector{};
      transpose<kWidth, kWidth>(block);
      EW_EACH (r, kWidth) store<kWidth>(to + i64(d + r) * kTile + i, block[r]);
    }
    for (; d < x.width; ++d)
      for (int r = 0; r < kWidth; ++r)
        to[i64(d) * kTile + i + r] = r < rows ? A(widen(from[r][d])) : A(0);
  }
}

}  // namespace EW_NS
