// Memory that a kernel needs while it runs. Large blocks are kept for the next kernel, because a fresh one costs a page
// fault for every 4 KB, often more than the work on it. Unlike tensor memory (memory.h) it is asked for without the
// interpreter lock, by any thread.
#pragma once
#include <cstddef>
#include <cstdint>

namespace flambeau {

void* take_scratch(size_t nbytes);  // 64-byte aligned; throws std::bad_alloc
void give_scratch(void* block);
void empty_scratch();  // frees what is kept

// n uninitialised elements of a type without constructor.
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t n) : data_(static_cast<T*>(take_scratch(size_t(n) * sizeof(T)))) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { give_scratch(data_); }
  T* data() const { return data_; }
  T& operator[](int64_t k) const { return data_[k]; }

 private:
  T* data_;
};

}  // namespace flambeau
