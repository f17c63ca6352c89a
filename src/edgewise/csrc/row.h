// The rows of a graph that a stage goes through, and the pieces of a very long one put together.
//
// A stage is a struct with
//   bool prepare()             takes scratch; false if there is no memory
//   void compute(const Row&)   works on one row and leaves its result in `result`
//   void merge(Parts)          makes `result` of those of a row's pieces
//   void finish(batch, node)   writes `result` to where it belongs
//   A* result; int result_size; A* slots   the last: room for the results of pieces
//   bool bad_index             whether an index of a table was out of range
// A stage whose rows have no result of their own, but write to the edges, has result_size 0.
#pragma once

#include "abi.h"
#include "nodes.h"

namespace EW_NS {

// Some edges, by the nodes at their other ends or by their own numbers: index[0..n) of an array
// with `limit` valid entries from here on (more than n: those of the next rows, to fetch ahead).
struct Edges {
  const i32* index;
  int n;
  i64 limit;

  Edges from(int first, int count) const { return {index + first, count, limit - first}; }
};

struct Row {
  i64 batch;
  i64 node;       // whose row it is: a target, or a source where the graph is transposed
  i64 group;      // the sum of parameters' gradients that it adds to
  Edges nodes;    // the nodes at the other ends
  Edges numbers;  // the same edges by the caller's numbers
  bool begins;    // whether the node's first edge is among these
  bool whole;     // whether all the node's edges are
  int n() const { return nodes.n; }
};

template <class F>
EW_INLINE void each_row(const ew_side& side, i64 batch, i64 group, const ew_chunk& chunk, F f) {
  const bool whole = chunk.slot < 0;
  for (i64 node = chunk.row_begin; node < chunk.row_end; ++node) {
    const i32 first = whole ? side.ptr[node] : chunk.edge_begin;
    const i32 n = (whole ? side.ptr[node + 1] : chunk.edge_end) - first;
    const i64 limit = side.edges - first;
    f(Row{batch,
          node,
          group,
          {side.col + first, n, limit},
          {side.edge + first, n, limit},
          first == side.ptr[node],
          whole});
  }
}

// The results of a row's pieces, in order.
struct Parts {
  const A* first;
  i64 size;
  int count;
  const A* operator[](int k) const { return first + k * size; }
};

// to = all parts joined by op, number by number
template <class Op> void merge_parts(A* to, Parts parts, Op op) {
  copy(to, parts[0], parts.size);
  for (int k = 1; k < parts.count; ++k)
    for (i64 i = 0; i < parts.size; ++i) to[i] = op(to[i], parts[k][i]);
}
inline void add_parts(A* to, Parts parts) {
  merge_parts(to, parts, [](A x, A y) { return x + y; });
}

// The softmax of a row from those of its pieces. A part is what was summed [heads, width]
// unnormalised, then the greatest score [heads] and the sum of exp(score - greatest) [heads].
inline void merge_softmax(A* to, Parts parts, int heads, int width) {
  const int greatest = heads * width, total = greatest + heads;
  zero(to, parts.size);
  for (int h = 0; h < heads; ++h) {
    A most = -kInf<A>;
    for (int k = 0; k < parts.count; ++k) {
      const A* part = parts[k];
      if (part[total + h] == 0) continue;  // nothing to read in this piece
      const A here = part[greatest + h];
      most = here > most || here != here ? here : most;
    }
    if (most == -kInf<A>) most = 0;
    for (int k = 0; k < parts.count; ++k) {
      const A* part = parts[k];
      // A piece without weight is added with factor 0, as its sum may be NaN.
      const bool empty = part[total + h] == 0;
      const A fade = empty ? 0 : exp_vec<kWidth>(splat<A, kWidth>(part[greatest + h] - most))[0];
      to[total + h] += part[total + h] * fade;
      add_scaled(to + h * width, part + h * width, fade, width);
    }
    to[greatest + h] = most;
  }
}

// ---- a number for each edge and head ----

// Scores and weights of a row are [edges, padded heads]: heads rounded up so that they repeat
// evenly along a vector.
EW_INLINE int padded_heads(int heads) {
  int padded = 1;
  while (padded < heads && padded < kWidth) padded *= 2;
  return padded < heads ? (heads + kWidth - 1) / kWidth * kWidth : padded;
}

}  // namespace EW_NS
