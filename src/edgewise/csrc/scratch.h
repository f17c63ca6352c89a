// Scratch memory of one thread: arrays in one allocation, each aligned to a cache line.
#pragma once

#include "parallel.h"
#include "simd.h"

namespace EW_NS {

class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  ~Scratch() {
    if (memory_) ew::release(memory_);
  }

  // Allocates the arrays for which `list` calls place(pointer, count). `list` is called twice, to
  // sum the sizes and to set the pointers. Returns false if there is no memory.
  template <class List> bool allocate(List list) {
    list(*this);
    memory_ = static_cast<char*>(ew::allocate(size_));
    if (!memory_) return false;
    size_ = 0;
    list(*this);
    return true;
  }
  template <class P> void place(P*& array, i64 count) {
    if (memory_) array = reinterpret_cast<P*>(memory_ + size_);
    size_ += (count * i64(sizeof(P)) + 63) / 64 * 64;
  }

 private:
  char* memory_ = nullptr;
  i64 size_ = 0;
};

}  // namespace EW_NS
