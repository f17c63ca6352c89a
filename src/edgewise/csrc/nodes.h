// Access to the vectors of nodes, and conversion between storage type and accumulation type.
#pragma once

#include "abi.h"
#include "simd.h"

namespace EW_NS {

template <class P> EW_INLINE P* node_row(const ew_nodes& x, i64 batch, i64 node) {
  return static_cast<P*>(x.data) + batch * x.batch_stride + node * x.node_stride;
}

EW_INLINE void zero(A* to, i64 n) { __builtin_memset(to, 0, n * sizeof(A)); }
EW_INLINE void copy(A* to, const A* from, i64 n) { __builtin_memcpy(to, from, n * sizeof(A)); }

// to = from * scale
EW_OUTLINE void widen_row(A* to, const T* from, int n, A scale = 1) {
  in_blocks<kWidth>(
      n, [&](auto lanes, int i) { store<lanes>(to + i, load<lanes>(from + i) * scale); });
}
EW_INLINE void narrow_row(T* to, const A* from, int n, A scale = 1) {
  in_blocks<kWidth>(
      n, [&](auto lanes, int i) { store<lanes>(to + i, load<lanes>(from + i) * scale); });
}

// to += from * scale
EW_INLINE void add_scaled(A* to, const A* from, A scale, int n) {
  in_blocks<kWidth>(n, [&](auto lanes, int i) {
    store<lanes>(to + i, load<lanes>(to + i) + load<lanes>(from + i) * scale);
  });
}

// Prefetches the first n numbers of a node.
EW_INLINE void fetch_row(const ew_nodes& x, i64 batch, i64 node, int n) {
  prefetch(node_row<const T>(x, batch, node), n);
}

}  // namespace EW_NS
