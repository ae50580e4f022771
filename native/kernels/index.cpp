// Advanced indexing: tensors of numbers and masks as indices, one per dimension, to read and to write.
#include <cstring>

#include "cast.h"
#include "combine.h"
#include "masks.h"
#include "options.h"
#include "strided.h"
#include "walk.h"

namespace flambeau {
namespace {

constexpr int64_t kGrain = 1 << 14;

// --- the plan of an indexing ----------------------------------------------------------------------------------------

struct Indexed {
  int64_t dim;
  TensorRef index;  // of int64, or of int32 as it came
};
struct Masked {
  TensorRef mask, places;  // as_mask, and one row of coordinates for each of its dimensions
};

// self's dimensions in three groups: `before` the indexed ones, the indexed ones (replaced by `shape`), and `after`.
// infer makes all but the coordinates of masks and the offsets, which the kernel adds: `locate`.
struct Plan {
  std::vector<Indexed> indices;
  std::vector<Masked> masks;
  std::vector<int64_t> shape;     // that the index tensors broadcast to
  std::vector<int64_t> offsets;   // where in self (in elements) each position of `shape` is
  std::vector<int> before, after; // dimensions of self
  std::vector<int64_t> result;    // sizes of the result
};

void check_mask(const Call& c, const Tensor& mask, const Tensor& self, int64_t dim) {
  for (int k = 0; k < mask.ndim; ++k)
    if (mask.sizes[k] != self.sizes[dim + k])
      index_error(c.name(), ": the mask ", shape_text(mask.shape()), " must have the sizes of the dimensions it "
                  "selects from, ", shape_text(self.shape()), " from dimension ", dim, " on");
}

// Masks become one index tensor per dimension of the mask.
void expand_masks(const Call& c, const Tensor& self, std::span<Tensor* const> indices, Plan& p) {
  int64_t dim = 0;
  for (Tensor* t : indices) {
    if (!t) {
      ++dim;
      continue;
    }
    bool mask = t->dtype == DType::Bool || t->dtype == DType::UInt8;
    if (!mask && t->dtype != DType::Int64 && t->dtype != DType::Int32)
      index_error(c.name(), ": an index must be of dtype int64, int32, uint8 or bool, got ", dtype_name(t->dtype));
    int64_t takes = mask ? t->ndim : 1;
    if (dim + takes > self.ndim)
      index_error(c.name(), ": more indices than the tensor's ", int(self.ndim), " dimensions");
    if (!mask) {
      p.indices.push_back({dim, TensorRef::borrow(t)});
    } else {
      if (t->dtype == DType::UInt8)
        hooks.warn(concat(c.name(), ": an index of dtype uint8 is a mask, unlike indices of other integers; use "
                          "index.bool() for a mask, or index.long() for places"));
      if (t->is_meta())
        not_implemented(c.name(),
                        ": the result's shape depends on the mask's values, which a meta tensor does not have");
      check_mask(c, *t, self, dim);
      TensorRef m = as_mask(*t);
      int64_t n = count_true(*m), one = 1;
      int64_t sizes[2] = {std::max<int64_t>(m->ndim, 1), n};
      TensorRef all = empty(sizes, DType::Int64);
      for (int64_t k = 0; k < takes; ++k)
        p.indices.push_back({dim + k, view_of(*all, Dims(&n, 1), Dims(&one, 1), all->data + k * n * 8)});
      p.masks.push_back({std::move(m), std::move(all)});
      // a 0-d mask selects all or nothing: callers give it a dimension of its own first
    }
    dim += takes;
  }
}

Plan plan_of(const Call& c, const Tensor& self, std::span<Tensor* const> indices) {
  Plan p;
  expand_masks(c, self, indices, p);
  const std::vector<Indexed>& list = p.indices;
  for (const Indexed& i : list) {
    try {
      p.shape = broadcast_shapes(p.shape, i.index->shape(), c.name());
    } catch (const Error&) {
      std::string shapes;
      for (const Indexed& j : list) shapes += (shapes.empty() ? "" : ", ") + shape_text(j.index->shape());
      index_error(c.name(), ": the index tensors do not broadcast: ", shapes);
    }
  }
  bool adjacent = true;
  for (size_t k = 1; k < list.size(); ++k) adjacent &= list[k].dim == list[k - 1].dim + 1;
  uint64_t taken = 0;
  for (const Indexed& i : list) taken |= uint64_t(1) << i.dim;
  for (int d = 0; d < self.ndim; ++d)
    if (!(taken >> d & 1)) (adjacent && !list.empty() && d < list[0].dim ? p.before : p.after).push_back(d);
  for (int d : p.before) p.result.push_back(self.sizes[d]);
  p.result.insert(p.result.end(), p.shape.begin(), p.shape.end());
  for (int d : p.after) p.result.push_back(self.sizes[d]);
  count(p.result);
  return p;
}

// The offsets in self, which has the strides that count: those of the result where that is written to.
void locate(const Call& c, const Tensor& self, Plan& p) {
  for (const Masked& m : p.masks) true_places(*m.mask, m.places->sizes[1], m.places->ptr<int64_t>());
  const int64_t n = count(p.shape), numel = count(p.result);
  p.offsets.assign(n, 0);
  for (const Indexed& i : p.indices) {
    int64_t size = self.sizes[i.dim], stride = self.strides[i.dim];
    TensorRef index = expanded(*i.index, p.shape, DType::Int64);
    const int64_t* at = index->ptr<int64_t>();
    for (int64_t k = 0; k < n; ++k) {
      int64_t j = __atomic_load_n(at + k, __ATOMIC_RELAXED);
      if (j < -size || j >= size) {
        if (numel == 0 && size == 0) continue;
        index_error(c.name(), ": index ", j, " is outside dimension ", i.dim, " of size ", size);
      }
      p.offsets[k] += (j < 0 ? j + size : j) * stride;
    }
  }
}

// The steps of a tensor of the result's shape, in elements: along the dimensions before the places, from one place to
// the next, and along those after them.
struct Steps {
  std::vector<int64_t> before, after;
  int64_t place = 0;
  bool even = true;  // one step leads from each place to the next
  Steps(const Plan& p, const Tensor& t) {
    const int64_t* stride = t.strides;
    before.assign(stride, stride + p.before.size());
    stride += p.before.size();
    int64_t n = 1;
    for (size_t d = p.shape.size(); d-- > 0;) {
      if (p.shape[d] == 1) continue;
      if (n == 1) place = stride[d];
      else even &= stride[d] == place * n;
      n *= p.shape[d];
    }
    stride += p.shape.size();
    after.assign(stride, stride + p.after.size());
  }
};
// The dimensions of self before and after the indexed ones, beside those of `other`.
Walk<2> walk_along(const std::vector<int>& dims, const Tensor& self, const std::vector<int64_t>& other) {
  Walk<2> w;
  for (size_t k = 0; k < dims.size(); ++k) w.add(self.sizes[dims[k]], {self.strides[dims[k]], other[k]});
  w.done();
  return w;
}

// row(self offset, other offset, n, self step, other step) for every run of elements; `other` has the result's shape.
// points(self offset, other offset, offsets, n) takes n places of single elements, where runs are that or where places
// lie nearer to each other than the elements of a run. Threads share the places; when `ordered` (of two writes to one
// place the later one counts) each one walks all places of the rows or columns it owns instead, in order.
// long because: one walk over places in four divisions of the work
template <class F, class G>
void each_run(const Plan& p, const Tensor& self, const Steps& other, bool ordered, F row, G points) {
  int64_t inner = 1, n = int64_t(p.offsets.size());
  for (int d : p.after) inner *= self.sizes[d];
  const Walk<2> before = walk_along(p.before, self, other.before), after = walk_along(p.after, self, other.after);
  if (before.rows == 0 || after.rows == 0 || n == 0) return;
  int64_t outer = before.length(), outer_self = before.stride[0][before.ndim - 1],
          outer_other = before.stride[1][before.ndim - 1];
  int64_t run = after.length(), run_self = after.stride[0][after.ndim - 1], run_other = after.stride[1][after.ndim - 1];
  const int64_t* at = p.offsets.data();
  int64_t rows = before.rows * outer;
  // f(number of the row, its offset in self, in other) for rows [begin, end) of `before`
  auto each_outer = [&](int64_t begin, int64_t end, auto f) {
    int64_t r = begin / outer * outer;
    before.each_row(begin / outer, (end - 1) / outer + 1, [&](const int64_t* start) {
      for (int64_t q = std::max(r, begin), stop = std::min(r + outer, end); q < stop; ++q)
        f(q, start[0] + (q - r) * outer_self, start[1] + (q - r) * outer_other);
      r += outer;
    });
  };
  auto part = [&](int64_t a, int64_t b, int64_t first, int64_t last) {  // the places [first, last) of one row
    if (inner == 1) return points(a, b + first * other.place, at + first, last - first);
    for (int64_t k = first; k < last; ++k)
      after.each_row(0, after.rows, [&](const int64_t* offset) {
        row(a + at[k] + offset[0], b + k * other.place + offset[1], run, run_self, run_other);
      });
  };
  const bool near = p.indices.size() == 1 && std::abs(self.strides[p.indices[0].dim]) < std::abs(run_self) &&
                    std::abs(other.place) < std::abs(run_other);
  if (near && after.rows == 1 && inner > 1) {
    parallel_for(rows * run, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
      each_outer(begin / run, (end - 1) / run + 1, [&](int64_t r, int64_t a, int64_t b) {
        for (int64_t j = std::max<int64_t>(begin - r * run, 0), stop = std::min(end - r * run, run); j < stop; ++j)
          points(a + j * run_self, b + j * run_other, at, n);
      });
    });
  } else if (!ordered) {
    parallel_for(rows * n, std::max<int64_t>(1, kGrain / inner), [&](int64_t begin, int64_t end) {
      each_outer(begin / n, (end - 1) / n + 1, [&](int64_t r, int64_t a, int64_t b) {
        part(a, b, std::max<int64_t>(begin - r * n, 0), std::min(end - r * n, n));
      });
    });
  } else if (rows >= num_threads() || inner == 1) {
    parallel_for(rows, std::max<int64_t>(1, kGrain / (inner * n)), [&](int64_t begin, int64_t end) {
      each_outer(begin, end, [&](int64_t, int64_t a, int64_t b) { part(a, b, 0, n); });
    });
  } else if (after.rows == 1) {  // columns
    parallel_for(run, std::max<int64_t>(16, kGrain / n), [&](int64_t begin, int64_t end) {
      each_outer(0, rows, [&](int64_t, int64_t a, int64_t b) {
        a += begin * run_self, b += begin * run_other;
        for (int64_t k = 0; k < n; ++k) row(a + at[k], b + k * other.place, end - begin, run_self, run_other);
      });
    });
  } else {
    parallel_for(after.rows, std::max<int64_t>(1, kGrain / (run * n)), [&](int64_t begin, int64_t end) {
      each_outer(0, rows, [&](int64_t, int64_t a, int64_t b) {
        for (int64_t k = 0; k < n; ++k)
          after.each_row(begin, end, [&](const int64_t* offset) {
            row(a + at[k] + offset[0], b + k * other.place + offset[1], run, run_self, run_other);
          });
      });
    });
  }
}

// --- index, index_put ------------------------------------------------------------------------------------------------

// The dimensions that are kept lie in the order in which self's do; those of the places stay where they are.
void infer_index(Call& c) {
  const Tensor& self = c.tensor(0);
  const Plan& p = c.hand_over(plan_of(c, self, c.tensors(1)));
  const int first = int(p.before.size()), behind = first + int(p.shape.size());
  auto step = [&](int d) {
    return d < first ? self.strides[p.before[size_t(d)]] : d < behind ? 0 : self.strides[p.after[size_t(d - behind)]];
  };
  auto order = [&](int a, int b) {
    const int64_t x = step(a), y = step(b);
    return x == 0 || y == 0 ? 0 : x != y ? (x < y ? -1 : 1) : int(p.result[size_t(a)] > p.result[size_t(b)]);
  };
  int64_t strides[kMaxDims];
  const bool known = !self.contiguous() && p.result.size() <= size_t(kMaxDims);
  if (known && ordered_strides(p.result, order, strides))
    c.output(p.result, self.dtype, self.device, Dims(strides, p.result.size()));
  else c.output(p.result, self.dtype, self.device);
}
void cpu_index(Call& c) {
  const Tensor& self = c.tensor(0);
  Tensor& out = c.out();
  Plan& p = c.handed<Plan>();
  locate(c, self, p);
  if (out.numel == 0) return;
  visit_size(self.itemsize(), [&]<class T>() {
    const T* from = self.ptr<T>();
    T* to = out.ptr<T>();
    LockRelease lock(out.numel);
    const Steps steps(p, out);
    each_run(p, self, steps, false, [&](int64_t a, int64_t b, int64_t n, int64_t sa, int64_t sb) {
      if (sa == 1 && sb == 1) std::memcpy(to + b, from + a, n * sizeof(T));
      else
        for (int64_t k = 0; k < n; ++k) to[b + k * sb] = from[a + k * sa];
    }, [&](int64_t a, int64_t b, const int64_t* at, int64_t n) {
      for (int64_t k = 0; k < n; ++k) to[b + k * steps.place] = from[a + at[k]];
    });
  });
}

// Whether masks are filled with one number, which then need not have the tensor's dtype.
bool fills_masks(Call& c) {
  const Tensor &self = c.tensor(0), &value = c.tensor(2);
  if (c.boolean(3) || value.numel != 1 || (is_complex(value.dtype) && !is_complex(self.dtype))) return false;
  bool any = false;
  for (const Tensor* index : c.tensors(1)) {
    if (index && index->dtype != DType::Bool && index->dtype != DType::UInt8) return false;
    any = any || index;
  }
  return any;
}
// index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate)
void infer_index_put(Call& c) {
  const Tensor &self = c.tensor(0), &values = c.tensor(2);
  if (values.dtype != self.dtype && !(values.ndim == 0 && values.flags & kWrappedNumber) && !fills_masks(c))
    runtime_error(c.name(), ": the values must have the tensor's dtype ", dtype_name(self.dtype), ", got ",
                  dtype_name(values.dtype));
  if (c.inplace && (c.boolean(3) || values.numel != 1)) check_writable(c, self);  // one number may be written twice
  const Plan& p = c.hand_over(plan_of(c, self, c.tensors(1)));
  Dims shape = values.shape();
  while (shape.size() > p.result.size() && shape[0] == 1) shape = shape.subspan(1);
  bool fits = shape.size() <= p.result.size();
  for (size_t k = 0; fits && k < shape.size(); ++k) {
    int64_t n = shape[shape.size() - 1 - k];
    fits = n == 1 || n == p.result[p.result.size() - 1 - k];
  }
  if (!fits)
    runtime_error(c.name(), ": values of shape ", shape_text(values.shape()), " do not broadcast to the indexed part, ",
                  shape_text(p.result));
  output_laid_as_self(c);
}
// A tensor that broadcasts to the result, in its shape.
TensorRef expanded_view(const Tensor& t, const Plan& p) {
  std::vector<int64_t> strides(p.result.size());
  for (int64_t k = 0, n = int64_t(p.result.size()); k < std::min<int64_t>(t.ndim, n); ++k)
    if (const int d = int(t.ndim - 1 - k); t.sizes[d] != 1) strides[size_t(n - 1 - k)] = t.strides[d];
  return view_of(t, p.result, strides, t.data);
}
void put_number(Tensor& out, const Plan& p, const Tensor& given) {
  TensorRef value = empty({}, out.dtype), flat = alias(given);
  set_contiguous_dims(*flat, {});
  copy_into(*value, *flat);
  visit_size(out.itemsize(), [&]<class T>() {
    T *to = out.ptr<T>(), x = *value->ptr<T>();
    LockRelease lock(count(p.result));
    each_run(p, out, Steps(p, *expanded_view(given, p)), true, [&](int64_t a, int64_t, int64_t n, int64_t sa, int64_t) {
      if (sa == 1) std::fill_n(to + a, n, x);
      else
        for (int64_t k = 0; k < n; ++k) to[a + k * sa] = x;
    }, [&](int64_t a, int64_t, const int64_t* at, int64_t n) {
      for (int64_t k = 0; k < n; ++k) to[a + at[k]] = x;
    });
  });
}
// 8-bit floats: each sum is taken in float32 and rounded.
void add_bytes(Tensor& out, const Plan& p, const Tensor& values) {
  const Cast widen = make_cast(out.dtype, DType::Float32), narrow = make_cast(DType::Float32, out.dtype);
  const auto add = [&](char* to, const char* from) {
    float sum, more;
    widen.apply(reinterpret_cast<char*>(&sum), to, 1);
    widen.apply(reinterpret_cast<char*>(&more), from, 1);
    sum += more;
    narrow.apply(to, reinterpret_cast<const char*>(&sum), 1);
  };
  char *data = out.data, *from = values.data;
  LockRelease lock(count(p.result));
  const Steps steps(p, values);
  each_run(p, out, steps, true, [&](int64_t a, int64_t b, int64_t n, int64_t sa, int64_t sb) {
    for (int64_t k = 0; k < n; ++k) add(data + a + k * sa, from + b + k * sb);
  }, [&](int64_t a, int64_t b, const int64_t* at, int64_t n) {
    for (int64_t k = 0; k < n; ++k) add(data + a + at[k], from + b + k * steps.place);
  });
}
void add_values(Tensor& out, const Plan& p, const Tensor& values) {
  const DType dtype = out.dtype;
  if (is_float8(dtype) && dtype < DType::Float8_e8m0fnu) return add_bytes(out, p, values);
  const int64_t item = out.itemsize();
  char *data = out.data, *from = values.data;
  LockRelease lock(count(p.result));
  const Steps steps(p, values);
  each_run(p, out, steps, true, [&](int64_t a, int64_t b, int64_t n, int64_t sa, int64_t sb) {
    add_run(dtype, data + a * item, sa, from + b * item, sb, n);
  }, [&](int64_t a, int64_t b, const int64_t* at, int64_t n) {
    for (int64_t k = 0; k < n; ++k)
      add_run(dtype, data + (a + at[k]) * item, 1, from + (b + k * steps.place) * item, 1, 1);
  });
}
void put_values(Tensor& out, const Plan& p, const Tensor& values) {
  visit_size(out.itemsize(), [&]<class T>() {
    T* to = out.ptr<T>();
    const T* from = values.ptr<T>();
    LockRelease lock(count(p.result));
    const Steps steps(p, values);
    // ordered: of two writes to one place the last one wins, as users expect
    each_run(p, out, steps, true, [&](int64_t a, int64_t b, int64_t n, int64_t sa, int64_t sb) {
      if (sa == 1 && sb == 1) std::memcpy(to + a, from + b, n * sizeof(T));
      else
        for (int64_t k = 0; k < n; ++k) to[a + k * sa] = from[b + k * sb];
    }, [&](int64_t a, int64_t b, const int64_t* at, int64_t n) {
      for (int64_t k = 0; k < n; ++k) to[a + at[k]] = from[b + k * steps.place];
    });
  });
}
void cpu_index_put(Call& c) {
  Tensor& out = c.out();
  Plan& p = c.handed<Plan>();
  locate(c, out, p);  // of the same shape as self
  begin_with_self(c);
  const Tensor& given = c.tensor(2);
  if (count(p.result) == 0) return;
  if (given.numel == 1 && !c.boolean(3)) return put_number(out, p, given);  // nothing to lay out
  TensorRef converted = to_dtype(given, out.dtype), values = expanded_view(*converted, p);
  if (given.storage == out.storage || !Steps(p, *values).even) {  // written while it is read; places of several steps
    values = empty(p.result, out.dtype);
    copy_into(*values, *converted);
  }
  if (c.boolean(3)) add_values(out, p, *values);
  else put_values(out, p, *values);
}

const Primitives rows{
    {"index", infer_index, cpu_index, Infer::ReadsMasks},
    {"index_put", infer_index_put, cpu_index_put, Infer::ReadsMasks},
};

}  // namespace
}  // namespace flambeau
