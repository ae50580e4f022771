// What a convolution is asked for: arguments checked, the shape of the result, dtypes that are computed in another one,
// and complex numbers as four real convolutions. The passes themselves are in conv_passes.cpp.
#include "conv_pointwise.h"

#include <algorithm>

#include "../core/channels_last.h"
#include "correlate.h"
#include "gemm.h"
#include "widened.h"
#include "winograd.h"

namespace flambeau {
namespace {

using Geometry = ConvGeometry;

// --- convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups) -----------------

enum { kInput, kWeight, kBias, kStride, kPadding, kDilation, kTransposed, kOutputPadding, kGroups };

Three three(Dims given, int nd, const char* op, const char* what, int64_t least, int64_t otherwise) {
  Three result = {otherwise, otherwise, otherwise};
  if (int(given.size()) != nd && given.size() != 1)
    runtime_error(op, ": ", what, " must be an int or ", nd, " ints, one per spatial dimension, got ",
                  shape_text(given));
  for (int d = 0; d < nd; ++d) {
    int64_t v = given.size() == 1 ? given[0] : given[d];
    if (v < least) runtime_error(op, ": ", least > 0 ? "non-positive " : "negative ", what, " is not supported, got ",
        what, "=", shape_text(given));
    if (v > (int64_t(1) << 40)) runtime_error(op, ": ", what, "=", shape_text(given), " is too large");
    result[3 - nd + d] = v;
  }
  return result;
}

using Problem = ConvProblem;
constexpr const char* kOp = "convolution";

void check_dtypes(const Tensor& x, const Tensor& w, const Tensor* bias) {
  if (x.dtype != w.dtype)
    runtime_error(kOp, ": input is ", dtype_name(x.dtype), " and weight is ", dtype_name(w.dtype),
                  "; convert one of them");
  if (bias && bias->dtype != x.dtype)
    runtime_error(kOp, ": input type (", dtype_name(x.dtype), ") and bias type (", dtype_name(bias->dtype),
                  ") should be the same");
  if (x.dtype == DType::Bool || is_float8(x.dtype) || x.dtype == DType::Complex32)
    runtime_error(kOp, ": not implemented for dtype ", dtype_name(x.dtype));
}

// The channels of input and result fit weights and groups.
void check_channels(const Tensor& x, const Tensor& w, const Tensor* bias, int64_t groups, int64_t in, int64_t out) {
  auto shapes = [&] { return concat(kOp, ": weight ", shape_text(w.shape()), " with groups=", groups); };
  if (w.size(0) < groups) runtime_error(shapes(), ": has fewer output channels, ", w.size(0), ", than groups");
  if (w.size(0) % groups)
    runtime_error(shapes(), ": its ", w.size(0), " output channels cannot be divided into the groups");
  if (x.size(1) != in)
    runtime_error(shapes(), " takes ", in, " input channels, got input ", shape_text(x.shape()), " with ", x.size(1));
  if (bias && (bias->ndim != 1 || bias->size(0) != out))
    runtime_error(shapes(), ": the bias must hold one number per output channel, ", out,
                  ", in 1 dimension, got shape ", shape_text(bias->shape()));
}

// One spatial dimension `d` of the geometry: the extent of the result, which it adds to p.result.
void describe_axis(Problem& p, int d, int axis, const Tensor& x, const Tensor& w, int64_t extra) {
  Geometry& g = p.g;
  int64_t size = x.size(axis), k = w.size(axis), span;
  if (k < 1) runtime_error(kOp, ": kernel size must be positive, got weight of size ", shape_text(w.shape()));
  if (__builtin_mul_overflow(k - 1, g.dilation[d], &span) || span > (int64_t(1) << 40))
    runtime_error(kOp, ": the dilated kernel is too large: weight of size ", shape_text(w.shape()));
  g.kernel[d] = k;
  if (!p.transposed) {
    int64_t room = size_sum(kOp, {size, 2 * g.pad[d], -span, -1});
    if (room < 0)
      runtime_error("the kernel is larger than the input: it spans ", span + 1, ", dimension ", axis, " of input ",
                    shape_text(x.shape()), " has ", size + 2 * g.pad[d], " with its padding");
    g.in[d] = size, g.out[d] = room / g.stride[d] + 1;
    return p.result.push_back(g.out[d]);
  }
  if (extra >= g.stride[d] && extra >= g.dilation[d])
    runtime_error("output_padding ", extra, " must be below stride ", g.stride[d], " or dilation ", g.dilation[d]);
  int64_t result = size_sum(kOp, {size_product(kOp, {size - 1, g.stride[d]}), -2 * g.pad[d], span, extra, 1});
  if (result < 0 || (result == 0 && size > 0))
    runtime_error(kOp, ": dimension ", axis, " of the result would get size ", result, " from input ",
                  shape_text(x.shape()), " and weight ", shape_text(w.shape()));
  g.out[d] = size, g.in[d] = result;
  p.result.push_back(result);
}

// The padded image must be addressable.
void check_addressable(const Geometry& g, const Tensor& x, Dims padding) {
  int64_t padded = sizeof(double);
  for (int64_t v : {std::max<int64_t>(g.n, 1), std::max(g.ic, g.oc) + 1, g.in[0] + 2 * g.pad[0] + 1,
                    g.in[1] + 2 * g.pad[1] + 1, g.in[2] + 2 * g.pad[2] + 1})
    if (__builtin_mul_overflow(padded, v, &padded) || padded > (int64_t(1) << 46))
      runtime_error(kOp, ": sizes overflow (input ", shape_text(x.shape()), ", padding ", shape_text(padding), ")");
}

}  // namespace

ConvProblem describe_convolution(const Call& c, const Tensor& x, const Tensor& w, const Tensor* bias, int first) {
  int nd = w.ndim - 2;
  if (nd < 1 || nd > 3)
    runtime_error(kOp, ": expected a 3D, 4D or 5D weight, got weight of size ", shape_text(w.shape()));
  if (x.ndim != w.ndim)
    runtime_error(kOp, ": input must have ", nd + 2, " dimensions, or ", nd + 1, " without a batch, got shape ",
                  shape_text(x.shape()));
  Problem p;
  p.transposed = c.boolean(first + 3);
  Geometry& g = p.g;
  g.stride = three(c.ints(first), nd, kOp, "stride", 1, 1);
  g.pad = three(c.ints(first + 1), nd, kOp, "padding", 0, 0);
  g.dilation = three(c.ints(first + 2), nd, kOp, "dilation", 1, 1);
  Three extra = three(c.ints(first + 4), nd, kOp, "output_padding", 0, 0);
  g.groups = c.integer(first + 5);
  if (g.groups <= 0) runtime_error(kOp, ": groups must be positive, got ", g.groups);
  check_dtypes(x, w, bias);
  int64_t out_channels = p.transposed ? size_product(kOp, {w.size(1), g.groups}) : w.size(0);
  int64_t in_channels = p.transposed ? w.size(0) : size_product(kOp, {w.size(1), g.groups});
  check_channels(x, w, bias, g.groups, in_channels, out_channels);
  g.n = x.size(0);
  g.ic = p.transposed ? out_channels : in_channels;
  g.oc = p.transposed ? in_channels : out_channels;
  g.in = g.out = g.kernel = {1, 1, 1};
  p.result = {x.size(0), out_channels};
  for (int d = 3 - nd; d < 3; ++d) describe_axis(p, d, d - 3 + nd + 2, x, w, extra[d]);
  count(p.result);
  check_addressable(g, x, c.ints(first + 1));
  return p;
}

namespace {

int64_t work_of(const Geometry& g) { return g.products() / 16; }

// Half precision by oneDNN, where the processor multiplies such numbers; elsewhere float32 numbers are computed with.
// So are they where minimal filtering, which float32 alone has, outweighs what the processor gains by halves.
constexpr int64_t kHalfWork = 1 << 14;
bool halves_pay(const Problem& p, const Tensor& x, ConvResult which) {
  if (!is_half(x.dtype) || work_of(p.g) <= kHalfWork || !multiplies_halves(x.dtype)) return false;
  return multiplies_more_halves(x.dtype) || !of_channels_last(x) || !winograd_pays(p.g, which);
}

}  // namespace

bool of_channels_last(const Tensor& x) {
  return (x.dtype == DType::Float32 || is_half(x.dtype)) && x.ndim == 4 && has_channels_last(x);
}

namespace {

// Plain images of which a copy with the channels last pays: the result stays so.
bool pays_with_channels_last(const Call& c) {
  constexpr int64_t kLeastWork = 1 << 22;  // multiplications
  const Tensor &x = c.tensor(kInput), &w = c.tensor(kWeight);
  if (x.ndim != 4 || w.ndim != 4 || x.dtype != w.dtype || c.boolean(kTransposed) || !x.contiguous() || x.level ||
      !(x.dtype == DType::Float32 || is_half(x.dtype)) || x.device.type != DeviceType::CPU || w.device != x.device)
    return false;
  const int64_t area = c.ints(kStride).size() == 2 ? c.ints(kStride)[0] * c.ints(kStride)[1] : 1;
  return x.size(1) && area > 0 && x.numel / x.size(1) / area * w.numel >= kLeastWork;
}

void infer_convolution(Call& c) {
  const Problem& p = c.hand_over(
      describe_convolution(c, c.tensor(kInput), c.tensor(kWeight), c.optional_tensor(kBias), kStride));
  const Tensor& x = c.tensor(kInput);
  if (of_channels_last(x)) c.output(p.result, x.dtype, x.device, channels_last_strides(p.result));
  else c.output(p.result, x.dtype, x.device);
}

}  // namespace

TensorRef dense_weights(const Tensor& w) {
  return has_channels_last(w) ? TensorRef::borrow(const_cast<Tensor*>(&w)) : contiguous(w);
}

namespace {

template <class T>
void run_forward(const Problem& p, const Tensor& x, const Tensor& w, const Tensor* bias, T* y) {
  const T* b = bias ? bias->ptr<T>() : nullptr;
  if (p.transposed) conv_backward_data<T>(p.g, x.ptr<T>(), w.ptr<T>(), b, y);
  else conv_forward<T>(p.g, x.ptr<T>(), w.ptr<T>(), b, y);
}

// Real and imaginary parts as tensors of their own, and their sum; `sign` is -1 for the conjugate.
template <class R>
struct Parts {
  TensorRef re, im, sum;
  explicit Parts(const Tensor& t, R sign = 1) {
    for (TensorRef* part : {&re, &im, &sum}) *part = empty(t.shape(), real_of(t.dtype), t.device);
    const std::complex<R>* from = t.ptr<std::complex<R>>();
    R *__restrict x = re->ptr<R>(), *__restrict y = im->ptr<R>(), *__restrict z = sum->ptr<R>();
    parallel_for(t.numel, 1 << 15, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        x[i] = from[i].real(), y[i] = sign * from[i].imag();
        z[i] = x[i] + y[i];
      }
    });
  }
};

// z = f(a, b) for a bilinear f of complex arguments, as three real ones: of the sums of the parts it has all four
// products of them. `conj` conjugates the second.
template <class R, class F>
void complex_parts(const Tensor& a, const Tensor& b, bool conj, std::complex<R>* z, int64_t n, F&& f) {
  const Parts<R> x(a), y(b, conj ? -1 : 1);
  TensorRef of_re = empty(Dims(&n, 1), x.re->dtype), of_im = empty(Dims(&n, 1), x.re->dtype),
            of_sums = empty(Dims(&n, 1), x.re->dtype);
  R *p = of_re->ptr<R>(), *q = of_im->ptr<R>(), *all = of_sums->ptr<R>();
  f(*x.re, *y.re, p), f(*x.im, *y.im, q), f(*x.sum, *y.sum, all);
  parallel_for(n, 1 << 15, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) z[i] = {p[i] - q[i], all[i] - p[i] - q[i]};
  });
}

template <class R>
void add_bias(std::complex<R>* y, const std::complex<R>* bias, int64_t n, int64_t channels, int64_t places) {
  for (int64_t i = 0; i < n * channels; ++i)
    for (int64_t p = 0; p < places; ++p) y[i * places + p] += bias[i % channels];
}

// One pass over halves as they lie, as matrix products or by oneDNN; false: it has no such primitive.
bool pass_of_halves(const Geometry& g, DType dtype, void* x, void* w, Dims strides, const void* bias, void* y,
                    ConvResult which, ChannelsLast last) {
  auto at = [](void* p) { return static_cast<bfloat16*>(p); };
  const bfloat16* b = static_cast<const bfloat16*>(bias);
  const bool products = dtype == DType::BFloat16 && last.images;
  if (products && pointwise_pays<bfloat16>(g, which, strides))
    return pointwise_convolve(g, at(x), at(w), b, at(y), which), true;
  if (products && patches_pay(g, which, strides)) return convolve_patches(g, at(x), at(w), strides, b, at(y)), true;
  // oneDNN leaves the gradient of such taps unwritten
  if (which == ConvResult::Weights && has_taps_in_padding_alone(g)) return false;
  return onednn_convolution(g, dtype, x, w, bias, y, which, last);
}

bool convolve_halves(const Call& c, const Problem& p) {
  Tensor &out = c.out(), &image = c.tensor(kInput);
  Tensor* b = c.optional_tensor(kBias);
  const ConvResult which = p.transposed ? ConvResult::Input : ConvResult::Output;
  if (!halves_pay(p, image, which) || (p.transposed && b)) return false;
  const ChannelsLast last{of_channels_last(image), has_channels_last(c.tensor(kWeight))};
  TensorRef x = last.images ? TensorRef::borrow(&image) : contiguous(image), w = dense_weights(c.tensor(kWeight)), bias;
  if (b) bias = contiguous(*b);
  LockRelease lock(work_of(p.g));
  if (p.transposed)
    return pass_of_halves(p.g, out.dtype, out.data, w->data, w->stride(), nullptr, x->data, ConvResult::Input, last);
  return pass_of_halves(p.g, out.dtype, x->data, w->data, w->stride(), bias ? bias->data : nullptr, out.data,
                        ConvResult::Output, last);
}

// Of the gradients asked for, those of input and weight: which of them it has computed.
int64_t gradients_of_halves(const Call& c, const Problem& p, int64_t mask) {
  if (!halves_pay(p, c.tensor(1), p.transposed ? ConvResult::Output : ConvResult::Input)) mask &= ~1;
  if (!halves_pay(p, c.tensor(1), ConvResult::Weights)) mask &= ~2;
  if (!(mask & 3)) return 0;
  const bool images = of_channels_last(c.tensor(1));
  auto laid_out = [&](const Tensor& t) { return images ? with_channels_last(t) : contiguous(t); };
  TensorRef g = laid_out(c.tensor(0)), x = laid_out(c.tensor(1)), w = dense_weights(c.tensor(2));
  LockRelease lock(2 * work_of(p.g));
  // Of a transposed convolution the gradient is the image, and the input the result, of the convolution.
  void *image = (p.transposed ? g : x)->data, *result = (p.transposed ? x : g)->data;
  const ChannelsLast last{images, has_channels_last(*w)}, to_weight{images, has_channels_last(c.out(1))};
  auto to_input = [&](void* to) {
    return p.transposed
        ? pass_of_halves(p.g, g->dtype, image, w->data, w->stride(), nullptr, to, ConvResult::Output, last)
        : pass_of_halves(p.g, g->dtype, to, w->data, w->stride(), nullptr, result, ConvResult::Input, last);
  };
  int64_t done = 0;
  if (mask & 1 && to_input(c.out(0).data)) done |= 1;
  if (mask & 2 && sums_weights_well(p.g) &&
      pass_of_halves(p.g, g->dtype, image, c.out(1).data, c.out(1).stride(), nullptr, result, ConvResult::Weights,
                     to_weight))
    done |= 2;
  return done;
}

// A call with halves as one with float32: images, weights and results lie as they did.
struct InFloat32 {
  Call& halves;
  Call call;
  std::vector<Value> args;
  std::vector<TensorRef> held;
  explicit InFloat32(Call& c) : halves(c), args(c.args, c.args + c.nargs) {
    call.op = c.op;
    for (Value& v : args)
      if (v.tag == Tag::Tensor) v.tensor = held.emplace_back(to_dtype(*v.tensor, DType::Float32)).get();
    call.args = args.data();
    call.nargs = c.nargs;
    for (int k = 0; k < c.nout(); ++k) {
      const Tensor& out = c.out(k);
      call.output(out.shape(), DType::Float32, out.device, out.stride());
    }
  }
  void finish(int64_t mask = 1) {
    for (int k = 0; k < call.nout(); ++k)
      if (mask >> k & 1) copy_into(halves.out(k), call.out(k));
  }
};

void cpu_convolution(Call& c) {
  Tensor& out = c.out();
  if (out.numel == 0) return;
  const Problem& p = c.handed<Problem>();
  if (out.dtype == DType::Float32 && of_channels_last(c.tensor(kInput))) return convolve_channels_last(c, p);
  if (convolve_halves(c, p)) return trim_scratch();
  if (is_half(out.dtype) && of_channels_last(c.tensor(kInput))) {
    InFloat32 wide(c);
    convolve_channels_last(wide.call, p);
    return wide.finish();
  }
  WideResult y(out);
  TensorRef x = y.operand(c.tensor(kInput)), w = y.operand(c.tensor(kWeight)), bias;
  if (Tensor* b = c.optional_tensor(kBias)) bias = y.operand(*b);
  if (is_complex(out.dtype)) {
    int64_t channels = out.size(1), places = out.numel / (out.size(0) * channels);
    auto both = [&]<class R>() {
      complex_parts<R>(*x, *w, false, y.ptr<std::complex<R>>(), out.numel,
                       [&](const Tensor& a, const Tensor& b, R* to) { run_forward<R>(p, a, b, nullptr, to); });
      if (bias) add_bias(y.ptr<std::complex<R>>(), bias->ptr<std::complex<R>>(), out.size(0), channels, places);
    };
    if (out.dtype == DType::Complex64) both.operator()<float>();
    else both.operator()<double>();
    return;
  }
  {
    LockRelease lock(work_of(p.g));
    if (y.dtype == DType::Float32) run_forward<float>(p, *x, *w, bias.get(), y.ptr<float>());
    else if (y.dtype == DType::Float64) run_forward<double>(p, *x, *w, bias.get(), y.ptr<double>());
    else run_forward<uint64_t>(p, *x, *w, bias.get(), y.ptr<uint64_t>());
  }
  trim_scratch();
  y.finish();
}

// --- convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed,
// output_padding, groups, output_mask) -> gradients of input, weight, bias; the mask says which are wanted, the others
// come back empty.

// Bits 1, 2 and 4: the gradients of input, weight and bias.
int64_t mask_of(const Call& c) {
  int64_t mask = 0;
  for (size_t k = 0; k < 3; ++k) mask |= c.ints(10)[k] << k;
  return mask;
}

Problem describe_backward(const Call& c) {
  Problem p = describe_convolution(c, c.tensor(1), c.tensor(2), nullptr, 4);
  if (!std::ranges::equal(c.tensor(0).shape(), p.result))
    runtime_error("convolution_backward: expected a gradient of shape ", shape_text(p.result), ", got ",
        shape_text(c.tensor(0).shape()));
  if (c.tensor(0).dtype != c.tensor(1).dtype)
    runtime_error("convolution_backward: expected a gradient of dtype ", dtype_name(c.tensor(1).dtype), ", got ",
        dtype_name(c.tensor(0).dtype));
  if (!is_differentiable(c.tensor(0).dtype) || is_float8(c.tensor(0).dtype))
    runtime_error("convolution_backward: not offered for dtype ", dtype_name(c.tensor(0).dtype));
  return p;
}

void infer_backward(Call& c) {
  const Problem& p = c.hand_over(describe_backward(c));
  Tensor &x = c.tensor(1), &w = c.tensor(2);
  int64_t mask = mask_of(c), nothing[] = {0}, channels[] = {p.result[1]};
  if (mask & 1 && of_channels_last(x)) c.output(x.shape(), x.dtype, x.device, channels_last_strides(x.shape()));
  else c.output(mask & 1 ? x.shape() : Dims(nothing), x.dtype, x.device);
  if (mask & 2 && of_channels_last(x) && has_channels_last(w))
    c.output(w.shape(), x.dtype, x.device, channels_last_strides(w.shape()));
  else c.output(mask & 2 ? w.shape() : Dims(nothing), x.dtype, x.device);
  c.output(mask & 4 ? Dims(channels) : Dims(nothing), x.dtype, x.device);
}

template <class T>
void grad_input(const Problem& p, const Tensor& g, const Tensor& w, T* to) {
  if (p.transposed) conv_forward<T>(p.g, g.ptr<T>(), w.ptr<T>(), nullptr, to);
  else conv_backward_data<T>(p.g, g.ptr<T>(), w.ptr<T>(), nullptr, to);
}
template <class T>
void grad_weight(const Problem& p, const Tensor& g, const Tensor& x, T* to) {
  if (p.transposed) conv_backward_weight<T>(p.g, g.ptr<T>(), x.ptr<T>(), to);
  else conv_backward_weight<T>(p.g, x.ptr<T>(), g.ptr<T>(), to);
}

// The three gradients of one call; bits of `mask` say which are wanted.
struct Gradients {
  const Problem& p;
  const int64_t mask;
  TensorRef g, x, w, results[3];
  int64_t n() const { return g->size(0); }
  int64_t channels() const { return g->size(1); }
  int64_t places() const { return g->numel / (g->size(0) * g->size(1)); }

  template <class R>
  void complex_numbers() const {
    using C = std::complex<R>;
    if (mask & 1)
      complex_parts<R>(*g, *w, true, results[0]->ptr<C>(), results[0]->numel,
                       [&](const Tensor& a, const Tensor& b, R* to) { grad_input<R>(p, a, b, to); });
    if (mask & 2)
      complex_parts<R>(*g, *x, true, results[1]->ptr<C>(), results[1]->numel,
                       [&](const Tensor& a, const Tensor& b, R* to) { grad_weight<R>(p, a, b, to); });
    if (!(mask & 4)) return;
    const Parts<R> parts(*g);
    const size_t count = size_t(channels());
    std::vector<R> sr(count), si(count);
    conv_backward_bias<R>(parts.re->template ptr<R>(), n(), channels(), places(), sr.data());
    conv_backward_bias<R>(parts.im->template ptr<R>(), n(), channels(), places(), si.data());
    for (int64_t k = 0; k < channels(); ++k) results[2]->ptr<C>()[k] = C(sr[k], si[k]);
  }
  template <class T>
  void real_numbers() const {
    LockRelease lock(2 * work_of(p.g));
    if (mask & 1) grad_input<T>(p, *g, *w, results[0]->ptr<T>());
    if (mask & 2) grad_weight<T>(p, *g, *x, results[1]->ptr<T>());
    if (mask & 4) conv_backward_bias<T>(g->ptr<T>(), n(), channels(), places(), results[2]->ptr<T>());
  }
};

void cpu_backward(Call& c) {
  const Problem& p = c.handed<Problem>();
  const DType dtype = c.tensor(0).dtype, compute = sum_dtype(dtype);
  if (c.tensor(0).numel == 0) {  // no results: no gradients either
    for (int k = 0; k < 3; ++k)
      if (c.out(k).numel) fill(c.out(k), 0);
    return;
  }
  const bool last = of_channels_last(c.tensor(1));
  int64_t mask = mask_of(c);
  if (last && dtype == DType::Float32) return gradients_channels_last(c, p, mask);
  mask &= ~gradients_of_halves(c, p, mask);
  if (!mask) return trim_scratch();
  if (last) {
    InFloat32 wide(c);
    gradients_channels_last(wide.call, p, mask);
    return wide.finish(mask);
  }
  Gradients grads{p, mask, contiguous(*to_dtype(c.tensor(0), compute))};
  for (int k = 0; k < 3; ++k)
    grads.results[k] =
        compute == dtype ? TensorRef::borrow(&c.out(k)) : empty(c.out(k).shape(), compute, c.tensor(0).device);
  if (mask & 2) grads.x = contiguous(*to_dtype(c.tensor(1), compute));
  if (mask & 1) grads.w = contiguous(*to_dtype(c.tensor(2), compute));
  switch (compute) {
    case DType::Float32: grads.real_numbers<float>(); break;
    case DType::Float64: grads.real_numbers<double>(); break;
    case DType::Complex64: grads.complex_numbers<float>(); break;
    default: grads.complex_numbers<double>();
  }
  trim_scratch();
  if (compute != dtype)
    for (int k = 0; k < 3; ++k)
      if (c.out(k).numel && mask >> k & 1) copy_into(c.out(k), *grads.results[k]);
}

const Primitives rows{
    {"convolution", infer_convolution, cpu_convolution, Images::Kept, pays_with_channels_last},
    {"convolution_backward", infer_backward, cpu_backward, Images::Kept},
};

}  // namespace
}  // namespace flambeau
