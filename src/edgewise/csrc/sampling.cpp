// Sampling of neighbours without replacement.
#include <cstdint>

#include "parallel.h"

namespace {

// Hashes a 32-bit number by lowbias32, as the dropout of the kernels does.
uint32_t mix(uint32_t word) {
  word ^= word >> 16;
  word *= 0x7FEB352Du;
  word ^= word >> 15;
  word *= 0x846CA68Bu;
  return word ^ (word >> 16);
}

}  // namespace

// Samples `fanout` of the edges into each target, or all if it has fewer or `fanout` is negative, by
// Floyd's algorithm with numbers that are a hash of (seed, target, draw). Row i of the graph has the
// edges ptr[i] to ptr[i + 1] - 1, and edge p the source col[p]. `local` has the position of each node
// in the sample, -1 if it is not there. Sources that are new are appended to `node` and get the next
// positions, from `nodes` on. For each sampled edge, in order of the targets, `edge` gets its index p,
// `source` and `target` the positions of its ends. Returns the number of new nodes.
EW_EXPORT int64_t ew_sample(int64_t count, const int64_t* targets, const int64_t* ptr,
                            const int32_t* col, int64_t fanout, uint64_t seed, int64_t nodes,
                            int32_t* local, int64_t* node, int64_t* edge, int64_t* source,
                            int64_t* target) {
  int64_t drawn = 0, added = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = targets[i], first = ptr[row], degree = ptr[row + 1] - first;
    const int64_t number = fanout < 0 || degree < fanout ? degree : fanout;
    const uint32_t row_word = mix(uint32_t(seed) ^ mix(uint32_t(row)));
    int64_t* chosen = edge + drawn;
    for (int64_t k = 0; k < number; ++k) {
      int64_t pick = k;
      if (number < degree) {
        const int64_t largest = degree - number + k;
        const uint32_t word = mix(uint32_t(seed >> 32) ^ mix(row_word ^ uint32_t(k)));
        pick = int64_t((uint64_t(word) * uint64_t(largest + 1)) >> 32);
        for (int64_t j = 0; j < k; ++j) {
          if (chosen[j] != first + pick) continue;
          pick = largest;  // It cannot have been chosen yet.
          break;
        }
      }
      chosen[k] = first + pick;
    }
    for (int64_t k = 0; k < number; ++k) {
      const int32_t from = col[chosen[k]];
      if (local[from] < 0) {
        local[from] = int32_t(nodes + added);
        node[added++] = from;
      }
      source[drawn + k] = local[from];
      target[drawn + k] = local[row];
    }
    drawn += number;
  }
  return added;
}
