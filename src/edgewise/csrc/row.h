// Rows of a graph, which are the input of a stage, and merging of the pieces of a very long row.
//
// A stage is a kernel that computes row by row. It is a struct with these members:
//   bool prepare()             allocates memory; returns false if there is not enough
//   void compute(const Row&)   computes the `result` of a row or of a piece of a row
//   void merge(Parts)          computes the `result` of a row from the results of its pieces
//   void finish(batch, node)   writes the `result` of a row to the output
//   A* result; int result_size
//   A* slots                   memory for the results of all pieces
//   bool bad_index             whether an index of a table was out of range
// A stage that only writes to edges has result_size 0.
#pragma once

#include "abi.h"
#include "nodes.h"

namespace EW_NS {

// Edges of a row, given by n indices of nodes or of edges. The array `index` has `limit` valid
// entries, because those of the next rows follow; what they point to may be prefetched.
struct Edges {
  const i32* index;
  int n;
  i64 limit;

  Edges from(int first, int count) const { return {index + first, count, limit - first}; }
};

struct Row {
  i64 batch;
  i64 node;       // The target, or the source if the graph is transposed.
  i64 group;      // Index of the partial sum of parameter gradients to add to.
  Edges nodes;    // Nodes at the other ends of the edges.
  Edges numbers;  // Indices of the edges in the caller's order.
  bool begins;    // Whether these edges include the first edge of the node.
  bool whole;     // Whether these are all edges of the node.
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

// Results of the pieces of a row, in order.
struct Parts {
  const A* first;
  i64 size;
  int count;
  const A* operator[](int k) const { return first + k * size; }
};

// Reduces all parts by op, element by element, and writes the result to `to`.
template <class Op> void merge_parts(A* to, Parts parts, Op op) {
  copy(to, parts[0], parts.size);
  for (int k = 1; k < parts.count; ++k)
    for (i64 i = 0; i < parts.size; ++i) to[i] = op(to[i], parts[k][i]);
}
inline void add_parts(A* to, Parts parts) {
  merge_parts(to, parts, [](A x, A y) { return x + y; });
}

// Merges the attention outputs of the pieces of a row. A part consists of the sum of
// exp(score - greatest) * value [heads, width], the greatest score [heads] and the sum of
// exp(score - greatest) [heads].
inline void merge_softmax(A* to, Parts parts, int heads, int width) {
  const int greatest = heads * width, total = greatest + heads;
  zero(to, parts.size);
  for (int h = 0; h < heads; ++h) {
    A most = -kInf<A>;
    for (int k = 0; k < parts.count; ++k) {
      const A* part = parts[k];
      if (part[total + h] == 0) continue;  // All scores of this piece are -inf.
      const A here = part[greatest + h];
      most = here > most || here != here ? here : most;
    }
    if (most == -kInf<A>) most = 0;
    for (int k = 0; k < parts.count; ++k) {
      const A* part = parts[k];
      // Add a piece whose weights are all 0, instead of skipping it, so that NaN in it propagates.
      const bool empty = part[total + h] == 0;
      const A fade = empty ? 0 : exp_vec<kWidth>(splat<A, kWidth>(part[greatest + h] - most))[0];
      to[total + h] += part[total + h] * fade;
      add_scaled(to + h * width, part + h * width, fade, width);
    }
    to[greatest + h] = most;
  }
}

// ---- buffers with one number for each edge and head ----

// Scores and weights of a row have the shape [edges, padded heads]. The number of heads is rounded
// up to a divisor or to a multiple of the width of a vector.
EW_INLINE int padded_heads(int heads) {
  int padded = 1;
  while (padded < heads && padded < kWidth) padded *= 2;
  return padded < heads ? (heads + kWidth - 1) / kWidth * kWidth : padded;
}

}  // namespace EW_NS
