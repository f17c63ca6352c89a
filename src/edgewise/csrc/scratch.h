// Temporary memory of one thread: several arrays in one allocation, each aligned to a cache line.
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

  // Allocates an array for each call place(pointer, count) that `list` makes. `list` is called
  // twice: first to add up the sizes, then to set the pointers. Returns false if there is not enough
  // memory.
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
