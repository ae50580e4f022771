// Runs pointwise operators: decides which of two ways a call goes, and goes the short one.
//
// The short one serves what most calls are: contiguous operands of one shape and dtype (or a number, or few elements in
// the order of their dimensions, which are brought together), a fresh or in-place result. It decides with a few
// comparisons and calls the loop once, or another device's kernel. The general one (pointwise.h) promotes, broadcasts,
// orders and merges dimensions, and converts or packs block by block whatever the loop cannot read directly.
#include "pointwise.h"

namespace flambeau {

using namespace pointwise;

namespace {

template <bool kOnCpu>
bool plain(const Tensor& t, const Tensor& beside) {
  return (t.flags & kContiguous) && (kOnCpu ? t.device.type == DeviceType::CPU : t.device == beside.device);
}
// same memory or none shared: the common in-place and fresh cases
bool safe_beside(const Tensor& out, const char* p, int64_t bytes) {
  return p == out.data || p + bytes <= out.data || out.data + out.nbytes() <= p;
}

constexpr int64_t kFew = 32;

// What calls on the CPU have besides.
struct Short : ShortCall {
  using ShortCall::ShortCall;
  const Value* beside = nullptr;  // the number beside a half
  alignas(16) char together[3][kFew * 16];
};

// Operand k as a copy of its few elements, side by side; false: they are many, or in another order, which would be the
// result's too.
[[gnu::noinline]] bool brought_together(Short& s, int k, const Tensor& t) {
  if (t.numel > kFew || t.numel == 0) return false;
  for (int64_t d = 0, before = INT64_MAX; d < t.ndim; ++d) {
    if (t.sizes[d] == 1) continue;
    if (t.strides[d] <= 0 || t.strides[d] >= before) return false;
    before = t.strides[d];
  }
  s.ptr[k + 1] = s.together[k];
  visit_size(s.stride[k + 1], [&]<class U>() {
    const U* from = reinterpret_cast<const U*>(t.data);
    U* to = reinterpret_cast<U*>(s.together[k]);
    int64_t index[kMaxDims] = {};
    for (int64_t i = 0; i < t.numel; ++i) {
      to[i] = *from;
      for (int d = t.ndim - 1; d >= 0; --d) {
        from += t.strides[d];
        if (++index[d] < t.sizes[d]) break;
        from -= index[d] * t.strides[d];
        index[d] = 0;
      }
    }
  });
  return true;
}

// Operand k where its elements lie side by side.
template <bool kOnCpu>
bool side_by_side(Short& s, int k, const Tensor& t, const Tensor& self) {
  s.ptr[k + 1] = t.data;
  s.stride[k + 1] = item_size(t.dtype);
  return plain<kOnCpu>(t, self) || (kOnCpu && t.device.type == DeviceType::CPU && brought_together(s, k, t));
}

// Operand k of the short path beside the leading tensor, or false.
template <bool kOnCpu>
bool place_short(Short& s, int k, const Value& v, const Tensor& self) {
  const ElementwiseRow& row = s.row;
  const bool mask = row.bool_operands >> k & 1, loose = row.operands == 2 || row.any_stride;
  if (v.tag == Tag::Tensor) {
    const Tensor& t = *v.tensor;
    return t.dtype == (mask ? DType::Bool : self.dtype) && same_sizes(t, self) && side_by_side<kOnCpu>(s, k, t, self);
  }
  s.stride[k + 1] = 0;
  if (v.none()) {
    s.ptr[k + 1] = nullptr;
    return row.any_stride;
  }
  if (!loose || mask || !v.is_number() || v.huge) return false;
  if (int(v.tag) - int(Tag::Bool) > int(category(self.dtype))) return false;
  if ((self.flags & kWrappedNumber) || (is_half(self.dtype) && !kOnCpu)) return false;
  if (is_half(self.dtype) && row.operands == 2) {
    s.beside = &v;
    s.ptr[k + 1] = nullptr;
    return row.beside_number[int(self.dtype)];
  }
  if (self.dtype == DType::Float32) {
    float f = v.tag == Tag::Float ? float(v.f) : v.scalar().to<float>();
    std::memcpy(s.number[k], &f, 4);
  } else {
    store_scalar(s.number[k], v.scalar(), self.dtype);
  }
  s.ptr[k + 1] = s.number[k];
  return true;
}

// One row after another where the second operand is a vector along the last dimensions: a bias.
bool is_bias(const Tensor& self, const Tensor& t) {
  if (t.ndim == 0 || t.ndim >= self.ndim || t.numel < 8 || t.dtype != self.dtype || self.numel == 0) return false;
  if (!plain<true>(t, self)) return false;
  for (int d = 1; d <= t.ndim; ++d)
    if (t.sizes[t.ndim - d] != self.sizes[self.ndim - d]) return false;
  return true;
}

// long because: the whole of a small call; each test in it decides whether the call is one
template <bool kOnCpu>
bool run_short(Call& c, const ElementwiseRow& row, Promote promote) {
  const int operands = row.operands;
  if (operands > 3 || promote == Promote::Logical || row.weight == kByValue) return false;
  int lead = 0;  // the first operand that decides shape and dtype: in 1 - x the second, in where(c, x, 0) too
  while (lead < operands && (c.args[lead].tag != Tag::Tensor || (row.bool_operands >> lead & 1))) ++lead;
  if (lead == operands || (lead > 0 && promote == Promote::FirstOnly)) return false;
  Tensor& self = *c.args[lead].tensor;
  if (kOnCpu ? self.device.type != DeviceType::CPU : !table_of(self.device).pointwise_short) return false;
  if (c.given && !plain<kOnCpu>(self, self)) return false;
  DType dtype = self.dtype, compute = dtype, result = promote == Promote::Compare ? DType::Bool : dtype;
  LoopFn loop = row.loop[int(kOnCpu || !is_half(dtype) ? dtype : DType::Float32)];
  if (!loop || (promote == Promote::IntToFloat && !is_differentiable(dtype))) return false;
  if (promote == Promote::ComplexToReal && is_complex(dtype)) return false;

  Short s(row);
  if (!side_by_side<kOnCpu>(s, lead, self, self)) return false;
  int64_t row_length = 0;  // of a bias
  for (int k = 0; k < operands; ++k) {
    if (k == lead || place_short<kOnCpu>(s, k, c.args[k], self)) continue;
    if (!kOnCpu || k != 1 || operands != 2 || c.args[1].tag != Tag::Tensor) return false;
    if (!is_bias(self, *c.args[1].tensor)) return false;
    s.ptr[2] = c.args[1].tensor->data;
    s.stride[2] = item_size(dtype);
    row_length = c.args[1].tensor->numel;
  }
  if (row.adapt) {
    row.adapt(c, compute, result);
    if (compute != dtype) return false;
  }
  const int64_t n = self.numel;
  if (row_length && n * row.weight > kGrain) return false;
  Tensor* out;
  if (c.given) {
    out = c.given;
    if (out != &self || lead || result != dtype) return false;
    for (int k = 1; k < operands; ++k)
      if (s.stride[k + 1] &&
          !safe_beside(*out, s.ptr[k + 1], row_length ? row_length * s.stride[k + 1] : out->numel * s.stride[k + 1]))
        return false;
    if (row_length && s.ptr[2] == out->data) return false;
    c.push(TensorRef::borrow(out));
  } else {
    out = &c.output(self.shape(), result, self.device);
  }
  s.ptr[0] = out->data;
  s.stride[0] = item_size(result);
  if constexpr (!kOnCpu) {
    s.dtype = dtype;
    s.compute = row.loop[int(dtype)] ? dtype : DType::Float32;
    s.result = result;
    s.numel = n;
    Calling calling(c);
    if (n) table_of(self.device).pointwise_short(c, s);
    return true;
  }
  union Numbers {  // left as they are unless there are any
    Scalar read[kMaxScalars];
    Numbers() {}
  } numbers;
  Scalar* const scalars = numbers.read;
  if (operands < c.nargs) read_scalars(c, row, scalars);
  else if (is_half(dtype)) scalars[0] = Scalar(0);  // loops of halves share one form, with alpha
  if (s.beside) {
    loop = row.beside_number[int(dtype)];
    scalars[kNumberPlace] = s.beside->scalar();
  }
  if (row_length) {
    for (int64_t at = 0; at < n; at += row_length) {
      loop(s.ptr, s.stride, row_length, scalars);
      s.ptr[0] += row_length * s.stride[0];
      s.ptr[1] += row_length * s.stride[1];
    }
    return true;
  }
  if (n * row.weight <= kGrain) {
    if (n) loop(s.ptr, s.stride, n, scalars);
    return true;
  }
  Calling calling(c);
  LockRelease lock(n * row.weight);
  parallel_for(n, std::max<int64_t>(kGrain / row.weight, 1024), [&](int64_t begin, int64_t end) {
    char* p[4];
    for (int k = 0; k <= operands; ++k) p[k] = s.ptr[k] ? s.ptr[k] + begin * s.stride[k] : nullptr;
    loop(p, s.stride, end - begin, scalars);
  });
  return true;
}

// While it lives, the first of numbers alone stands as a tensor of no dimensions: add(3, 2).
class FirstOfNumbers {
 public:
  FirstOfNumbers(Call& c, const ElementwiseRow& row) : c_(c), given_(c.args) {
    for (int k = 0; k < row.operands; ++k)
      if (c.args[k].tag == Tag::Tensor) return;
    const Scalar number = c.scalar(0);
    tensor_ = wrap_number(number, number.dtype(DType::Float64));
    args_.assign(given_, given_ + c.nargs);
    args_[0] = Value(tensor_.get());
    c.args = args_.data();
  }
  FirstOfNumbers(const FirstOfNumbers&) = delete;
  ~FirstOfNumbers() { c_.args = given_; }

 private:
  Call& c_;
  const Value* const given_;
  TensorRef tensor_;
  std::vector<Value> args_;
};

}  // namespace

void run_elementwise(Call& c, const ElementwiseRow& row, Promote promote) {
  if (run_short<true>(c, row, promote) || run_short<false>(c, row, promote)) return;
  const FirstOfNumbers first(c, row);
  Calling calling(c);
  Pointwise w(row);
  infer(c, promote, w);
  table_of(w.out->device).pointwise(c, w);
}

void describe_elementwise(Call& c, const ElementwiseRow& row, Promote promote) {
  const FirstOfNumbers first(c, row);
  Pointwise w(row);
  infer(c, promote, w);
}

}  // namespace flambeau
