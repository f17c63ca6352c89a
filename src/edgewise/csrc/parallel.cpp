#include "parallel.h"

#include <pthread.h>
#include <stdlib.h>

namespace {

using GompParallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
GompParallel gomp_parallel = nullptr;

struct Task {
  void (*worker)(void*);
  void* context;
};
void* run_task(void* task) {
  static_cast<Task*>(task)->worker(static_cast<Task*>(task)->context);
  return nullptr;
}

}  // namespace

// Sets the address of GOMP_parallel in PyTorch's OpenMP runtime. If it is null, each call creates
// new threads.
extern "C" __attribute__((visibility("default"))) void ew_set_team(void* function) {
  gomp_parallel = reinterpret_cast<GompParallel>(function);
}

namespace ew {

void run_team(int threads, void (*worker)(void*), void* context) {
  constexpr int kMost = 256;
  if (threads <= 1) return worker(context);
  if (gomp_parallel) return gomp_parallel(worker, context, unsigned(threads), 0);
  pthread_t team[kMost];
  Task task{worker, context};
  int started = 0;
  while (started < threads - 1 && started < kMost &&
         !pthread_create(&team[started], nullptr, run_task, &task))
    ++started;
  worker(context);
  for (int i = 0; i < started; ++i) pthread_join(team[i], nullptr);
}

void* allocate(int64_t bytes) {
  void* memory = nullptr;
  return posix_memalign(&memory, 64, size_t(bytes > 0 ? (bytes + 63) / 64 * 64 : 64)) ? nullptr
                                                                                      : memory;
}

void release(void* memory) { free(memory); }

}  // namespace ew
