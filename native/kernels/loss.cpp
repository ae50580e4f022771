// Losses that are worth a kernel of their own: negative log likelihood, cross entropy from logits, binary cross
// entropy.
#include <atomic>
#include <cstring>
#include <memory>
#include <span>

#include "steady.h"
#include "reduce.h"
#include "row_loops.h"
#include "rows.h"

namespace flambeau {
namespace {

enum class Reduction : uint8_t { None, Mean, Sum };
Reduction reduction_of(const Call& c, int k) {
  std::string_view s = c.str(k);
  if (s == "none") return Reduction::None;
  if (s == "mean") return Reduction::Mean;
  if (s == "sum") return Reduction::Sum;
  value_error(c.name(), ": reduction must be 'none', 'mean' or 'sum', got '", s, "'");
}

// The input as [n, classes, spatial], and one label for each (n, spatial).
struct Labelled {
  int64_t n = 1, classes = 1, spatial = 1;
  int64_t labels() const { return n * spatial; }
};
Labelled labelled(const Call& c, const Tensor& x, const Tensor& target) {
  Labelled s;
  if (x.ndim == 0) value_error(c.name(), ": input must have at least 1 dimension");
  if (!is_floating(x.dtype)) runtime_error(c.name(), ": expected a floating point input, got ", dtype_name(x.dtype));
  bool spatial = x.ndim > 2;
  if (target.dtype != DType::Int64 && (target.dtype != DType::UInt8 || spatial))
    runtime_error(c.name(), ": expected target to hold class indices of dtype int64", spatial ? "" : " or uint8",
                  ", got ", dtype_name(target.dtype), "; use target.long()");
  if (x.ndim == 1) {
    s.classes = x.size(0);
    if (target.ndim > 1 || target.numel != 1)
      value_error(c.name(), ": for an input of one dimension ", shape_text(x.shape()),
                  " target must be a single class index, got shape ", shape_text(target.shape()));
    return s;
  }
  s.n = x.size(0);
  s.classes = x.size(1);
  if (target.ndim == 0 || target.size(0) != s.n)
    value_error("cross_entropy: input holds ", s.n, " samples and target ", target.ndim ? target.size(0) : 1);
  bool fits = target.ndim == x.ndim - 1;
  for (int d = 2; fits && d < x.ndim; ++d) {
    fits = target.size(d - 1) == x.size(d);
    s.spatial *= x.size(d);
  }
  if (!fits)
    runtime_error(c.name(), ": expected target of shape [batch, ...] = input without its class dimension, got input ",
                  shape_text(x.shape()), " and target ", shape_text(target.shape()));
  return s;
}
// wide: the input is of halves, the weights are of float32.
void check_weight(const Call& c, const Tensor* weight, int64_t classes, const Tensor& x, bool wide = false) {
  if (weight && (weight->ndim != 1 || weight->numel != classes))
    runtime_error(c.name(), ": weight must hold one number per class, ", classes, ", in 1 dimension, got shape ",
                  shape_text(weight->shape()));
  if (weight && weight->dtype != (wide ? DType::Float32 : x.dtype))
    runtime_error(c.name(), ": expected weight of the input's dtype ", dtype_name(x.dtype), ", got ",
                  dtype_name(weight->dtype), "; use weight.to(input.dtype)");
}
TensorRef labels_of(const Tensor& target) { return snapshot(target, DType::Int64); }  // used again and again
void check_labels(const Tensor& labels, int64_t classes, int64_t ignore) {
  const int64_t *t = labels.ptr<int64_t>(), *end = t + labels.numel;
  auto wrong = [=](int64_t label) { return (uint64_t(label) >= uint64_t(classes)) & (label != ignore); };
  bool any = false;
  for (const int64_t* p = t; p < end; ++p) any |= wrong(*p);
  if (any) index_error("cross_entropy: target ", *std::find_if(t, end, wrong), " is no class: there are ", classes);
}
template <class T>
std::vector<T> class_weights(const Tensor* weight, int64_t classes) {
  std::vector<T> w(size_t(classes), T(1));
  if (weight) {
    TensorRef dense = contiguous(
        loader_of<T>(weight->dtype) ? *weight : *to_dtype(*weight, sizeof(T) == 4 ? DType::Float32 : DType::Float64));
    loader_of<T>(dense->dtype)(w.data(), dense->data, dense->itemsize(), classes);
  }
  return w;
}
template <class T>
double total_weight(const int64_t* labels, int64_t n, const T* w, int64_t ignore, bool weighted = true) {
  if (!weighted) return double(n - std::count(labels, labels + n, ignore));
  double total = 0;
  for (int64_t i = 0; i < n; ++i)
    if (labels[i] != ignore) total += double(w[labels[i]]);
  return total;
}
// Losses of all labels to the result: themselves, their sum, or their mean by weight.
template <class T>
void deliver(Tensor& out, Reduction reduction, std::span<const T> losses, double weight) {
  Tensor &dense = out;
  if (reduction == Reduction::None) {
    if (!losses.empty()) store_row(dense.data, out.dtype, losses.data(), int64_t(losses.size()));
  } else {
    double sum = row_sum(losses.data(), int64_t(losses.size()));
    put<double>(dense.data, out.dtype, 0, reduction == Reduction::Mean ? sum / weight : sum);
  }
}
// Upstream gradient per label: the tensor's elements, or one number (divided by the weight for a mean).
template <class T>
std::vector<T> upstream(const Tensor& grad, Reduction reduction, int64_t labels, double weight) {
  TensorRef wide = contiguous(*to_dtype(grad, DType::Float64));
  const double* g = wide->ptr<double>();
  if (reduction == Reduction::None) return std::vector<T>(g, g + labels);
  return std::vector<T>(size_t(labels), T(reduction == Reduction::Mean ? g[0] / weight : g[0]));
}
void infer_loss(Call& c, const Tensor& x, const Tensor& target, Reduction reduction, DType dtype) {
  if (reduction == Reduction::None) c.output(x.ndim == 1 ? Dims{} : target.shape(), dtype, x.device);
  else c.output({}, dtype, x.device);
}
void check_upstream(const Call& c, const Tensor& grad, Reduction reduction, int64_t labels) {
  if (grad.numel != (reduction == Reduction::None ? labels : 1))
    runtime_error(c.name(), ": gradient of shape ", shape_text(grad.shape()), " does not fit the loss");
}

// --- _nll_loss(self, target, weight, ignore_index, reduction)
// ----------------------------------------------------------------
void infer_nll(Call& c) {
  Tensor &x = c.tensor(0), &target = c.tensor(1);
  const Labelled& s = c.hand_over(labelled(c, x, target));
  check_weight(c, c.optional_tensor(2), s.classes, x);
  infer_loss(c, x, target, reduction_of(c, 4), x.dtype);
}
constexpr int64_t kFarGrain = 1024;  // picked numbers that lie in lines of their own: each waits for memory

// The losses of labels [i, end); how many were not ignored, or -1 where one is no class. Each label is read once.
template <class T>
int64_t pick_losses(const Labelled& s, const RowReader<T>& in, const int64_t* t, const T* weights, int64_t ignore,
                    int64_t i, int64_t end, T* losses) {
  const int64_t step = s.classes * s.spatial;  // from one sample to the next
  int64_t sample = i / s.spatial * step, place = i % s.spatial, used = 0;
  bool wrong = false;
  for (; i < end; ++i) {
    const int64_t label = t[i];
    T value = 0, scratch;
    if (label != ignore && uint64_t(label) < uint64_t(s.classes)) {
      value = -*in.at(sample + label * s.spatial + place, 1, &scratch);
      if (weights) value *= weights[label];
      ++used;
    } else {
      wrong |= label != ignore;
    }
    losses[i] = value;
    if (++place == s.spatial) place = 0, sample += step;
  }
  return wrong ? -1 : used;
}
void cpu_nll(Call& c) {
  Tensor& given = c.tensor(0);
  const Labelled& s = c.handed<Labelled>();
  const int64_t ignore = c.integer(3), n = s.labels();
  visit_rows(c.name(), given.dtype, [&]<class T>() {
    TensorRef x = contiguous(given), labels = labels_of(c.tensor(1));
    std::vector<T> w;
    if (c.has(2)) w = class_weights<T>(c.optional_tensor(2), s.classes);
    const std::unique_ptr<T[]> losses(new T[size_t(n)]);
    const int64_t* t = labels->ptr<int64_t>();
    const RowReader<T> in(*x);
    const bool far = s.spatial == 1 && s.classes * x->itemsize() >= 256;
    std::atomic<int64_t> used = 0;
    std::atomic<bool> wrong = false;
    {
      LockRelease lock(n * 4);
      parallel_for(n, far ? kFarGrain : kGrain / 4, [&](int64_t begin, int64_t end) {
        const int64_t some = pick_losses<T>(s, in, t, w.empty() ? nullptr : w.data(), ignore, begin, end, losses.get());
        if (some < 0) wrong = true;
        else used += some;
      });
    }
    if (wrong) check_labels(*labels, s.classes, ignore);
    deliver(c.out(), reduction_of(c, 4), std::span<const T>(losses.get(), size_t(n)),
            c.has(2) ? total_weight(t, n, w.data(), ignore) : double(used.load()));
  });
}

// _nll_loss_backward(grad, self, target, weight, ignore_index, reduction)
// Whether the loss was of float32 for an input of halves.
bool is_wide(const Tensor& x, const Tensor& grad) { return is_half(x.dtype) && grad.dtype == DType::Float32; }
void infer_nll_backward(Call& c) {
  Tensor &x = c.tensor(1), &target = c.tensor(2);
  const Labelled& s = c.hand_over(labelled(c, x, target));
  check_weight(c, c.optional_tensor(3), s.classes, x, is_wide(x, c.tensor(0)));
  check_upstream(c, c.tensor(0), reduction_of(c, 5), s.labels());
  c.output_like(x);
}
// Of samples [i, end): zeros, and at each label's place what its loss owes to it.
template <class T>
void place_slopes(const Labelled& s, const int64_t* t, const T* weights, const T* g, int64_t ignore, int64_t i,
                  int64_t end, Tensor& dx) {
  const int64_t step = s.classes * s.spatial, item = dx.itemsize();
  const bool direct = reads_directly<T>(dx.dtype);
  for (; i < end; ++i) {
    char* to = dx.data + i * step * item;
    std::memset(to, 0, size_t(step * item));
    for (int64_t k = 0; k < s.spatial; ++k) {
      const int64_t label = t[i * s.spatial + k], at = label * s.spatial + k;
      if (label == ignore) continue;
      const T slope = -g[i * s.spatial + k] * (weights ? weights[label] : T(1));
      if (direct) reinterpret_cast<T*>(to)[at] = slope;
      else put<T>(to, dx.dtype, at, slope);
    }
  }
}
void cpu_nll_backward(Call& c) {
  Tensor& given = c.tensor(1);
  const Labelled& s = c.handed<Labelled>();
  const int64_t ignore = c.integer(4);
  visit_rows(c.name(), given.dtype, [&]<class T>() {
    TensorRef labels = labels_of(c.tensor(2));
    check_labels(*labels, s.classes, ignore);
    std::vector<T> w = class_weights<T>(c.optional_tensor(3), s.classes);
    const int64_t* t = labels->ptr<int64_t>();
    std::vector<T> g =
        upstream<T>(c.tensor(0), reduction_of(c, 5), s.labels(),
                    total_weight(t, s.labels(), w.data(), ignore, c.has(3)));
    if (!c.out().numel) return;
    LockRelease lock(c.out().numel);
    parallel_for(s.n, std::max<int64_t>(1, kGrain / (s.classes * s.spatial)), [&](int64_t i, int64_t end) {
      place_slopes<T>(s, t, c.has(3) ? w.data() : nullptr, g.data(), ignore, i, end, c.out());
    });
  });
}

// --- _cross_entropy(self, target, weight, ignore_index, reduction, label_smoothing, wide): nll of log_softmax, in one
// pass; wide: of halves, the loss is float32
// ---------- A label's distribution over classes is q_c = w_c ((1 - e) [c = label] + e / C); its loss is -sum_c q_c log
// p_c.
template <class T>
struct Smoothing {
  T hit, rest;    // (1 - e), e / C
  double weights; // sum of all class weights
};
template <class T>
Smoothing<T> smoothing(double e, const std::vector<T>& w) {
  double sum = 0;
  for (T v : w) sum += double(v);
  return {T(1 - e), T(e / double(w.size())), sum};
}

// One row of logits; returns its loss.
template <class T>
T row_loss(const T* x, int64_t n, int64_t label, const T* w, const Smoothing<T>& s) {
  const T top = row_max(x, n);
  const T lse = T(std::log(exp_sum(x, static_cast<T*>(nullptr), top, n)));
  T loss = s.hit * w[label] * (lse - (x[label] - top));
  if (s.rest != 0)
    loss += s.rest *
            T(sum_over<T>(n, [&](int64_t i, int k) { return take(w + i, k) * (lse - (take(x + i, k, top) - top)); }));
  return loss;
}
template <class T>
void row_gradient(const T* x, T* dx, int64_t n, int64_t label, T g, const T* w, const Smoothing<T>& s) {
  const T top = row_max(x, n);
  const double sum = exp_sum(x, dx, top, n);
  const T total = s.hit * w[label] + s.rest * T(s.weights), scale = T(double(g) * double(total) / sum);
  if (s.rest == 0) each<T>(n, [&](int64_t i, int k) { give<T>(dx + i, take(dx + i, k) * scale, k); });
  else each<T>(n, [&](int64_t i, int k) { give<T>(dx + i, take(dx + i, k) * scale - g * s.rest * take(w + i, k), k); });
  dx[label] -= g * s.hit * w[label];
}

// Spatial input is worked on in tiles: the classes of up to kTile neighbouring positions, one vector lane each.
constexpr int64_t kTile = 256;

template <class T>
struct Tile {
  T top[kTile], sum[kTile], weighted[kTile];  // max x, sum e^(x - top), sum w (x - top)
};
// The position of (n, class k, place `at`) in x.
inline int64_t place(const Labelled& s, int64_t n, int64_t k, int64_t at) {
  return (n * s.classes + k) * s.spatial + at;
}

// `weigh`: the sums of w (x - top) too. `kept`: where the exponentials stay, as the classes lie.
template <class T>
void measure(Tile<T>& tile, const RowReader<T>& in, const Labelled& s, int64_t n, int64_t at, int64_t count, const T* w,
             bool weigh, T* kept) {
  T line[kTile], unused[kTile];
  std::copy_n(in.at(place(s, n, 0, at), count, line), count, tile.top);
  for (int64_t k = 1; k < s.classes; ++k) {
    const T* x = in.at(place(s, n, k, at), count, line);
    each<T>(count, [&](int64_t j, int m) {
      Vector<T> v = take(x + j, m), top = take(tile.top + j, m);
      give<T>(tile.top + j, (v > top) | (v != v) ? v : top, m);
    });
  }
  std::fill_n(tile.sum, count, T(0));
  std::fill_n(tile.weighted, count, T(0));
  for (int64_t k = 0; k < s.classes; ++k) {
    const T* x = in.at(place(s, n, k, at), count, line);
    columns_exp(x, tile.top, tile.sum, kept ? kept + place(s, n, k, at) : unused, count, false);
    if (weigh)
      each<T>(count, [&](int64_t j, int m) {
        const Vector<T> v = take(x + j, m) - take(tile.top + j, m);
        give<T>(tile.weighted + j, take(tile.weighted + j, m) + v * w[k], m);
      });
  }
}
// f(n, first place, count) over all tiles
template <class F>
void each_tile(const Labelled& s, F&& f) {
  const int64_t per = (s.spatial + kTile - 1) / kTile;
  if (s.n * per * s.classes == 0) return;
  parallel_for(s.n * per, std::max<int64_t>(1, kGrain / 4 / (s.classes * std::min(kTile, s.spatial))),
               [&](int64_t begin, int64_t end) {
                 for (int64_t u = begin; u < end; ++u)
                   f(u / per, u % per * kTile, std::min(kTile, s.spatial - u % per * kTile));
               });
}
template <class T>
void tiled_losses(const Tensor& x, const Labelled& s, const int64_t* t, int64_t ignore, const T* w,
                  const Smoothing<T>& smooth, T* losses) {
  RowReader<T> in(x);
  each_tile(s, [&](int64_t n, int64_t at, int64_t count) {
    Tile<T> tile;
    measure(tile, in, s, n, at, count, w, smooth.rest != 0, static_cast<T*>(nullptr));
    logarithms(tile.sum, count);
    for (int64_t j = 0; j < count; ++j) {
      const int64_t i = n * s.spatial + at + j, label = t[i];
      T scratch, loss = 0;
      if (label != ignore) {
        const T lse = tile.sum[j];
        loss = smooth.hit * w[label] * (lse - (*in.at(place(s, n, label, at + j), 1, &scratch) - tile.top[j]));
        if (smooth.rest != 0) loss += smooth.rest * (T(smooth.weights) * lse - tile.weighted[j]);
      }
      losses[i] = loss;
    }
  });
}
// The labels of a tile as wide as its numbers, so that they are compared side by side; -1: ignored.
template <class T>
struct TileLabels {
  using Label = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  typedef Label Lanes __attribute__((vector_size(sizeof(Vector<T>))));
  Label label[kTile + kLanes<T>];
  auto is(int64_t j, int64_t k) const {
    Lanes lanes;
    std::memcpy(&lanes, label + j, sizeof lanes);
    return lanes == Label(k);
  }
};
template <class T>
void tiled_gradients(const Tensor& x, Tensor& dx, const Labelled& s, const int64_t* t, int64_t ignore, const T* w,
                     const Smoothing<T>& smooth, const T* g) {
  RowReader<T> in(x);
  RowWriter<T> out(dx);
  T* kept = out.direct ? out.at(0, nullptr) : nullptr;
  each_tile(s, [&](int64_t n, int64_t at, int64_t count) {
    Tile<T> tile;
    TileLabels<T> labels;
    T line[kTile], gradient[kTile], rest[kTile], hit[kTile];
    measure(tile, in, s, n, at, count, w, false, kept);
    std::ranges::fill(labels.label, -1);
    for (int64_t j = 0; j < count; ++j) {
      const int64_t i = n * s.spatial + at + j, label = t[i];
      const T up = label == ignore ? T(0) : g[i], weight = label == ignore ? T(0) : w[label];
      hit[j] = up * smooth.hit * weight;
      rest[j] = up * smooth.rest;
      tile.sum[j] = (hit[j] + rest[j] * T(smooth.weights)) / tile.sum[j];
      if (label != ignore) labels.label[j] = typename TileLabels<T>::Label(label);
    }
    for (int64_t k = 0; k < s.classes; ++k) {
      T* to = out.at(place(s, n, k, at), gradient);
      const T* v = kept ? to : in.at(place(s, n, k, at), count, line);
      each<T>(count, [&](int64_t j, int m) {
        const Vector<T> e = kept ? take(v + j, m) : exp_vector<T>(take(v + j, m) - take(tile.top + j, m));
        const Vector<T> of = e * take(tile.sum + j, m) - take(rest + j, m) * w[k], nothing{};
        const Vector<T> slope = of - (labels.is(j, k) ? take(hit + j, m) : nothing);
        give<T>(to + j, labels.is(j, -1) ? nothing : slope, m);  // ignored: also where the logits are not finite
      });
      out.done(place(s, n, k, at), count, to);
    }
  });
}

void infer_cross_entropy(Call& c) {
  Tensor &x = c.tensor(0), &target = c.tensor(1);
  const Labelled& s = c.hand_over(labelled(c, x, target));
  const bool wide = c.boolean(6);
  if (wide && !is_half(x.dtype))
    runtime_error("_cross_entropy: expected an input of halves, got ", dtype_name(x.dtype));
  check_weight(c, c.optional_tensor(2), s.classes, x, wide);
  double e = c.real(5);
  if (!(e >= 0 && e <= 1)) runtime_error("cross_entropy: label_smoothing must be between 0 and 1, got ", e);
  infer_loss(c, x, target, reduction_of(c, 4), wide ? DType::Float32 : x.dtype);
}
void cpu_cross_entropy(Call& c) {
  Tensor& given = c.tensor(0);
  const Labelled& s = c.handed<Labelled>();
  const int64_t ignore = c.integer(3);
  visit_rows(c.name(), given.dtype, [&]<class T>() {
    TensorRef x = contiguous(given), labels = labels_of(c.tensor(1));
    check_labels(*labels, s.classes, ignore);
    std::vector<T> w = class_weights<T>(c.optional_tensor(2), s.classes), losses(static_cast<size_t>(s.labels()));
    const Smoothing<T> smooth = smoothing(c.real(5), w);
    const int64_t* t = labels->ptr<int64_t>();
    {
      LockRelease lock(given.numel * 4);
      if (s.spatial != 1) {
        tiled_losses(*x, s, t, ignore, w.data(), smooth, losses.data());
      } else {
        RowReader<T> in(*x);
        parallel_for(s.n, std::max<int64_t>(1, kGrain / 4 / std::max<int64_t>(1, s.classes)),
                     [&](int64_t begin, int64_t end) {
                       std::vector<T> row(in.direct ? 0 : size_t(s.classes));
                       for (int64_t i = begin; i < end; ++i)
                         losses[size_t(i)] = t[i] == ignore ? T(0)
                                                            : row_loss(in.at(i * s.classes, s.classes, row.data()),
                                                                       s.classes, t[i], w.data(), smooth);
                     });
      }
    }
    deliver<T>(c.out(), reduction_of(c, 4), losses, total_weight(t, s.labels(), w.data(), ignore));
  });
}

// _cross_entropy_backward(grad, self, target, weight, ignore_index, reduction, label_smoothing)
void cpu_cross_entropy_backward(Call& c) {
  Tensor& given = c.tensor(1);
  const Labelled& s = c.handed<Labelled>();
  const int64_t ignore = c.integer(4);
  visit_rows(c.name(), given.dtype, [&]<class T>() {
    TensorRef x = contiguous(given), labels = labels_of(c.tensor(2));
    check_labels(*labels, s.classes, ignore);
    std::vector<T> w = class_weights<T>(c.optional_tensor(3), s.classes);
    const Smoothing<T> smooth = smoothing(c.real(6), w);
    const int64_t* t = labels->ptr<int64_t>();
    std::vector<T> g =
        upstream<T>(c.tensor(0), reduction_of(c, 5), s.labels(),
                    total_weight(t, s.labels(), w.data(), ignore, c.has(3)));
    Tensor &result = c.out();
    RowWriter<T> out(result);
    {
      LockRelease lock(given.numel * 4);
      if (s.spatial != 1) {
        tiled_gradients(*x, result, s, t, ignore, w.data(), smooth, g.data());
      } else {
        RowReader<T> in(*x);
        parallel_for(
            s.n, std::max<int64_t>(1, kGrain / 4 / std::max<int64_t>(1, s.classes)), [&](int64_t begin, int64_t end) {
              std::vector<T> row(in.direct ? 0 : size_t(s.classes)), gradient(out.direct ? 0 : size_t(s.classes));
              for (int64_t i = begin; i < end; ++i) {
                T* to = out.at(i * s.classes, gradient.data());
                if (t[i] == ignore)
                  std::fill_n(to, s.classes, T(0));
                else
                  row_gradient(in.at(i * s.classes, s.classes, row.data()), to, s.classes, t[i], g[size_t(i)], w.data(),
                               smooth);
                out.done(i * s.classes, s.classes, to);
              }
            });
      }
    }
  });
}

const Primitives rows{
    {"_nll_loss", infer_nll, cpu_nll},
    {"_nll_loss_backward", infer_nll_backward, cpu_nll_backward},
    {"_cross_entropy", infer_cross_entropy, cpu_cross_entropy},
    {"_cross_entropy_backward", infer_nll_backward, cpu_cross_entropy_backward},
};

}  // namespace
}  // namespace flambeau
