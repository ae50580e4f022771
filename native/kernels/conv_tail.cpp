// _convolution_tail: a convolution of float32 images, normalisation by running statistics, a tensor that is added, and
// an activation, as one. Graphs are rewritten to it; the result has its channels last.
//
// Normalisation is a factor and a shift for each channel: they go into the weights and the bias. Weights in the order
// in which they are read are kept under the stamp of a parameter's memory (core/stamp.h), or else under a fingerprint
// of their bytes.
#include "conv_tail.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "../core/channels_last.h"
#include "../core/memory.h"
#include "../core/parallel.h"
#include "../core/stamp.h"
#include "correlate.h"
#include "gemm.h"
#include "options.h"
#include "winograd.h"

namespace flambeau {
namespace {

enum {
  kInput, kWeight, kBias, kScale, kShift, kMean, kVar, kEps, kOther, kStride, kPadding, kDilation, kTransposed,
  kOutputPadding, kGroups, kActivation, kLow, kHigh, kOverwrite
};
constexpr const char* kName = "_convolution_tail";

Activation activation_of(const Call& c) {
  static constexpr std::string_view kNames[] = {"none", "relu", "hardtanh", "silu", "hardswish"};
  const std::string_view name = c.str(kActivation);
  const auto* found = std::ranges::find(kNames, name);
  if (found == std::end(kNames))
    value_error(kName, ": activation is none, relu, hardtanh, silu or hardswish, got ", name);
  return {Activation::Kind(found - kNames), float(c.real(kLow)), float(c.real(kHigh))};
}

bool is_channels_last(const Tensor& t) { return std::ranges::equal(t.stride(), channels_last_strides(t.shape())); }

void check_vectors(const Call& c, int64_t channels) {
  for (int k : {kBias, kScale, kShift, kMean, kVar}) {
    const Tensor* t = c.optional_tensor(k);
    if (t && (t->dtype != DType::Float32 || t->numel != channels || t->ndim != 1))
      runtime_error(kName, ": vectors hold a float32 for each of the ", channels, " channels of the result, got ",
                    dtype_name(t->dtype), shape_text(t->shape()));
  }
  if (c.has(kMean) != c.has(kVar)) runtime_error(kName, ": the running mean and variance come together");
  if (!c.has(kMean) && (c.has(kScale) || c.has(kShift)))
    runtime_error(kName, ": a normalisation has a running mean and variance");
}

void infer_tail(Call& c) {
  const Tensor &x = c.tensor(kInput), &w = c.tensor(kWeight);
  if (x.ndim != 4 || x.dtype != DType::Float32 || c.boolean(kTransposed))
    runtime_error(kName, ": expected float32 images [n, channels, height, width], got ", dtype_name(x.dtype),
                  shape_text(x.shape()));
  const ConvProblem& p = c.hand_over(describe_convolution(c, x, w, c.optional_tensor(kBias), kStride));
  check_vectors(c, p.g.oc);
  activation_of(c);
  Tensor* other = c.optional_tensor(kOther);
  if (other && (other->dtype != x.dtype || !std::ranges::equal(other->shape(), p.result)))
    runtime_error(kName, ": what is added has the result's shape ", shape_text(p.result), " and dtype, got ",
                  dtype_name(other->dtype), shape_text(other->shape()));
  if (other && c.boolean(kOverwrite) && is_channels_last(*other)) return c.push(TensorRef::borrow(other));
  c.output(p.result, x.dtype, x.device, channels_last_strides(p.result));
}

// --- weights ---------------------------------------------------------------------------------------------------------

struct Fingerprint {
  uint64_t a, b;
  void add(uint64_t word) {
    a = std::rotl(a ^ word, 17) * 0xBF58476D1CE4E5B9u;
    b = (b + word) * 0x94D049BB133111EBu ^ (b >> 31);
  }
};

// Of `words` pairs of floats.
uint64_t fingerprint_of(const char* from, int64_t words, uint64_t seed) {
  constexpr int kLanes = 8;
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15u;
  uint64_t lane[kLanes];
  for (int k = 0; k < kLanes; ++k) lane[k] = seed + uint64_t(k) * kFactor;
  for (; words >= kLanes; words -= kLanes, from += 8 * kLanes) {
    uint64_t word[kLanes];
    std::memcpy(word, from, sizeof word);
    for (int k = 0; k < kLanes; ++k) lane[k] = std::rotl((lane[k] ^ word[k]) * kFactor, 29);
  }
  uint64_t rest[kLanes] = {}, sum = seed;
  std::memcpy(rest, from, size_t(words * 8));
  for (int k = 0; k < kLanes; ++k) {
    lane[k] = std::rotl((lane[k] ^ rest[k]) * kFactor, 29);
    sum = std::rotl(sum ^ lane[k], 17) * 0xBF58476D1CE4E5B9u;
  }
  return sum;
}

void add_to(Fingerprint& f, const Tensor& t) {
  constexpr int64_t kPiece = 1 << 15;  // pairs
  const int64_t words = t.numel / 2, pieces = std::max<int64_t>(1, (words + kPiece - 1) / kPiece);
  std::vector<uint64_t> of(static_cast<size_t>(pieces));
  parallel_for(pieces, 4, [&](int64_t k, int64_t end) {
    for (; k < end; ++k)
      of[size_t(k)] = fingerprint_of(t.data + k * kPiece * 8, std::min(kPiece, words - k * kPiece), f.a);
  });
  uint32_t odd = 0;
  if (t.numel % 2) std::memcpy(&odd, t.data + words * 8, 4);
  for (uint64_t piece : of) f.add(piece);
  f.a ^= uint64_t(t.numel) ^ uint64_t(odd) << 32;
}

struct Weights final : TailWeights {
  const ConvGeometry& g;
  // By position: weight, bias, scale, shift, mean, variance; contiguous (a weight may have its channels last), or null.
  TensorRef vector[kEps];
  double eps;
  Stamp stamp;  // of the weight's memory, where its writes are known: then it need not be read
  uint64_t offset = 0;

  Weights(const Call& c, const ConvGeometry& g) : g(g), eps(c.real(kEps)) {
    set_weight(c.tensor(kWeight));
    for (int k = kBias; k < kEps; ++k)
      if (Tensor* t = c.optional_tensor(k)) vector[k] = contiguous(*t);
  }
  Weights(const ConvGeometry& g, const Tensor& weight, const Tensor* bias) : g(g), eps(0) {
    set_weight(weight);
    if (bias) vector[kBias] = contiguous(*bias);
  }
  void set_weight(const Tensor& t) {
    vector[kWeight] = dense_weights(t);
    if (vector[kWeight].get() != &t) return;
    stamp = stamp_of(*t.storage);
    offset = uint64_t(t.offset());
  }
  const float* of(int k) const { return vector[k] ? vector[k]->ptr<float>() : nullptr; }

  Fingerprint fingerprint() const {
    Fingerprint f{std::bit_cast<uint64_t>(eps), uint64_t(1 + 2 * vector[kWeight]->contiguous())};
    for (int k = kWeight; k < kEps; ++k) {
      f.b ^= uint64_t(bool(vector[k])) << k;
      if (k == kWeight && stamp)
        for (uint64_t word : {stamp.memory, stamp.writes, offset}) f.add(word);
      else if (vector[k])
        add_to(f, *vector[k]);
    }
    return f;
  }
  std::shared_ptr<const PackedWeights> in_order(Key key, size_t bytes, const PutInOrder& order) const override;
  void plain(float* w, float* bias) const {
    const int64_t *s = vector[kWeight]->strides, *n = vector[kWeight]->sizes;
    for (int64_t oc = 0; oc < g.oc; ++oc) {
      double scale = 1, shift = of(kBias) ? of(kBias)[oc] : 0;
      if (of(kMean)) {
        scale = (of(kScale) ? of(kScale)[oc] : 1) / std::sqrt(of(kVar)[oc] + eps);
        shift = (shift - of(kMean)[oc]) * scale + (of(kShift) ? of(kShift)[oc] : 0);
      }
      bias[oc] = float(shift);
      const float factor = float(scale), *from = of(kWeight) + oc * s[0];
      for (int64_t i = 0; i < n[1]; ++i)
        for (int64_t y = 0; y < n[2]; ++y)
          for (int64_t x = 0; x < n[3]; ++x) *w++ = from[i * s[1] + y * s[2] + x * s[3]] * factor;
    }
  }
};

constexpr size_t kKeptBytes = size_t(512) << 20;
Recent<PackedWeights>& packed_weights() {
  static auto* cache = new Recent<PackedWeights>(kKeptBytes);
  return *cache;
}

std::shared_ptr<const PackedWeights> Weights::in_order(Key key, size_t bytes, const PutInOrder& order) const {
  const Fingerprint f = fingerprint();
  const int64_t these[] = {int64_t(f.a), int64_t(f.b), g.oc, g.icg(), g.groups, g.kernel[1], g.kernel[2]};
  key.insert(key.end(), std::begin(these), std::end(these));
  return packed_weights().get(key, [&] {
    auto made = std::make_shared<PackedWeights>(bytes, g.oc);
    std::vector<float> w(size_t(vector[kWeight]->numel));
    plain(w.data(), made->bias.data());
    order(w.data(), made->weights);
    return made;
  });
}

// --- computing -------------------------------------------------------------------------------------------------------

float activated(float v, Activation a) {
  switch (a.kind) {
    case Activation::Relu: return v < 0 ? 0 : v;
    case Activation::Clip: v = v < a.low ? a.low : v; return v > a.high ? a.high : v;
    case Activation::Silu: return v / (1 + std::exp(-v));
    case Activation::Hardswish: return v * std::clamp(v + 3, 0.f, 6.f) / 6;
    default: return v;
  }
}

// The same without oneDNN, and where there is little to do.
void by_parts(const ConvTail& t, const Weights& weights, const Tensor& x, float* y) {
  const ConvGeometry& g = t.g;
  std::vector<float> w(size_t(weights.vector[kWeight]->numel)), bias(size_t(g.oc));
  weights.plain(w.data(), bias.data());
  TensorRef plain = contiguous(x);
  const int64_t places = volume(g.out);
  std::vector<float> made(size_t(g.n * g.oc * places));
  conv_forward<float>(g, plain->ptr<float>(), w.data(), bias.data(), made.data());
  for (int64_t n = 0; n < g.n; ++n)
    for (int64_t p = 0; p < places; ++p)
      for (int64_t c = 0; c < g.oc; ++c) {
        float& to = y[(n * places + p) * g.oc + c];
        to = activated(made[size_t((n * g.oc + c) * places + p)] + (t.adds ? to : 0), t.activation);
      }
}

void winograd_with_tail(const ConvTail& t, const float* x, float* y, const TailWeights& weights) {
  const bool splits = winograd_splits(t.g, ConvResult::Output);
  const auto order = [&](const float* plain, float* to) {
    const int64_t strides[] = {9 * t.g.ic, 9, 3, 1};
    winograd_pack(t.g, plain, strides, ConvResult::Output, splits, to);
  };
  const size_t bytes = size_t(winograd_packed_size(t.g, ConvResult::Output, splits)) * sizeof(float);
  auto packed = weights.in_order(splits ? Key{3} : Key{}, bytes, order);
  winograd_convolve(t.g, ConvResult::Output, splits, x, packed->weights,
                    {t.bias ? packed->bias.data() : nullptr, t.adds, t.activation}, y);
}

bool convolve(const ConvTail& t, const float* x, float* y, const TailWeights& weights) {
  if (!winograd_pays(t.g, ConvResult::Output) || !winograd_has(t.activation.kind))
    return onednn_convolution_with_tail(t, x, y, weights);
  winograd_with_tail(t, x, y, weights);
  return true;
}

void cpu_tail(Call& c) {
  Tensor& out = c.out();
  if (out.numel == 0) return;
  const ConvProblem& p = c.handed<ConvProblem>();
  const Weights weights(c, p.g);
  Tensor* other = c.optional_tensor(kOther);
  if (other && other != &out) copy_into(out, *other);
  const ConvTail tail{p.g, c.has(kBias) || c.has(kMean), other != nullptr, activation_of(c)};
  TensorRef x = with_channels_last(c.tensor(kInput));
  LockRelease lock(p.g.products() / 16);
  if (p.g.products() < kFewProducts || !convolve(tail, x->ptr<float>(), out.ptr<float>(), weights))
    by_parts(tail, weights, *x, out.ptr<float>());
  trim_scratch();
}

const Primitives rows{{"_convolution_tail", infer_tail, cpu_tail}};

}  // namespace

// Weights that have not been written to since they were last seen are worth keeping in oneDNN's order: training writes
// to them in each step. It is only a guess what will pay, so storages need not be told apart from later ones.
bool weights_stay(const Tensor& w) {
  static std::unordered_map<const Storage*, uint64_t> seen;
  constexpr size_t kMost = 4096;
  if (seen.size() > kMost) seen.clear();
  auto [place, first] = seen.try_emplace(w.storage, w.storage->version);
  return !first && std::exchange(place->second, w.storage->version) == w.storage->version;
}

bool convolve_with_kept_weights(const ConvGeometry& g, const Tensor& x, const Tensor& w, const Tensor* bias,
                                Tensor& out) {
  const Weights weights(g, w, bias);
  const ConvTail tail{g, bias != nullptr, false, {}};
  LockRelease lock(g.products() / 16);
  return convolve(tail, x.ptr<float>(), out.ptr<float>(), weights);
}

PackedWeights::PackedWeights(size_t bytes, int64_t channels)
    : weights(nullptr), bias(size_t(channels)), cost(bytes) {
  if (!allocation_fails()) weights = static_cast<float*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
  if (!weights) fail(ErrorKind::OutOfMemory, kName, ": out of memory: ", bytes, " bytes of packed weights");
}
PackedWeights::~PackedWeights() { std::free(weights); }
void forget_packed_weights() { packed_weights().clear(); }
int64_t kept_packed_weights() { return int64_t(packed_weights().map.size()); }

}  // namespace flambeau
