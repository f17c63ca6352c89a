// Threads for the kernels. They are those of PyTorch's OpenMP runtime, because the threads of a
// second runtime would compete with them.
//
// A team runs one worker on each of its threads. The work is divided into numbered items, which the
// workers take from a shared counter. Each output belongs to one item, so results are bitwise the
// same for any number of threads.
#pragma once

#include <cstdint>

#if defined(_WIN32)
#define EW_EXPORT extern "C" __declspec(dllexport)
#else
#define EW_EXPORT extern "C" __attribute__((visibility("default")))
#endif

namespace ew {

// Runs worker(context) on up to `threads` threads at once, including the caller's, and waits.
void run_team(int threads, void (*worker)(void*), void* context);

// Allocates aligned memory; returns null if there is not enough.
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
