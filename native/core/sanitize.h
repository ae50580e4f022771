// What only builds with sanitizers do: check that objects and memory are touched under the interpreter lock, and tell
// ThreadSanitizer what OpenMP orders (libgomp's barriers are bare futexes, which it does not see).
#pragma once

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void*);
extern "C" void __tsan_release(void*);
#endif

namespace flambeau {

#if defined(__SANITIZE_THREAD__)
inline void happens_before(void* place) { __tsan_release(place); }
inline void happens_after(void* place) { __tsan_acquire(place); }
#else
inline void happens_before(void*) {}
inline void happens_after(void*) {}
#endif

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
void assert_locked();  // lock.cpp: aborts when this thread does not hold the interpreter lock
#else
inline void assert_locked() {}
#endif

}  // namespace flambeau
