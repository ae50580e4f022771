// resize_: a tensor in another shape over its own memory. (squeeze_ and its kind are views in place:
// autograd/record.cpp)
#include "../core/unwritten.h"
#include "python.h"
#include "slot.h"

namespace flambeau {
namespace {

// resize(t, shape): contiguous with that shape; memory grows, its first bytes stay -> t
PyObject* resize(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 2 || !is_tensor(a[0]) || !PyTuple_Check(a[1])) type_error("resize takes a tensor and a tuple of sizes");
    Tensor& t = *as_tensor(a[0]);
    need_values(t);
    if (t.requires_grad()) runtime_error("resize_: a tensor that requires grad keeps its size; resize x.detach()");
    const std::vector<int64_t> shape = integers_of(a[1]);
    await_calls(t);
    const int64_t held = t.storage ? int64_t(t.storage->nbytes) : 0;
    int64_t bytes, offset = t.storage ? t.data - static_cast<char*>(t.storage->data) : 0;
    if (__builtin_mul_overflow(count(shape), t.itemsize(), &bytes) || __builtin_add_overflow(bytes, offset, &bytes))
      runtime_error("resize_: size calculation overflowed for shape ", shape_text(shape));
    if (t.storage && bytes > int64_t(t.storage->nbytes)) {
      if (t.base)
        not_implemented("resize_: the memory must grow from ", t.storage->nbytes, " to ", bytes,
                        " bytes, but this is a view");
      resize_tensor(t, shape, "resize_");
    }
    set_contiguous_dims(t, shape);
    if (fills_unwritten && bytes > held && !t.is_meta()) {  // new memory alone: the rest may be another's
      const int64_t before = std::max<int64_t>(0, held - offset) / t.itemsize(), more = t.numel - before, one = 1;
      fill_unwritten(*view_of(t, Dims(&more, 1), Dims(&one, 1), t.data + before * t.itemsize()));
    }
    bump_version(t);
    return Py_NewRef(a[0]);
  });
}

PyMethodDef functions[] = {{"resize", method<resize>(), METH_FASTCALL}, {}};

}  // namespace

void add_reshaping(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau
