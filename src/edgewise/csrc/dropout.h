// Dropout whose mask is a hash of (seed, example of the batch, edge, head). It is never stored,
// because the forward and backward pass and the other engines (engines/dropout.py) compute the same
// mask again.
#pragma once

#include "simd.h"

namespace EW_NS {

// Hashes a 32-bit number, or each number of a vector, by lowbias32.
template <class W> EW_INLINE W mix(W word) {
  word ^= word >> 16;
  word *= 0x7FEB352Du;
  word ^= word >> 15;
  word *= 0x846CA68Bu;
  return word ^ (word >> 16);
}

struct Dropout {
  u32 low, member, first_edge, threshold;
  A keep;  // The number 1 / (1 - rate).

  Dropout(u64 seed, double rate, i64 first, i64 batch)
      : low(u32(seed)),
        member(mix(u32(batch) + u32(seed >> 32))),
        first_edge(u32(first)),
        threshold(rate < 1 ? u32(rate * 4294967296.0) : 0),
        keep(rate < 1 ? A(1) / A(1 - rate) : A(0)) {}

  template <class W> EW_INLINE W edge_word(W edge) const {
    return mix(low ^ mix(edge + first_edge));
  }
  static EW_INLINE u32 head_word(u32 head) { return mix(head + 0x9E3779B9u); }

  // Returns for N pairs of edge and head: `keep` if the weight is kept, 0 if it is dropped.
  template <int N> EW_INLINE Vec<A, N> factor(Vec<u32, N> edge_and_head) const {
    const Vec<u32, N> drawn = mix(mix(edge_and_head) ^ member);
    if constexpr (N == 1) return drawn >= threshold ? keep : A(0);
    else return __builtin_convertvector(drawn >= threshold, Vec<A, N>) * -keep;  // true is -1
  }
};

}  // namespace EW_NS
