// The random engine: MT19937 with the sampling rules that give PyTorch's numbers for the same seed.
#pragma once
#include <atomic>
#include <mutex>

#include "tensor.h"

namespace flambeau {

inline constexpr uint64_t kDefaultSeed = 67280421310721;
inline constexpr size_t kGeneratorStateBytes = 5056;
inline constexpr size_t kPhiloxStateBytes = 16;

// Held by whoever draws from a generator, reads its state or sets it, so that calls of several threads have some order.
// Waiting for it gives the interpreter lock back, and no other thread of this process ever waits for that in turn.
class GeneratorLock {
 public:
  void lock();
  void unlock() { taken.store(0, std::memory_order_release); }
 private:
  // 1 + the count of forks when it was taken: a holder from before a fork is not in this process
  std::atomic<unsigned> taken{0};
};

// A Generator is its Python object, as a Tensor is. A kernel draws while it has a Drawing, which holds `busy`.
struct Generator : Object {
  void* weakrefs;
  uint64_t seed;
  int32_t pos;              // next unused word of `out`; kWords: all used up
  bool fresh;               // seeded, nothing drawn yet
  bool has_normal;          // the second half of a pair of normals waits in `normal`
  double normal;
  static constexpr int kWords = 624;
  // `key`, and `out`, which is `key` tempered, begin with cache lines, wherever the object lies; it never moves.
  uint32_t words[2 * kWords + 16];
  uint32_t *const key = words + (-uintptr_t(words) / 4) % 16, *const out = key + kWords;
  GeneratorLock busy;
  Device device;            // CUDA: `seed` and `offset` are all there is (Philox), and the rest is not used
  uint64_t offset;          // how many numbers of the stream are used up

  Generator();
  void manual_seed(uint64_t seed);
  void refill();            // the next 624 words
  void fill32(uint32_t* to, int64_t n);

  uint32_t r32() {
    if (pos == kWords) refill();
    return out[pos++];
  }
  uint64_t r64() {
    uint64_t high = r32();
    return high << 32 | r32();
  }
  float u24() { return float(r32() & 0xffffff) * 0x1p-24f; }
  double u53() { return double(r64() & ((uint64_t(1) << 53) - 1)) * 0x1p-53; }
  double gauss();           // standard normal, drawn in pairs
};

uint64_t random_seed();                                              // from the system's entropy
void generator_state(const Generator& g, uint8_t* bytes);            // kGeneratorStateBytes of them
void set_generator_state(Generator& g, const uint8_t* bytes, size_t size);

// Holds a generator while numbers are drawn; made after LockRelease, so that nobody waits for the interpreter lock
// while holding it. A signal's handler may draw too, so signals wait.
struct Drawing {
  explicit Drawing(Generator& g) : guard(g.busy) {}
  std::lock_guard<GeneratorLock> guard;
  Uninterrupted uninterrupted;
};

Generator& default_generator();
Generator& default_generator_of(int cuda_device);
void seed_cuda_generators(uint64_t seed);  // the default ones of all devices, those that are made later too

}  // namespace flambeau
