#include "parallel.h"

#include <stdlib.h>
#if defined(_WIN32)
#include <malloc.h>
#include <windows.h>
#else
#include <pthread.h>
#endif

namespace {

using GompParallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
GompParallel gomp_parallel = nullptr;

struct Task {
  void (*worker)(void*);
  void* context;
};
#if defined(_WIN32)
using Thread = HANDLE;
DWORD WINAPI run_task(void* task) {
  static_cast<Task*>(task)->worker(static_cast<Task*>(task)->context);
  return 0;
}
bool start(Thread* thread, Task* task) {
  *thread = CreateThread(nullptr, 0, run_task, task, 0, nullptr);
  return *thread != nullptr;
}
void join(Thread thread) {
  WaitForSingleObject(thread, INFINITE);
  CloseHandle(thread);
}
#else
using Thread = pthread_t;
void* run_task(void* task) {
  static_cast<Task*>(task)->worker(static_cast<Task*>(task)->context);
  return nullptr;
}
bool start(Thread* thread, Task* task) { return !pthread_create(thread, nullptr, run_task, task); }
void join(Thread thread) { pthread_join(thread, nullptr); }
#endif

}  // namespace

// Sets the address of GOMP_parallel in PyTorch's OpenMP runtime. If it is null, each call creates
// new threads.
EW_EXPORT void ew_set_team(void* function) {
  gomp_parallel = reinterpret_cast<GompParallel>(function);
}

namespace ew {

void run_team(int threads, void (*worker)(void*), void* context) {
  constexpr int kMost = 256;
  if (threads <= 1) return worker(context);
  if (gomp_parallel) return gomp_parallel(worker, context, unsigned(threads), 0);
  Thread team[kMost];
  Task task{worker, context};
  int started = 0;
  while (started < threads - 1 && started < kMost && start(&team[started], &task)) ++started;
  worker(context);
  for (int i = 0; i < started; ++i) join(team[i]);
}

void* allocate(int64_t bytes) {
  const size_t size = size_t(bytes > 0 ? (bytes + 63) / 64 * 64 : 64);
#if defined(_WIN32)
  return _aligned_malloc(size, 64);
#else
  void* memory = nullptr;
  return posix_memalign(&memory, 64, size) ? nullptr : memory;
#endif
}

void release(void* memory) {
#if defined(_WIN32)
  _aligned_free(memory);
#else
  free(memory);
#endif
}

}  // namespace ew
