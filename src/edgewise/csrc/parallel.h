// Threads without a runtime of our own: PyTorch's OpenMP team is borrowed, so the two never fight.
//
// A team runs one worker on each of its threads, and workers claim numbered items from a counter.
// Who computes an item never changes its result (each output belongs to one item), so any number of
// threads gives the same bits.
#pragma once

#include <cstdint>

namespace ew {

// Runs worker(context) on up to `threads` threads at once, the caller's among them, and waits.
void run_team(int threads, void (*worker)(void*), void* context);

// Aligned scratch; null when there is no memory.
void* allocate(int64_t bytes);
void release(void* memory);

struct Counter {
  int64_t next, end;
  int64_t claim() {
    const int64_t item = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
    return item < end ? item : -1;
  }
};

}  // namespace ew
