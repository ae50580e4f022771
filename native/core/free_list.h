// Free lists: objects that every call makes and drops are kept for the next call, up to a bound.
//
// Used with the interpreter lock held. memory.stats() shows every list, empty_cache() empties them all.
#pragma once
#include <cstddef>
#include <cstdint>

namespace flambeau {

// Clears a small object of a multiple of eight bytes, sixteen at a time, which none of them crosses a cache line with.
// GCC would make "rep stos" of memset, which takes some thirty cycles to begin.
inline void blank_words(void* object, size_t bytes) {
  typedef int64_t __attribute__((may_alias, vector_size(16), aligned(8))) Pair;
  typedef int64_t __attribute__((may_alias)) Word;
  char *at = static_cast<char*>(object), *end = at + bytes;
  for (; at + sizeof(Pair) <= end; at += sizeof(Pair)) *reinterpret_cast<Pair*>(at) = Pair{};
  for (; at < end; at += sizeof(Word)) *reinterpret_cast<Word*>(at) = 0;
}

struct FreeListBase {
  const char* name;        // as memory.stats() shows it
  size_t item_size;        // bytes
  size_t link;             // at which byte an unused object keeps the next one
  void (*destroy)(void*);  // gives one object back to the system
  void* head = nullptr;
  int64_t count = 0;
  FreeListBase* next;
  inline static FreeListBase* all = nullptr;

  FreeListBase(const char* name, size_t item_size, size_t link, void (*destroy)(void*))
      : name(name), item_size(item_size), link(link), destroy(destroy), next(all) {
    all = this;
  }
  void clear() {
    while (head) {
      void* first = head;
      head = word(first, link);
      --count;
      destroy(first);
    }
  }

 protected:
  typedef void* __attribute__((may_alias)) Word;
  static Word& word(void* object, size_t link) { return *reinterpret_cast<Word*>(static_cast<char*>(object) + link); }
};

// Objects of type T, chained through the word at byte `Link`; at most `Most` of them.
template <class T, size_t Link, int64_t Most = 1 << 14>
struct FreeList : FreeListBase {
  static constexpr int64_t kMost = Most;
  FreeList(const char* name, void (*destroy)(void*)) : FreeListBase(name, sizeof(T), Link, destroy) {}
  T* take() {  // null: none is kept
    void* t = head;
    if (t) {
      head = word(t, Link);
      --count;
    }
    return static_cast<T*>(t);
  }
  void give(T* t) {
    if (__builtin_expect(count >= Most, 0)) return destroy(t);
    word(t, Link) = head;
    head = t;
    ++count;
  }
};

}  // namespace flambeau
