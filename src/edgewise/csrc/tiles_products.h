// Small matrix products in registers: kGroup rows of a left matrix at a time.
//
// Short names in the headers of the tiles engine:
//   T          storage type of query, key and value
//   A          accumulation type, in which everything is computed
//   kWidth     number of values of type A in a vector register
//   kGroup     number of targets (rows) whose scores are computed together
//   kBlock     maximum number of targets in a block, the unit of work of the forward pass
//   kTile      maximum number of sources in a tile
//   H, Hk      number of heads of queries; number of heads of keys and values
//   D, Dv      width of a head of keys; width of a head of values
//   Dp, Vp     D and Dv, padded to whole vectors
//   place      index of a node after reordering; a.row and a.column map places to nodes
//   b, h, hk   example of the batch, head of queries, head of keys
//   g, r, j    first row of a group, row within the group, column of the tile
#pragma once

#include "simd.h"

namespace EW_NS {

constexpr int kGroup = kVectorBytes == 64 ? 8 : kWidth < 4 ? kWidth : 4;
constexpr int kBlock = EW_BLOCK, kTile = EW_TILE;

// Left matrices a[r, k] of a product, with kGroup rows r and `depth` columns k.
struct Rows {  // Row-major; rows are `row` numbers apart.
  const A* first;
  i64 row;
  EW_INLINE A operator()(int r, i64 k) const { return first[r * row + k]; }
};
struct TileRows {  // Row-major; rows are kTile numbers apart.
  const A* first;
  EW_INLINE A operator()(int r, i64 k) const { return first[r * kTile + k]; }
};
struct TileColumns {  // Transpose of a matrix whose rows are kTile numbers apart.
  const A* first;
  EW_INLINE A operator()(int r, i64 k) const { return first[k * kTile + r]; }
};
// Right matrix b[k, j] or result c[r, j]: row-major; rows are `row` numbers apart.
template <class P> struct Matrix {
  P* first;
  i64 row;
};

// c[r, j] = sum over k of a[r, k] b[k, j], for kGroup rows r and Count vectors of columns j. With
// Add, the sum is added to c[r, j].
template <bool Add, int Count, class Left>
EW_INLINE void product_of(Left a, Matrix<const A> b, Matrix<A> c, int depth) {
  Vector sum[kGroup][Count];
  EW_EACH (r, kGroup)
    EW_EACH (v, Count) sum[r][v] = Add ? load<kWidth>(c.first + r * c.row + v * kWidth) : Vector{};
  for (int k = 0; k < depth; ++k) {
    Vector row[Count];
    EW_EACH (v, Count) row[v] = load<kWidth>(b.first + k * b.row + v * kWidth);
    EW_EACH (r, kGroup) {
      const Vector x = splat<A, kWidth>(a(r, k));
      EW_EACH (v, Count) sum[r][v] += x * row[v];
    }
  }
  EW_EACH (r, kGroup)
    EW_EACH (v, Count) store<kWidth>(c.first + r * c.row + v * kWidth, sum[r][v]);
}
// Computes this product for any number of columns that is a multiple of kWidth.
template <bool Add, class Left>
EW_INLINE void product(Left a, Matrix<const A> b, Matrix<A> c, int columns, int depth) {
  for (; columns >= 2 * kWidth; columns -= 2 * kWidth) {
    product_of<Add, 2>(a, b, c, depth);
    b.first += 2 * kWidth, c.first += 2 * kWidth;
  }
  if (columns) product_of<Add, 1>(a, b, c, depth);
}

// c += a b, with only the terms for which `holds(r, k)` is true. It is used if b contains NaN or
// infinity: 0 times such a value is NaN, which must reach every target that attends to this source,
// even with weight 0, but no other target.
template <class Left, class Holds>
EW_OUTLINE void product_of_some(Left a, Matrix<const A> b, Matrix<A> c, int columns, int depth,
                                Holds holds) {
  for (int r = 0; r < kGroup; ++r)
    for (int k = 0; k < depth; ++k) {
      if (!holds(r, k)) continue;
      const A x = a(r, k);
      for (int j = 0; j < columns; ++j) c.first[r * c.row + j] += x * b.first[k * b.row + j];
    }
}
// c += a b. It uses the fast product if b is finite, and otherwise only terms with `holds(r, k)`.
template <class Left, class Holds>
EW_INLINE void add_product(Left a, Matrix<const A> b, Matrix<A> c, int columns, int depth,
                           bool finite, Holds holds) {
  if (finite) product<true>(a, b, c, columns, depth);
  else product_of_some(a, b, c, columns, depth, holds);
}

}  // namespace EW_NS
