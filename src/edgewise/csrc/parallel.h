// Threads of PyTorch's OpenMP runtime, as those of a second runtime would compete with them.
//
// A team runs one worker on each of its threads, and workers claim numbered items from a counter.
// Each output belongs to one item, so results are bitwise the same for any number of threads.
#pragma once

#include <cstdint>

namespace ew {

// Runs worker(context) on up to `threads` threads at once, the caller's among them, and waits.
void run_team(int threads, void (*worker)(void*), void* context);

// Allocates aligned scratch; returns null if there is no memory.
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
