// The operators of Fourier transforms: their dimensions and lengths, and which are transformed in what order.
#include "fft_lines.h"

namespace flambeau::fft {
namespace {

// One dimension of x (numbers per element: 1 real, 2 complex) into the same dimension of y.
template <class T>
void transform_dim(const Tensor& x, Tensor& y, int64_t dim, int64_t n, bool inverse, double scale,
                   bool conjugate = false) {
  const int in_parts = is_complex(x.dtype) ? 2 : 1, out_parts = is_complex(y.dtype) ? 2 : 1;
  Transform<T> t{n};
  t.swap_in = t.swap_out = inverse, t.conjugate = conjugate, t.scale = T(scale), t.given = x.sizes[dim];
  t.in = x.ptr<T>(), t.out = y.ptr<T>();
  t.in_step = x.strides[dim] * in_parts, t.out_step = y.strides[dim] * out_parts;
  Lines lines;
  for (int d = 0; d < x.ndim; ++d)
    if (d != dim) lines.add(x.sizes[d], x.strides[d] * in_parts, y.strides[d] * out_parts);
  lines.sort();
  if (lines.count == 0) return;
  LockRelease lock(lines.count * n * 8);
  if (in_parts == 2 && out_parts == 2) return complex_lines(t, lines);
  t.load = in_parts == 1 ? FftLoad::Reals : FftLoad::Hermitian;
  t.store = in_parts == 1 ? FftStore::Hermitian : FftStore::Reals;
  real_lines(t, lines);
}

std::vector<int64_t> dims_of(const Call& c, const Tensor& x) {
  std::vector<int64_t> dims(c.ints(1).begin(), c.ints(1).end());
  for (int64_t& d : dims) {
    d = wrap_dim(d, x.ndim, c.name());
    if (x.ndim == 0) runtime_error(c.name(), ": expected a tensor of one or more dimensions");
  }
  for (size_t k = 0; k < dims.size(); ++k)
    if (std::find(dims.begin(), dims.begin() + int64_t(k), dims[k]) != dims.begin() + int64_t(k))
      runtime_error(c.name(), ": FFT dims must be unique, got ", shape_text(c.ints(1)));
  if (dims.size() != c.ints(2).size())
    runtime_error(c.name(), ": expected one length for each dim, got dims ", shape_text(c.ints(1)), " and lengths ",
                  shape_text(c.ints(2)));
  return dims;
}
void check_some(const Call& c, const std::vector<int64_t>& dims) {
  if (dims.empty()) runtime_error(c.name(), ": expected one or more dims");
}
// Transformed dimensions come last in memory, in their order; the others before them.
Tensor& output_transformed(Call& c, const Tensor& x, const std::vector<int64_t>& dims, Dims shape,
                           DType dtype) {
  if (x.ndim == 1) return c.output(shape, dtype, x.device);
  std::vector<int64_t> order, strides(shape.size());
  for (int64_t d = 0; d < x.ndim; ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) order.push_back(d);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return x.strides[a] > x.strides[b]; });
  order.insert(order.end(), dims.begin(), dims.end());
  int64_t step = 1;
  for (size_t k = order.size(); k-- > 0;) {
    strides[size_t(order[k])] = step;
    step *= std::max<int64_t>(1, shape[size_t(order[k])]);
  }
  return c.output(shape, dtype, x.device, strides);
}
void check_lengths(const Call& c, Dims shape, Dims dims) {
  for (int64_t d : dims)
    if (shape[size_t(d)] < 1 || shape[size_t(d)] > int64_t(1) << 40)
      runtime_error(c.name(), ": the length of the transform must be positive and at most 2^40, got ",
                    shape[size_t(d)]);
}
template <class F>
void visit_parts(DType t, F&& f) {
  if (real_of(t) == DType::Float64) return f.template operator()<double>();
  f.template operator()<float>();
}

// _fft_c2c(self, dim, n, scale, forward): n as many lengths as dims
void infer_c2c(Call& c) {
  Tensor& x = c.tensor(0);
  if (!is_complex(x.dtype)) runtime_error(c.name(), ": expected a complex tensor, got ", dtype_name(x.dtype));
  const auto& dims = c.hand_over(dims_of(c, x));
  std::vector<int64_t> shape(x.shape().begin(), x.shape().end());
  for (size_t k = 0; k < dims.size(); ++k) shape[size_t(dims[k])] = c.ints(2)[k];
  check_lengths(c, shape, dims);
  output_transformed(c, x, dims, shape, x.dtype);
}
// All dims but `last` of x, the first one into y (the others there already have their final length or are cut there).
template <class T>
void complex_dims(TensorRef x, Tensor& y, std::span<const int64_t> dims, Dims shape, bool inverse, double scale) {
  for (size_t k = 0; k < dims.size(); ++k) {
    const bool last = k + 1 == dims.size();
    TensorRef to;
    if (last) {
      to = TensorRef::borrow(&y);
    } else {
      std::vector<int64_t> between(x->shape().begin(), x->shape().end());
      between[size_t(dims[k])] = shape[size_t(dims[k])];
      to = std::equal(between.begin(), between.end(), y.shape().begin()) ? TensorRef::borrow(&y)
                                                                         : empty(between, y.dtype);
    }
    transform_dim<T>(*x, *to, dims[k], shape[size_t(dims[k])], inverse, k == 0 ? scale : 1.0);
    x = to;
  }
}
void cpu_c2c(Call& c) {
  Tensor &x = c.tensor(0), &y = c.out();
  auto& dims = c.handed<std::vector<int64_t>>();
  if (dims.empty()) return copy_into(y, x);
  std::reverse(dims.begin(), dims.end());
  visit_parts(x.dtype,
              [&]<class T>() { complex_dims<T>(TensorRef::borrow(&x), y, dims, y.shape(), !c.boolean(4), c.real(3)); });
}
// _fft_r2c(self, dim, n, scale, forward): the last dim from real numbers to the first half of its spectrum
void infer_r2c(Call& c) {
  Tensor& x = c.tensor(0);
  if (!is_floating(x.dtype) || item_size(x.dtype) < 4)
    runtime_error(c.name(), ": expected a real tensor, got ", dtype_name(x.dtype));
  const auto& dims = c.hand_over(dims_of(c, x));
  check_some(c, dims);
  std::vector<int64_t> shape(x.shape().begin(), x.shape().end());
  for (size_t k = 0; k < dims.size(); ++k) shape[size_t(dims[k])] = c.ints(2)[k];
  check_lengths(c, shape, dims);
  shape[size_t(dims.back())] = shape[size_t(dims.back())] / 2 + 1;
  output_transformed(c, x, dims, shape, complex_of(wide_of(x.dtype)));
}
void cpu_r2c(Call& c) {
  Tensor &x = c.tensor(0), &y = c.out();
  auto& dims = c.handed<std::vector<int64_t>>();
  const int64_t last = dims.back(), n = c.ints(2)[dims.size() - 1];
  dims.pop_back();
  TensorRef first = TensorRef::borrow(&y);
  if (!dims.empty()) {
    std::vector<int64_t> between(x.shape().begin(), x.shape().end());
    between[size_t(last)] = n / 2 + 1;
    if (!std::ranges::equal(between, y.shape())) first = empty(between, y.dtype);
  }
  visit_parts(x.dtype, [&]<class T>() {
    transform_dim<T>(x, *first, last, n, false, c.real(3), !c.boolean(4));
    if (!dims.empty()) complex_dims<T>(first, y, dims, y.shape(), !c.boolean(4), 1.0);
  });
}
// _fft_c2r(self, dim, n, scale, forward): the last dim from half of a Hermitian spectrum to real numbers
void infer_c2r(Call& c) {
  Tensor& x = c.tensor(0);
  if (!is_complex(x.dtype)) runtime_error(c.name(), ": expected a complex tensor, got ", dtype_name(x.dtype));
  const auto& dims = c.hand_over(dims_of(c, x));
  check_some(c, dims);
  std::vector<int64_t> shape(x.shape().begin(), x.shape().end());
  for (size_t k = 0; k < dims.size(); ++k) shape[size_t(dims[k])] = c.ints(2)[k];
  check_lengths(c, shape, dims);
  check_lengths(c, x.shape(), Dims(&dims.back(), 1));
  output_transformed(c, x, dims, shape, real_of(x.dtype));
}
void cpu_c2r(Call& c) {
  Tensor &x = c.tensor(0), &y = c.out();
  auto& dims = c.handed<std::vector<int64_t>>();
  const int64_t last = dims.back(), n = y.sizes[last];
  dims.pop_back();
  visit_parts(x.dtype, [&]<class T>() {
    TensorRef from = TensorRef::borrow(&x);
    if (!dims.empty()) {
      std::vector<int64_t> between(y.shape().begin(), y.shape().end());
      between[size_t(last)] = x.sizes[last];
      from = empty(between, x.dtype);
      complex_dims<T>(TensorRef::borrow(&x), *from, dims, between, !c.boolean(4), 1.0);
    }
    transform_dim<T>(*from, y, last, n, true, c.real(3), c.boolean(4));
  });
}

const Primitives rows{
    {"_fft_c2c", infer_c2c, cpu_c2c},
    {"_fft_r2c", infer_r2c, cpu_r2c},
    {"_fft_c2r", infer_c2r, cpu_c2r},
};

}  // namespace
}  // namespace flambeau::fft
