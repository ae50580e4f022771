// Advanced indexing: tensors of numbers and masks as indices, reading and writing; nonzero, masked and flat forms.
#include <cstring>

#include "combine.h"
#include "options.h"
#include "steady.h"
#include "views.h"
#include "walk.h"

namespace flambeau {
namespace {

constexpr int64_t kGrain = 1 << 14;

int64_t count_true(const Tensor& mask) {  // contiguous bool
  int64_t n = 0;
  const uint8_t* m = mask.ptr<uint8_t>();
  for (int64_t k = 0; k < mask.numel; ++k) n += m[k] != 0;
  return n;
}
TensorRef as_mask(const Tensor& t) { return contiguous(*to_dtype(t, DType::Bool)); }

// Coordinates of the first n true elements (the first element of all where there are fewer by now):
// out[k * n + j] is coordinate k of the j-th one.
void true_places(const Tensor& mask, int64_t n, int64_t* out) {
  const uint8_t* m = mask.ptr<uint8_t>();
  int ndim = mask.ndim;
  if (ndim == 0 || n == 0) return;
  int64_t at[kMaxDims] = {}, j = 0, last = mask.sizes[ndim - 1];
  for (int64_t base = 0; base < mask.numel && j < n; base += last) {
    int64_t first = j, *column = out + (ndim - 1) * n;
    for (int64_t k = 0; k < last && j < n; ++k) {  // no branch on the mask: it cannot be predicted
      column[j] = k;
      j += m[base + k] != 0;
    }
    for (int d = 0; d + 1 < ndim; ++d) std::fill(out + d * n + first, out + d * n + j, at[d]);
    for (int d = ndim - 2; d >= 0 && ++at[d] == mask.sizes[d]; --d) at[d] = 0;
  }
  for (int d = 0; d < ndim; ++d) std::fill(out + d * n + j, out + (d + 1) * n, int64_t(0));
}

// --- the plan of an indexing ----------------------------------------------------------------------------------------

// self's dimensions in three groups: `before` the indexed ones, the indexed ones (replaced by `shape`), and `after`.
struct Plan {
  std::vector<int64_t> shape;     // that the index tensors broadcast to
  std::vector<int64_t> offsets;   // where in self (in elements) each position of `shape` is
  std::vector<int> before, after; // dimensions of self
  std::vector<int64_t> result;    // sizes of the result
};

struct Indexed {
  int64_t dim;
  TensorRef index;  // int64
};

void check_mask(const Call& c, const Tensor& mask, const Tensor& self, int64_t dim) {
  for (int k = 0; k < mask.ndim; ++k)
    if (mask.sizes[k] != self.sizes[dim + k])
      index_error(c.name(), ": the mask ", shape_text(mask.shape()), " must have the sizes of the dimensions it "
                  "selects from, ", shape_text(self.shape()), " from dimension ", dim, " on");
}

// Masks become one index tensor per dimension of the mask.
std::vector<Indexed> expand_masks(const Call& c, const Tensor& self, std::span<Tensor* const> indices,
                                  bool shapes_only) {
  std::vector<Indexed> list;
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
      list.push_back({dim, t->is_meta() ? TensorRef::borrow(t) : to_dtype(*t, DType::Int64)});
    } else {
      if (t->is_meta())
        not_implemented(c.name(),
                        ": the result's shape depends on the mask's values, which a meta tensor does not have");
      check_mask(c, *t, self, dim);
      TensorRef m = as_mask(*t);
      int64_t n = count_true(*m), one = 1;
      int64_t sizes[2] = {std::max<int64_t>(m->ndim, 1), n};
      TensorRef all = empty(sizes, DType::Int64);
      if (!shapes_only) true_places(*m, n, all->ptr<int64_t>());
      for (int64_t k = 0; k < takes; ++k)
        list.push_back({dim + k, view_of(*all, Dims(&n, 1), Dims(&one, 1), all->data + k * n * 8)});
      // a 0-d mask selects all or nothing: callers give it a dimension of its own first
    }
    dim += takes;
  }
  return list;
}

Plan plan_of(const Call& c, const Tensor& self, std::span<Tensor* const> indices, bool with_offsets) {
  Plan p;
  std::vector<Indexed> list = expand_masks(c, self, indices, !with_offsets);
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
  int64_t numel = count(p.result);
  if (!with_offsets) return p;
  int64_t n = count(p.shape);
  p.offsets.assign(n, 0);
  for (const Indexed& i : list) {
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
  return p;
}

// row(self offset, other offset, n, self step, other step) for every run of elements, `other` being laid out
// contiguously in the result's order. Where the runs are single elements, points(self offset, other offset, offsets, n)
// takes n of them. Threads share the places; when `ordered` (of two writes to one place the later one counts) each one
// walks all places of the rows or columns it owns instead, in order.
// long because: one walk over places in three divisions of the work
template <class F, class G>
void each_run(const Plan& p, const Tensor& self, bool ordered, F row, G points) {
  int64_t inner = 1, n = int64_t(p.offsets.size());
  for (int d : p.after) inner *= self.sizes[d];
  Walk<2> before, after;
  std::vector<int64_t> steps(p.before.size());
  int64_t step = inner * n;
  for (size_t k = p.before.size(); k-- > 0;) steps[k] = step, step *= self.sizes[p.before[k]];
  for (size_t k = 0; k < p.before.size(); ++k)
    before.add(self.sizes[p.before[k]], {self.strides[p.before[k]], steps[k]});
  before.done();
  step = inner;
  for (int d : p.after) {
    step /= std::max<int64_t>(self.sizes[d], 1);
    after.add(self.sizes[d], {self.strides[d], step});
  }
  after.done();
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
    if (inner == 1) return points(a, b + first, at + first, last - first);
    for (int64_t k = first; k < last; ++k)
      after.each_row(0, after.rows, [&](const int64_t* offset) {
        row(a + at[k] + offset[0], b + k * inner + offset[1], run, run_self, run_other);
      });
  };
  if (!ordered) {
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
        for (int64_t k = 0; k < n; ++k) row(a + at[k], b + k * inner, end - begin, run_self, run_other);
      });
    });
  } else {
    parallel_for(after.rows, std::max<int64_t>(1, kGrain / (run * n)), [&](int64_t begin, int64_t end) {
      each_outer(0, rows, [&](int64_t, int64_t a, int64_t b) {
        for (int64_t k = 0; k < n; ++k)
          after.each_row(begin, end, [&](const int64_t* offset) {
            row(a + at[k] + offset[0], b + k * inner + offset[1], run, run_self, run_other);
          });
      });
    });
  }
}

// --- index, index_put ------------------------------------------------------------------------------------------------

void infer_index(Call& c) {
  const Tensor& self = c.tensor(0);
  Plan p = plan_of(c, self, c.tensors(1), false);
  c.output(p.result, self.dtype, self.device);
}
void cpu_index(Call& c) {
  const Tensor& self = c.tensor(0);
  Tensor& out = c.out();
  Plan p = plan_of(c, self, c.tensors(1), true);
  if (out.numel == 0) return;
  if (!std::ranges::equal(p.result,
                          out.shape())) {  // a mask was written to since `out` was made: as many places as then
    int64_t each = 1;
    for (const auto* dims : {&p.before, &p.after})
      for (int d : *dims) each *= self.sizes[d];
    p.offsets.resize(size_t(out.numel / each), 0);
  }
  visit_size(self.itemsize(), [&]<class T>() {
    const T* from = self.ptr<T>();
    T* to = out.ptr<T>();
    LockRelease lock(out.numel);
    each_run(p, self, false, [&](int64_t a, int64_t b, int64_t n, int64_t sa, int64_t sb) {
      if (sa == 1 && sb == 1) std::memcpy(to + b, from + a, n * sizeof(T));
      else
        for (int64_t k = 0; k < n; ++k) to[b + k * sb] = from[a + k * sa];
    }, [&](int64_t a, int64_t b, const int64_t* at, int64_t n) {
      for (int64_t k = 0; k < n; ++k) to[b + k] = from[a + at[k]];
    });
  });
}

// index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate)
void infer_index_put(Call& c) {
  const Tensor &self = c.tensor(0), &values = c.tensor(2);
  if (values.dtype != self.dtype && !(values.ndim == 0 && values.flags & kWrappedNumber))
    runtime_error(c.name(), ": the values must have the tensor's dtype ", dtype_name(self.dtype), ", got ",
                  dtype_name(values.dtype));
  if (c.inplace) check_writable(c, self);
  Plan p = plan_of(c, self, c.tensors(1), false);
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
  output_self(c);
}
// long because: one number, sums, and values each have the same two loops over runs and points
void cpu_index_put(Call& c) {
  Tensor& out = c.out();
  Plan p = plan_of(c, out, c.tensors(1), true);  // of the same shape as self
  begin_with_self(c);
  const Tensor& given = c.tensor(2);
  int64_t item = out.itemsize(), numel = count(p.result);
  if (numel == 0) return;
  if (given.numel == 1 && !c.boolean(3)) {  // nothing to lay out
    TensorRef value = empty({}, out.dtype), flat = alias(given);
    set_contiguous_dims(*flat, {});
    copy_into(*value, *flat);
    visit_size(item, [&]<class T>() {
      T *to = out.ptr<T>(), x = *value->ptr<T>();
      LockRelease lock(numel);
      each_run(p, out, true, [&](int64_t a, int64_t, int64_t n, int64_t sa, int64_t) {
        if (sa == 1) std::fill_n(to + a, n, x);
        else
          for (int64_t k = 0; k < n; ++k) to[a + k * sa] = x;
      }, [&](int64_t a, int64_t, const int64_t* at, int64_t n) {
        for (int64_t k = 0; k < n; ++k) to[a + at[k]] = x;
      });
    });
    return;
  }
  TensorRef values;
  if (given.storage != out.storage) {
    values = expanded(given, p.result, out.dtype);
  } else {  // written while it is read
    values = empty(p.result, out.dtype);
    copy_into(*values, given);
  }
  if (c.boolean(3)) {
    DType dtype = out.dtype;
    char *data = out.data, *from = values->data;
    LockRelease lock(numel);
    each_run(p, out, true, [&](int64_t a, int64_t b, int64_t n, int64_t sa, int64_t sb) {
      add_run(dtype, data + a * item, sa, from + b * item, sb, n);
    }, [&](int64_t a, int64_t b, const int64_t* at, int64_t n) {
      for (int64_t k = 0; k < n; ++k) add_run(dtype, data + (a + at[k]) * item, 1, from + (b + k) * item, 1, 1);
    });
    return;
  }
  visit_size(item, [&]<class T>() {
    T* to = out.ptr<T>();
    const T* from = values->ptr<T>();
    LockRelease lock(numel);
    // ordered: of two writes to one place the last one wins, as users expect
    each_run(p, out, true, [&](int64_t a, int64_t b, int64_t n, int64_t sa, int64_t sb) {
      if (sa == 1 && sb == 1) std::memcpy(to + a, from + b, n * sizeof(T));
      else
        for (int64_t k = 0; k < n; ++k) to[a + k * sa] = from[b + k * sb];
    }, [&](int64_t a, int64_t b, const int64_t* at, int64_t n) {
      for (int64_t k = 0; k < n; ++k) to[a + at[k]] = from[b + k];
    });
  });
}

// --- nonzero, masks --------------------------------------------------------------------------------------------------

void refuse_meta(const Call& c, const Tensor& t) {
  if (t.is_meta())
    not_implemented(c.name(), ": the result's shape depends on values, which a meta tensor does not have");
}

void infer_nonzero(Call& c) {
  const Tensor& t = c.tensor(0);
  refuse_meta(c, t);
  int64_t n = count_true(*as_mask(t)), shape[2] = {n, t.ndim}, strides[2] = {1, std::max<int64_t>(n, 1)};
  c.output(shape, DType::Int64, t.device, strides);  // one dimension's coordinates after the other, as PyTorch has them
}
void cpu_nonzero(Call& c) {
  Tensor& out = c.out();
  TensorRef m = as_mask(c.tensor(0));
  if (out.numel) true_places(*m, out.sizes[0], out.ptr<int64_t>());
}

// One row of coordinates per dimension, each its own contiguous tensor; a 0-d tensor counts as one of shape [1].
void infer_nonzero_tuple(Call& c) {
  const Tensor& t = c.tensor(0);
  refuse_meta(c, t);
  int64_t n = count_true(*as_mask(t));
  for (int k = 0; k < std::max<int>(t.ndim, 1); ++k) c.output(Dims(&n, 1), DType::Int64, t.device);
}
void cpu_nonzero_tuple(Call& c) {
  const Tensor& t = c.tensor(0);
  TensorRef m = as_mask(t);
  int64_t n = c.out(0).numel;
  if (t.ndim == 0) {
    if (n) c.out(0).ptr<int64_t>()[0] = 0;
    return;
  }
  std::vector<int64_t> all(n * t.ndim);
  true_places(*m, n, all.data());
  for (int k = 0; k < t.ndim; ++k) std::copy_n(all.data() + k * n, n, c.out(k).ptr<int64_t>());
}

void check_bool_mask(const Call& c, const Tensor& mask) {
  if (mask.dtype != DType::Bool)
    runtime_error(c.name(), ": expected BoolTensor for mask, got ", dtype_name(mask.dtype));
}
void infer_masked_select(Call& c) {
  const Tensor &t = c.tensor(0), &mask = c.tensor(1);
  check_bool_mask(c, mask);
  refuse_meta(c, mask);
  std::vector<int64_t> shape = broadcast_shapes(t.shape(), mask.shape(), c.name());
  int64_t n = count_true(*expanded(mask, shape, DType::Bool));
  c.output(Dims(&n, 1), t.dtype, t.device);
}
void cpu_masked_select(Call& c) {
  std::vector<int64_t> shape = broadcast_shapes(c.tensor(0).shape(), c.tensor(1).shape(), c.name());
  TensorRef m = expanded(c.tensor(1), shape, DType::Bool), t = expanded(c.tensor(0), shape, c.tensor(0).dtype);
  const uint8_t* keep = m->ptr<uint8_t>();
  visit_size(t->itemsize(), [&]<class T>() {
    const T* from = t->ptr<T>();
    T *to = c.out().ptr<T>(), *end = to + c.out().numel;
    for (int64_t k = 0; k < m->numel && to < end; ++k) {  // no branch on the mask: it cannot be predicted
      *to = from[k];
      to += keep[k] != 0;
    }
    std::fill(to, end, T{});  // another thread has cleared some since they were counted
  });
}

// masked_scatter(Tensor self, Tensor mask, Tensor source): the true places take source's elements in order
void infer_masked_scatter(Call& c) {
  const Tensor &t = c.tensor(0), &mask = c.tensor(1), &source = c.tensor(2);
  check_bool_mask(c, mask);
  if (t.dtype != source.dtype)
    runtime_error(c.name(), ": source must have the tensor's dtype ", dtype_name(t.dtype), ", got ",
                  dtype_name(source.dtype));
  std::vector<int64_t> shape = broadcast_shapes(t.shape(), mask.shape(), c.name());
  if (c.inplace) {
    if (!std::ranges::equal(Dims(shape), t.shape()))
      runtime_error(c.name(), ": the mask of shape ", shape_text(mask.shape()), " does not fit self of shape ",
                    shape_text(t.shape()));
    check_writable(c, t);
    output_self(c);
  } else {
    c.output(shape, t.dtype, t.device);
  }
}
void cpu_masked_scatter(Call& c) {
  Tensor& out = c.out();
  begin_with_self(c);
  TensorRef mask = expanded(c.tensor(1), out.shape(), DType::Bool), source = contiguous(c.tensor(2)),
            to = contiguous(out);
  int64_t n = count_true(*mask), j = 0;
  if (n > source->numel)
    runtime_error(c.name(), ": the mask selects ", n, " elements and source holds ", source->numel);
  const uint8_t* keep = mask->ptr<uint8_t>();
  visit_size(out.itemsize(), [&]<class T>() {
    for (int64_t k = 0; k < mask->numel; ++k)
      if (keep[k] && j < source->numel) to->ptr<T>()[k] = source->ptr<T>()[j++];
  });
  if (to.get() != &out) copy_into(out, *to);
}

// --- flat positions --------------------------------------------------------------------------------------------------

void check_flat_index(const Call& c, const Tensor& index) {
  if (index.dtype != DType::Int64) runtime_error(c.name(), "(): index must be int64, got ", dtype_name(index.dtype));
}
// Refuses an index outside [-n, n) before anything is written.
void check_places(const Call& c, const Tensor& index, int64_t n) {
  const int64_t* at = index.ptr<int64_t>();
  bool inside = true;
  for (int64_t k = 0; k < index.numel; ++k) inside &= (at[k] >= -n) & (at[k] < n);
  if (inside) return;
  const int64_t* bad = std::find_if(at, at + index.numel, [n](int64_t i) { return i < -n || i >= n; });
  index_error(c.name(), ": index ", *bad, " is outside a tensor of ", n, " elements");
}
int64_t place(const int64_t* at, int64_t n) {
  int64_t i = __atomic_load_n(at, __ATOMIC_RELAXED);
  i += i < 0 ? n : 0;
  return index_within(&i, n);
}

void infer_take(Call& c) {
  check_flat_index(c, c.tensor(1));
  if (c.tensor(0).numel == 0 && c.tensor(1).numel > 0) index_error(c.name(), "(): an empty tensor has no elements to "
                                                                   "take");
  c.output(c.tensor(1).shape(), c.tensor(0).dtype, c.tensor(0).device);
}
void cpu_take(Call& c) {
  TensorRef t = contiguous(c.tensor(0)), index = contiguous(c.tensor(1));
  check_places(c, *index, t->numel);
  LockRelease lock(index->numel * 2);
  visit_size(t->itemsize(), [&]<class T>() {
    const T* from = t->ptr<T>();
    const int64_t *at = index->ptr<int64_t>(), n = t->numel;
    T* to = c.out().ptr<T>();
    parallel_for(index->numel, 1 << 15, [=](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) to[k] = from[place(at + k, n)];
    });
  });
}

// put(Tensor self, Tensor index, Tensor source, bool accumulate)
void infer_put(Call& c) {
  const Tensor &t = c.tensor(0), &index = c.tensor(1), &source = c.tensor(2);
  check_flat_index(c, index);
  if (t.dtype != source.dtype) runtime_error(c.name(), "(): source must have the tensor's dtype ", dtype_name(t.dtype),
                                             ", got ", dtype_name(source.dtype));
  if (index.numel != source.numel)
    index_error(c.name(), "(): source holds ", source.numel, " elements for ", index.numel, " indices");
  if (c.inplace) check_writable(c, t);
  output_self(c);
}
void cpu_put(Call& c) {
  Tensor& out = c.out();
  TensorRef index = contiguous(c.tensor(1)), source = contiguous(c.tensor(2));
  check_places(c, *index, out.numel);
  begin_with_self(c);
  TensorRef to = contiguous(out);
  const int64_t *at = index->ptr<int64_t>(), n = out.numel, count = index->numel;
  if (!c.boolean(3)) {
    visit_size(out.itemsize(), [&]<class T>() {
      for (int64_t k = 0; k < count; ++k) to->ptr<T>()[place(at + k, n)] = source->ptr<T>()[k];
    });
  } else {
    CombineFn add = combine_function(Combine::Add, out.dtype);
    const int64_t item = out.itemsize();
    for (int64_t k = 0; k < count; ++k) add(to->data + place(at + k, n) * item, source->data + k * item);
  }
  if (to.get() != &out) copy_into(out, *to);
}

// --- gradients of views that overlap ---------------------------------------------------------------------------------

// unfold_backward(Tensor grad, int[] self_shape, int dim, int size, int step): windows are added up
void infer_unfold_backward(Call& c) {
  const Tensor& g = c.tensor(0);
  check_size(c, c.ints(1));
  Tensor& out = c.output(c.ints(1), g.dtype, g.device);
  int64_t d = c.dim(2, out.ndim), size = c.integer(3), step = c.integer(4), have = out.ndim ? out.sizes[d] : 1;
  if (size < 0 || size > have || step <= 0)
    runtime_error(c.name(), ": size ", size, " and step ", step, " do not fit shape ", shape_text(out.shape()));
  std::vector<int64_t> shape(out.sizes, out.sizes + out.ndim);
  if (out.ndim) shape[d] = (have - size) / step + 1;
  shape.push_back(size);
  if (!std::ranges::equal(Dims(shape), g.shape()))
    runtime_error(c.name(), ": expected a gradient of shape ", shape_text(shape), ", got ", shape_text(g.shape()));
}
// out seen through this layout += grad, element by element in order
void add_through(Tensor& out, const Layout& l, const Tensor& g) {
  Walk<2> w;
  for (int k = 0; k < l.ndim; ++k) w.add(l.sizes[k], {l.strides[k], g.strides[k]});
  w.done();
  int64_t item = out.itemsize(), n = w.length(), to = w.stride[0][w.ndim - 1], from = w.stride[1][w.ndim - 1];
  LockRelease lock(g.numel);
  w.each_row(0, w.rows, [&](const int64_t* offset) {
    add_run(out.dtype, l.data + offset[0] * item, to, g.data + offset[1] * item, from, n);
  });
}
void cpu_unfold_backward(Call& c) {
  Tensor& out = c.out();
  const Tensor& g = c.tensor(0);
  fill(out, Scalar(0));
  int64_t d = c.dim(2, out.ndim), size = c.integer(3), step = c.integer(4);
  Layout l(out);
  if (out.ndim == 0) {
    l.push(size, 1);
  } else {
    l.sizes[d] = (out.sizes[d] - size) / step + 1;
    l.strides[d] = out.strides[d] * step;
    l.push(size, out.strides[d]);
  }
  add_through(out, l, g);
}

// as_strided_backward(Tensor grad, int[] self_size, int[] self_stride, int self_offset, int[] size, int[] stride, int?
// offset): self's memory region is rebuilt as a flat row, the gradient is added where the view read, and the row is
// read back as self.
void infer_as_strided_backward(Call& c) {
  const Tensor& g = c.tensor(0);
  if (c.ints(1).size() != c.ints(2).size() || c.ints(4).size() != c.ints(5).size() ||
      !std::ranges::equal(c.ints(4), g.shape()))
    runtime_error(c.name(), ": expected sizes and strides of equal length and a gradient of shape ",
                  shape_text(c.ints(4)), ", got ", shape_text(g.shape()));
  check_size(c, c.ints(1));
  constexpr int64_t most = int64_t(1) << 48;  // no storage reaches further
  for (int k : {2, 5})
    for (int64_t s : c.ints(k))
      if (s > most || s < -most) runtime_error(c.name(), ": stride ", s, " is out of bounds");
  if (c.integer(3) < 0 || c.integer(3) > most || c.integer_or(6, 0) < 0 || c.integer_or(6, 0) > most)
    runtime_error(c.name(), ": the offset is out of bounds");
  c.output(c.ints(1), g.dtype, g.device);
}

struct Reach {
  int64_t first, last;
  void include(Dims size, Dims stride, int64_t offset) {
    int64_t low = offset, high = offset;
    for (size_t k = 0; k < size.size(); ++k) (stride[k] < 0 ? low : high) += (size[k] - 1) * stride[k];
    first = std::min(first, low);
    last = std::max(last, high);
  }
};
Layout layout_of(Dims size, Dims stride, char* data) {
  Layout l;
  for (size_t k = 0; k < size.size(); ++k) l.push(size[k], stride[k]);
  l.data = data;
  return l;
}

void cpu_as_strided_backward(Call& c) {
  const Tensor& g = c.tensor(0);
  Dims self_size = c.ints(1), self_stride = c.ints(2), size = c.ints(4), stride = c.ints(5);
  int64_t self_offset = c.integer(3), offset = c.integer_or(6, self_offset), item = g.itemsize();
  Tensor& out = c.out();
  if (out.numel == 0) return;
  Reach reach{self_offset, self_offset};
  reach.include(self_size, self_stride, self_offset);
  if (g.numel > 0) reach.include(size, stride, offset);
  int64_t n = reach.last - reach.first + 1;
  TensorRef memory = empty(Dims(&n, 1), g.dtype);
  fill(*memory, Scalar(0));
  if (g.numel > 0) add_through(*memory, layout_of(size, stride, memory->data + (offset - reach.first) * item), g);
  TensorRef seen = layout_of(self_size, self_stride, memory->data + (self_offset - reach.first) * item).of(*memory);
  if (may_overlap(*seen)) {  // elements of self that share an address share its gradient evenly
    TensorRef uses = empty(Dims(&n, 1), g.dtype), one = empty(self_size, g.dtype);
    fill(*uses, Scalar(0));
    fill(*one, Scalar(1));
    add_through(*uses, layout_of(self_size, self_stride, uses->data + (self_offset - reach.first) * item), *one);
    if (g.dtype == DType::Float64) {
      for (int64_t k = 0; k < n; ++k) memory->ptr<double>()[k] /= std::max(uses->ptr<double>()[k], 1.0);
    } else if (g.dtype == DType::Float32) {
      for (int64_t k = 0; k < n; ++k) memory->ptr<float>()[k] /= std::max(uses->ptr<float>()[k], 1.0f);
    } else {
      not_implemented(c.name(), ": gradient of as_strided for an overlapping input of dtype ", dtype_name(g.dtype));
    }
  }
  copy_into(out, *seen);
}

const Primitives rows{
    {"index", infer_index, cpu_index, Infer::ReadsValues},
    {"index_put", infer_index_put, cpu_index_put, Infer::ReadsValues},
    {"nonzero_rows", infer_nonzero, cpu_nonzero, Infer::ReadsValues},
    {"nonzero_numpy", infer_nonzero_tuple, cpu_nonzero_tuple, Infer::ReadsValues},
    {"masked_select", infer_masked_select, cpu_masked_select, Infer::ReadsValues},
    {"masked_scatter", infer_masked_scatter, cpu_masked_scatter},
    {"take", infer_take, cpu_take},
    {"put", infer_put, cpu_put},
    {"unfold_backward", infer_unfold_backward, cpu_unfold_backward},
    {"as_strided_backward", infer_as_strided_backward, cpu_as_strided_backward},
};

}  // namespace
}  // namespace flambeau
