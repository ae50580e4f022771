// A cuDNN for tests: descriptors of its backend interface, convolutions, graphs of operations and batch normalisation.
//
// Engine 0 computes float32 in TF32, engine 1 says that its numbers differ from run to run, engine 2 is plain.
#include <algorithm>
#include <cmath>

#include "graph.h"
#include "rnn.h"

namespace {

constexpr size_t kWorkspace = 256;
constexpr int64_t kWidest = 128;  // columns of a graph's result
size_t version = 92000;
int last_engine = -1;
int fastest = -1;  // the engine that does not take its time

struct Operation {
  int kind;
  Tensor x, w, y;
  std::vector<int64_t> dilation, stride, padding;
};
bool consistent(const Operation& o) {
  const size_t rank = o.stride.size();
  if (o.x.sizes.size() != rank + 2 || o.w.sizes.size() != rank + 2 || o.y.sizes.size() != rank + 2) return false;
  bool good = o.x.sizes[0] == o.y.sizes[0] && o.w.sizes[0] == o.y.sizes[1] && o.x.sizes[1] % o.w.sizes[1] == 0 &&
              o.x.type == o.w.type && o.x.type == o.y.type;
  for (size_t d = 0; d < rank; ++d)
    good = good && (o.x.sizes[d + 2] + 2 * o.padding[d] - o.dilation[d] * (o.w.sizes[d + 2] - 1) - 1) / o.stride[d] + 1 ==
                       o.y.sizes[d + 2];
  return good;
}

// f(places of one element of x, w and y) for every product of a convolution
template <class F>
void each_product(const Operation& o, F f) {
  const int rank = int(o.stride.size());
  const int64_t groups = o.x.sizes[1] / o.w.sizes[1], per = o.y.sizes[1] / groups;
  int64_t outputs = 1, taps = 1;
  for (int d = 0; d < rank; ++d) outputs *= o.y.sizes[d + 2], taps *= o.w.sizes[d + 2];
  for (int64_t n = 0; n < o.y.sizes[0]; ++n)
    for (int64_t k = 0; k < o.y.sizes[1]; ++k)
      for (int64_t p = 0; p < outputs; ++p)
        for (int64_t t = 0; t < taps; ++t) {
          int64_t x = n * o.x.strides[0], y = n * o.y.strides[0] + k * o.y.strides[1], w = k * o.w.strides[0];
          int64_t rest = p, tap = t;
          bool inside = true;
          for (int d = rank - 1; d >= 0; --d) {
            const int64_t i = rest % o.y.sizes[d + 2], j = tap % o.w.sizes[d + 2];
            rest /= o.y.sizes[d + 2], tap /= o.w.sizes[d + 2];
            const int64_t at = i * o.stride[d] - o.padding[d] + j * o.dilation[d];
            inside = inside && at >= 0 && at < o.x.sizes[d + 2];
            x += at * o.x.strides[d + 2], y += i * o.y.strides[d + 2], w += j * o.w.strides[d + 2];
          }
          if (!inside) continue;
          for (int64_t c = 0; c < o.w.sizes[1]; ++c)
            f(x + (k / per * o.w.sizes[1] + c) * o.x.strides[1], w + c * o.w.strides[1], y);
        }
}
void compute(const Operation& o, void* x, void* w, void* y, bool rounded) {
  const Tensor& out = o.kind == kForward ? o.y : o.kind == kData ? o.x : o.w;
  void* to = o.kind == kForward ? y : o.kind == kData ? x : w;
  std::vector<double> sums(out.bytes() / bytes_of(out.type));
  std::vector<bool> reached(sums.size());
  auto read = [&](const Tensor& t, const void* p, int64_t at) {
    const double v = load(t.type, p, at).real();
    return rounded && t.type == 0 ? tf32(v) : v;
  };
  each_product(o, [&](int64_t i, int64_t j, int64_t k) {
    if (o.kind == kForward) sums[size_t(k)] += read(o.x, x, i) * read(o.w, w, j);
    else if (o.kind == kData) sums[size_t(i)] += read(o.y, y, k) * read(o.w, w, j);
    else sums[size_t(j)] += read(o.y, y, k) * read(o.x, x, i);
  });
  int64_t n = 1;
  for (int64_t s : out.sizes) n *= s;
  for (int64_t e = 0; e < n; ++e) {
    int64_t rest = e, at = 0;
    for (int d = int(out.sizes.size()) - 1; d >= 0; rest /= out.sizes[size_t(d--)])
      at += rest % out.sizes[size_t(d)] * out.strides[size_t(d)];
    store(out.type, to, at, sums[size_t(at)]);
  }
}

// What a graph's operation says; kept beside the graph when that is finished.
std::map<const void*, Operation>& operations() {
  static auto* m = new std::map<const void*, Operation>;
  return *m;
}

int finish_operation(Desc* d) {
  const int first = d->kind == kForward ? 700 : d->kind == kData ? 706 : 712;
  for (int a = first; a < first + 6; ++a)
    if (!d->has(a)) return kBad;
  auto part = [&](int a) { return d->one<Desc*>(first + a); };
  for (int a = 2; a < 6; ++a)
    if (!known(part(a)) || !part(a)->finished) return kBad;
  Desc* conv = part(2);
  Operation o{d->kind, tensor_of(*part(4)), tensor_of(*part(3)), tensor_of(*part(5)), conv->list<int64_t>(102),
              conv->list<int64_t>(103), conv->list<int64_t>(104)};
  if (conv->list<int64_t>(105) != o.padding || conv->one<int>(101) != 1) return kBad;
  if (conv->one<int64_t>(106) != int64_t(o.stride.size()) || !consistent(o)) return kBad;
  operations()[d] = o;
  return 0;
}

// The operations of a graph that is no convolution, kept likewise.
std::map<const void*, graph::Program>& programs() {
  static auto* m = new std::map<const void*, graph::Program>;
  return *m;
}
graph::Program last_program;

// What a descriptor is made of goes on being known by it.
int finish_graph(Desc* d) {
  if (!d->has(800)) return kBad;
  const auto parts = d->list<const void*>(801);
  if (parts.size() == 1 && operations().contains(parts[0])) {
    operations()[d] = operations().at(parts[0]);
    return 0;
  }
  graph::Program& p = programs()[d];
  for (const void* part : parts) p.push_back(programs().at(part).at(0));
  return graph::ordered(p) ? 0 : kBad;
}
void inherit(const void* from, const Desc* to) {
  if (operations().contains(from)) operations()[to] = operations().at(from);
  if (programs().contains(from)) programs()[to] = programs().at(from);
}
int run_program(Handle* h, Desc* plan, Desc* pack) {
  auto m = std::make_shared<graph::Memory>();
  const graph::Program p = last_program = programs().at(plan);
  if (!valid(pack->one<void*>(1003), kWorkspace) || !graph::bind(p, pack->list<int64_t>(1000), pack->list<void*>(1001), *m))
    return kBad;
  return submit(h, h->stream, [p, m] {
    m->between.clear();
    graph::compute(p, *m);
  });
}

}  // namespace

// "matmul mul …": the operations of the graph that ran last; how many heads its second operand has.
API const char* fake_last_operations() {
  static std::string text;
  return (text = graph::text(last_program)).c_str();
}
API long fake_last_heads() {
  for (const graph::Node& n : last_program)
    if (n.kind == kProduct) return long(n.in[1].sizes[1]);
  return 0;
}
API void fake_version(size_t v) { version = v; }
API int fake_last_engine() { return last_engine; }
API void fake_fastest(int engine) { fastest = engine; }

API int cudnnCreate(Handle** h) { ENTER("create"); *h = new Handle; return 0; }
API int cudnnSetStream(Handle* h, void* s) { ENTER("set_stream"); h->stream = s; return 0; }
API size_t cudnnGetVersion() { return version; }
API const char* cudnnGetErrorString(int s) {
  return s == 2000 ? "CUDNN_STATUS_BAD_PARAM" : s == 3000 ? "CUDNN_STATUS_NOT_SUPPORTED"
         : s == 5000 ? "CUDNN_STATUS_EXECUTION_FAILED" : "CUDNN_STATUS_?";
}
API int cudnnBackendCreateDescriptor(int kind, Desc** d) { ENTER("desc_create"); *d = make(new Desc{kind}); return 0; }
API int cudnnBackendDestroyDescriptor(Desc* d) {
  operations().erase(d);
  programs().erase(d);
  return drop(d) ? 0 : kBad;
}
API int cudnnBackendSetAttribute(Desc* d, int attribute, int type, int64_t n, const void* p) {
  ENTER("desc_set");
  if (!known(d) || d->finished || n < 1) return kBad;
  const auto* bytes = static_cast<const char*>(p);
  d->values[attribute] = std::vector<char>(bytes, bytes + size_t(n) * kSizes[type]);
  return 0;
}
API int cudnnBackendFinalize(Desc* d) {
  ENTER("finalize");
  if (!known(d) || d->finished) return kBad;
  if (d->kind >= kForward && d->kind <= kData)
    if (int s = finish_operation(d)) return s;
  if (d->kind == kProduct || d->kind == kPointwise || d->kind == kReduction || d->kind == kReshape)
    if (!graph::read(*d, programs()[d].emplace_back())) return kBad;
  if (d->kind == kGraph)
    if (int s = finish_graph(d)) return s;
  if (d->kind == kHeuristics) inherit(d->one<const void*>(201), d);
  if (d->kind == kPlan) {
    auto* config = d->one<Desc*>(401);
    d->engine = config->engine;
    inherit(config, d);
    if (operations().contains(d) && operations()[d].x.type == 1 && d->engine != 2) return kUnsupported;
    if (programs().contains(d) && programs()[d].back().out.sizes[3] > kWidest) return kUnsupported;
  }
  if (d->kind == kPack && (d->list<int64_t>(1000).size() != d->list<void*>(1001).size() || !d->has(1003))) return kBad;
  d->finished = true;
  return 0;
}
API int cudnnBackendGetAttribute(Desc* d, int attribute, int type, int64_t asked, int64_t* n, void* p) {
  ENTER("desc_get");
  if (!known(d)) return kBad;
  if (attribute == 202) {  // engines by a heuristic
    const std::vector<int> engines = d->one<int>(200) == 3 ? std::vector<int>{0, 1, 2} : std::vector<int>{2};
    *n = int64_t(engines.size());
    for (int64_t k = 0; k < std::min<int64_t>(asked, *n); ++k) {
      Desc* config = static_cast<Desc**>(p)[k];
      config->engine = engines[size_t(k)];
      config->finished = true;
      inherit(d, config);
    }
  } else if (attribute == 300) {
    (*static_cast<Desc**>(p))->engine = d->engine;
    *n = 1;
  } else if (attribute == 1303) {
    *n = d->engine == 2 ? 0 : 1;
    if (*n) *static_cast<int*>(p) = d->engine == 0 ? 0 : 4;
  } else if (attribute == 402 && type == 3) {
    *static_cast<int64_t*>(p) = int64_t(kWorkspace);
    *n = 1;
  } else {
    return kBad;
  }
  return 0;
}
API int cudnnBackendExecute(Handle* h, Desc* plan, Desc* pack) {
  ENTER("execute");
  if (!known(plan) || !known(pack) || !plan->finished || !pack->finished) return kBad;
  if (programs().contains(plan)) return run_program(h, plan, pack);
  const Operation o = operations().at(plan);
  const auto places = pack->list<void*>(1001);
  const Tensor* tensors[] = {&o.x, &o.w, &o.y};
  for (int k = 0; k < 3; ++k)
    if (pack->list<int64_t>(1000)[size_t(k)] != tensors[k]->id || !valid(places[size_t(k)], tensors[k]->bytes()) ||
        reinterpret_cast<uintptr_t>(places[size_t(k)]) % size_t(tensors[k]->alignment))
      return kBad;
  if (!valid(pack->one<void*>(1003), kWorkspace)) return kBad;
  last_engine = plan->engine;
  return submit(h, h->stream, [o, places, rounded = plan->engine == 0] { compute(o, places[0], places[1], places[2], rounded); });
}

// --- recurrent layers -------------------------------------------------------------------------------------------------

API int cudnnCreateTensorDescriptor(Tensor** t) { ENTER("tensor_create"); *t = make(new Tensor); return 0; }
API int cudnnDestroyTensorDescriptor(Tensor* t) { return drop(t) ? 0 : kBad; }
API int cudnnSetTensorNdDescriptor(Tensor* t, int type, int ndim, const int* sizes, const int* strides) {
  ENTER("tensor_set");
  if (!known(t) || ndim < 3) return kBad;
  *t = {element_type(type), {sizes, sizes + ndim}, {strides, strides + ndim}, 0, 1};
  return 0;
}

namespace {

int last_math = -1;
constexpr size_t kRoom = 64;
// The reserve: gradients of gates, a mark that says who has been there, what the way there has read, and what each layer
// below the last has made.
struct Reserve {
  size_t gates, input, between;
  Reserve(const rnn::Desc& d, const rnn::Data& in)
      : gates(size_t(d.layers * rnn::Walk{d, in}.gates())), input(in.bytes()),
        between(size_t(d.layers - 1) * rnn::Walk{d, in}.between()) {}
  size_t bytes() const { return 8 * gates + 8 + input + between; }
  char* read(void* reserve) const { return static_cast<char*>(reserve) + 8 * gates + 8; }
};
size_t reserve_bytes(const rnn::Desc& d, const rnn::Data& in) { return Reserve(d, in).bytes(); }
constexpr double kThere = 4711, kBack = 4712;
size_t weight_bytes(const rnn::Desc& d) { return size_t(d.count()) * bytes_of(d.type); }
// Whether what a call is given is of the sizes that were asked for, in device memory.
bool whole(const rnn::Desc* d, const rnn::Data* in, const int32_t* lengths, size_t weights_size, const void* weights,
           size_t room_size, const void* room, size_t reserve_size, const void* reserve, bool reserved) {
  return known(d) && known(in) && weights_size == weight_bytes(*d) && valid(weights, weights_size) &&
         room_size >= kRoom && valid(room, kRoom) && valid(lengths, 4 * in->lengths.size()) &&
         (!reserved || (reserve_size == reserve_bytes(*d, *in) && valid(reserve, reserve_size)));
}
bool lengths_agree(const rnn::Data& in, const int32_t* there) {
  return std::equal(in.lengths.begin(), in.lengths.end(), there);
}

}  // namespace

API int fake_last_math() { return last_math; }
API int cudnnCreateDropoutDescriptor(rnn::Dropout** d) { ENTER("dropout_create"); *d = make(new rnn::Dropout); return 0; }
API int cudnnDestroyDropoutDescriptor(rnn::Dropout* d) { return drop(d) ? 0 : kBad; }
API int cudnnSetDropoutDescriptor(rnn::Dropout* d, Handle*, float p, void* states, size_t bytes, unsigned long long) {
  ENTER("dropout_set");
  d->set = p == 0 && !states && !bytes;
  return d->set ? 0 : kBad;
}
API int cudnnCreateRNNDescriptor(rnn::Desc** d) { ENTER("rnn_create"); *d = make(new rnn::Desc); return 0; }
API int cudnnDestroyRNNDescriptor(rnn::Desc* d) { return drop(d) ? 0 : kBad; }
API int cudnnSetRNNDescriptor_v8(rnn::Desc* d, int algorithm, int mode, int bias, int direction, int input, int type,
                                 int precision, int math, int32_t inputs, int32_t hidden, int32_t projected,
                                 int32_t layers, rnn::Dropout* dropout, uint32_t flags) {
  ENTER("rnn_set");
  if (algorithm || input || layers < 1 || projected != hidden || flags > 1 || !dropout->set ||
      precision != (type == 1))
    return kBad;
  *d = {mode, bias, direction + 1, element_type(type), precision, math, inputs, hidden, layers};
  last_math = math;
  return 0;
}
API int cudnnCreateRNNDataDescriptor(rnn::Data** d) { ENTER("rnn_data_create"); *d = make(new rnn::Data); return 0; }
API int cudnnDestroyRNNDataDescriptor(rnn::Data* d) { return drop(d) ? 0 : kBad; }
API int cudnnSetRNNDataDescriptor(rnn::Data* d, int type, int layout, int steps, int batch, int width,
                                  const int* lengths, void* padding) {
  ENTER("rnn_data_set");
  *d = {element_type(type), layout, width, {lengths, lengths + batch}};
  const bool whole = lengths[0] == lengths[batch - 1];
  const bool falling = std::is_sorted(d->lengths.rbegin(), d->lengths.rend()) && d->lengths.back() > 0;
  return layout == (whole ? 0 : 1) && !padding && steps == lengths[0] && falling ? 0 : kBad;
}
API int cudnnGetRNNWeightSpaceSize(Handle*, rnn::Desc* d, size_t* bytes) {
  ENTER("rnn_weight_size");
  *bytes = weight_bytes(*d);
  return 0;
}
API int cudnnGetRNNWeightParams(Handle*, rnn::Desc* d, int32_t side, size_t bytes, const void* weights, int32_t which,
                                Tensor*, void** matrix, Tensor*, void** vector) {
  ENTER("rnn_weight");
  if (side >= d->layers * d->sides || which >= 2 * d->gates() || bytes != weight_bytes(*d)) return kBad;
  auto* base = const_cast<char*>(static_cast<const char*>(weights));
  const int64_t l = side / d->sides, bytes_each = int64_t(bytes_of(d->type));
  const rnn::Desc layer = d->layer(l);
  *matrix = base + (d->before(l) + layer.matrix(side % d->sides, which)) * bytes_each;
  *vector = d->bias ? base + (d->before(l) + layer.vector(side % d->sides, which)) * bytes_each : nullptr;
  return 0;
}
API int cudnnGetRNNTempSpaceSizes(Handle*, rnn::Desc* d, int way, rnn::Data* in, size_t* room, size_t* reserve) {
  ENTER("rnn_room");
  *room = kRoom;
  *reserve = way ? reserve_bytes(*d, *in) : 0;
  return 0;
}
API int cudnnRNNForward(Handle* h, rnn::Desc* d, int way, const int32_t* lengths, rnn::Data* in, const void* x,
                        rnn::Data* out, void* y, Tensor*, const void* hx, void* hy, Tensor*, const void* cx, void* cy,
                        size_t weights_size, const void* weights, size_t room_size, void* room, size_t reserve_size,
                        void* reserve) {
  ENTER("rnn_forward");
  if (!whole(d, in, lengths, weights_size, weights, room_size, room, reserve_size, reserve, way) ||
      !valid(x, in->bytes()) || !valid(y, out->bytes()) || !hx)
    return kBad;
  return submit(h, h->stream, [=, k = rnn::Walk{*d, *in, x, hx, d->mode == 2 ? cx : nullptr, weights}] {
    const Reserve kept(k.d, k.in);
    std::vector<char> own(way ? 0 : kept.between);
    char* between = way ? kept.read(reserve) + kept.input : own.data();
    if (lengths_agree(k.in, lengths)) rnn::forward_all(k, y, hy, k.d.mode == 2 ? cy : nullptr, between);
    if (!way) return;
    static_cast<double*>(reserve)[kept.gates] = kThere;
    std::memcpy(kept.read(reserve), x, kept.input);
  });
}
API int cudnnRNNBackwardData_v8(Handle* h, rnn::Desc* d, const int32_t* lengths, rnn::Data* out, const void* y,
                                const void* dy, rnn::Data* in, void* dx, Tensor*, const void* hx, const void* dhy,
                                void* dhx, Tensor*, const void* cx, const void* dcy, void* dcx, size_t weights_size,
                                const void* weights, size_t room_size, void* room, size_t reserve_size, void* reserve) {
  ENTER("rnn_data_backward");
  if (!whole(d, in, lengths, weights_size, weights, room_size, room, reserve_size, reserve, true) ||
      !valid(y, out->bytes()) || !valid(dy, out->bytes()) || !valid(dx, in->bytes()) || !dhx)
    return kBad;
  return submit(h, h->stream, [=, k = rnn::Walk{*d, *in, nullptr, hx, d->mode == 2 ? cx : nullptr, weights}]() mutable {
    const Reserve kept(k.d, k.in);
    auto* gates = static_cast<double*>(reserve);
    double& mark = gates[kept.gates];
    k.x = kept.read(reserve);
    if (mark == kThere)
      rnn::data_backward_all(k, dy, dhy, dcy, dx, dhx, k.d.mode == 2 ? dcx : nullptr, gates,
                             kept.read(reserve) + kept.input);
    mark = kBack;
  });
}
API int cudnnRNNBackwardWeights_v8(Handle* h, rnn::Desc* d, int mode, const int32_t* lengths, rnn::Data* in,
                                   const void* x, Tensor*, const void* hx, rnn::Data* out, const void* y,
                                   size_t weights_size, void* dw, size_t room_size, void* room, size_t reserve_size,
                                   void* reserve) {
  ENTER("rnn_weights_backward");
  if (mode || !whole(d, in, lengths, weights_size, dw, room_size, room, reserve_size, reserve, true) ||
      !valid(y, out->bytes()))
    return kBad;
  return submit(h, h->stream, [=, k = rnn::Walk{*d, *in, x, hx, nullptr, nullptr}] {
    const Reserve kept(k.d, k.in);
    const auto* gates = static_cast<const double*>(reserve);
    if (gates[kept.gates] == kBack) rnn::weights_backward_all(k, y, dw, gates, kept.read(reserve) + kept.input);
  });
}
