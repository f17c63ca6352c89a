// Counter-based dropout: the mask is a hash of (seed, batch member, edge, head). All passes and all
// engines (engines/dropout.py) compute the same mask, so it is never stored.
#pragma once

#include "simd.h"

namespace EW_NS {

// Hashes a word, or each word of a vector, by lowbias32.
template <class W> EW_INLINE W mix(W word) {
  word ^= word >> 16;
  word *= 0x7FEB352Du;
  word ^= word >> 15;
  word *= 0x846CA68Bu;
  return word ^ (word >> 16);
}

struct Dropout {
  u32 low, member, first_edge, threshold;
  A keep;  // 1 / (1 - rate)

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

  // Returns `keep` for weights that are kept and 0 for dropped ones, for N pairs of edge and head.
  template <int N> EW_INLINE Vec<A, N> factor(Vec<u32, N> edge_and_head) const {
    const Vec<u32, N> drawn = mix(mix(edge_and_head) ^ member);
    if constexpr (N == 1) return drawn >= threshold ? keep : A(0);
    else return __builtin_convertvector(drawn >= threshold, Vec<A, N>) * -keep;  // true is -1
  }
};

}  // namespace EW_NS
