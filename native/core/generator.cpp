// MT19937: seeding, the twist over a whole block, tempering, and PyTorch's layout of the saved state.
#include "generator.h"

#include "call.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace flambeau {

namespace {

constexpr int kShift = 397;

uint32_t twist(uint32_t a, uint32_t b, uint32_t far) {
  uint32_t mixed = (a & 0x80000000u) | (b & 0x7fffffffu);
  return far ^ (mixed >> 1) ^ (-(b & 1u) & 0x9908b0dfu);
}

uint32_t temper(uint32_t y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

// Words from `begin` on, each from the one `far` places away; as they are used they are tempered.
void next_words(uint32_t* __restrict key, uint32_t* __restrict out, int begin, int end, int far) {
#pragma GCC ivdep
  for (int i = begin; i < end; ++i) {
    const uint32_t word = twist(key[i], key[i + 1], key[i + far]);
    key[i] = word;
    out[i] = temper(word);
  }
}

// Offsets in the saved state: an image of PyTorch's engine and its cached normal.
enum : size_t { kSeed = 0, kLeft = 8, kSeeded = 12, kNext = 16, kKey = 24, kNormal = 5024, kHasNormal = 5040 };

template <class T>
void put(uint8_t* bytes, size_t at, T value) { std::memcpy(bytes + at, &value, sizeof value); }
template <class T>
T get(const uint8_t* bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes + at, sizeof value);
  return value;
}

}  // namespace

void GeneratorLock::lock() {
  const unsigned mine = 1 + process.fork_count;
  for (unsigned found = 0; !taken.compare_exchange_weak(found, mine, std::memory_order_acquire);) {
    if (found != mine) continue;  // free, or the holder stayed in the parent: ours if nobody is faster
    wait_until([](const void* t) { return !static_cast<const std::atomic<unsigned>*>(t)->load(); }, &taken);
    found = 0;
  }
}

Generator::Generator() : Object{1, nullptr}, weakrefs(nullptr), offset(0) { manual_seed(kDefaultSeed); }

void Generator::manual_seed(uint64_t value) {
  seed = value;
  key[0] = uint32_t(value);
  for (int i = 1; i < kWords; ++i) key[i] = 1812433253u * (key[i - 1] ^ (key[i - 1] >> 30)) + uint32_t(i);
  pos = kWords;
  fresh = true;
  has_normal = false;
  normal = 0;
  offset = 0;
}

void Generator::refill() {
  // every step reads words at least 227 places away from what the same stretch writes: free of dependences per vector
  next_words(key, out, 0, kWords - kShift, kShift);
  next_words(key, out, kWords - kShift, kWords - 1, kShift - kWords);
  const uint32_t last = twist(key[kWords - 1], key[0], key[kShift - 1]);
  key[kWords - 1] = last;
  out[kWords - 1] = temper(last);
  pos = 0;
  fresh = false;
}

void Generator::fill32(uint32_t* to, int64_t n) {
  while (n > 0) {
    if (pos == kWords) refill();
    int64_t take = std::min<int64_t>(n, kWords - pos);
    std::memcpy(to, out + pos, take * sizeof(uint32_t));
    pos += int32_t(take);
    to += take;
    n -= take;
  }
}

double Generator::gauss() {
  if (has_normal) {
    has_normal = false;
    return normal;
  }
  double angle = 2 * M_PI * u53();
  double radius = std::sqrt(-2 * std::log1p(-u53()));
  normal = radius * std::sin(angle);
  has_normal = true;
  return radius * std::cos(angle);
}

uint64_t random_seed() {
  std::random_device entropy;
  uint64_t high = entropy();
  return (high << 32 | entropy()) & ((uint64_t(1) << 53) - 1);  // exact in a double, as users print and store it
}

void generator_state(const Generator& g, uint8_t* bytes) {
  if (g.device.type == DeviceType::CUDA) {
    put<uint64_t>(bytes, 0, g.seed);
    return put<uint64_t>(bytes, 8, g.offset);
  }
  std::memset(bytes, 0, kGeneratorStateBytes);
  put<uint64_t>(bytes, kSeed, g.seed);
  put<int32_t>(bytes, kLeft, g.fresh ? 1 : Generator::kWords + 1 - g.pos);
  put<int32_t>(bytes, kSeeded, 1);
  put<uint32_t>(bytes, kNext, g.fresh ? 0 : uint32_t(g.pos));
  for (int i = 0; i < Generator::kWords; ++i) put<uint64_t>(bytes, kKey + 8 * size_t(i), g.key[i]);
  put<double>(bytes, kNormal, g.has_normal ? g.normal : 0.0);
  put<int32_t>(bytes, kHasNormal, g.has_normal);
}

void set_generator_state(Generator& g, const uint8_t* bytes, size_t size) {
  if (g.device.type == DeviceType::CUDA) {
    if (size != kPhiloxStateBytes)
      runtime_error("set_state: expected a CUDA generator's state of ", kPhiloxStateBytes, " bytes, got ", size);
    g.seed = get<uint64_t>(bytes, 0);
    g.offset = get<uint64_t>(bytes, 8);
    return;
  }
  if (size != kGeneratorStateBytes)
    runtime_error("set_state: expected a generator state of ", kGeneratorStateBytes, " bytes, got ", size);
  int32_t left = get<int32_t>(bytes, kLeft);
  uint32_t next = get<uint32_t>(bytes, kNext);
  bool fresh = left == 1 && next == 0;
  if (!fresh && (next > Generator::kWords || left != int32_t(Generator::kWords + 1 - next)))
    runtime_error("set_state: the bytes are not the state of a CPU generator (position ", next, ", left ", left, ")");
  g.seed = get<uint64_t>(bytes, kSeed);
  for (int i = 0; i < Generator::kWords; ++i) g.key[i] = uint32_t(get<uint64_t>(bytes, kKey + 8 * size_t(i)));
  std::transform(g.key, g.key + Generator::kWords, g.out, temper);
  g.fresh = fresh;
  g.pos = fresh ? Generator::kWords : int32_t(next);
  g.has_normal = get<int32_t>(bytes, kHasNormal) != 0;
  g.normal = get<double>(bytes, kNormal);
}

Generator& default_generator() {
  static Generator* g = hooks.allocate_generator();
  return *g;
}

namespace {
struct CudaGenerators {  // under the interpreter lock
  Generator* all[kMaxCudaDevices] = {};
  uint64_t seed = kDefaultSeed;  // of those that are not made yet
};
CudaGenerators& cuda_generators() {
  static CudaGenerators g;
  return g;
}
}  // namespace

Generator& default_generator_of(int cuda_device) {
  Generator*& g = cuda_generators().all[cuda_device];
  if (!g) {
    g = hooks.allocate_generator();
    g->device = {DeviceType::CUDA, int8_t(cuda_device)};
    g->manual_seed(cuda_generators().seed);
  }
  return *g;
}
void seed_cuda_generators(uint64_t seed) {
  cuda_generators().seed = seed;
  for (Generator* g : cuda_generators().all)
    if (g) g->manual_seed(seed);
}

}  // namespace flambeau
