// Changing a tensor's own shape: unsqueeze_ and its kind, resize_.
#include "python.h"

namespace flambeau {
namespace {

void refuse_leaf(const char* op, const Tensor& t) {
  if (grad_enabled && t.flags & kRequiresGrad && !t.grad_fn)
    runtime_error(op, ": a leaf Variable that requires grad is being used in an in-place operation.");
}

// become(t, view): t takes the sizes, strides and history of a view of itself -> t
PyObject* become(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 2 || !is_tensor(a[0]) || !is_tensor(a[1])) type_error("become takes a tensor and a view of it");
    Tensor &t = *as_tensor(a[0]), &view = *as_tensor(a[1]);
    if (t.storage != view.storage || t.dtype != view.dtype) runtime_error("become: the second tensor is no view of the first");
    refuse_leaf("shape in place", t);
    Node* node = grad_fn_of(view);
    if (node) set_history(t, node, view.output_nr);
    set_dims(t, view.shape(), view.stride());
    t.data = view.data;
    bump_version(t);
    t.view_version = t.storage ? t.storage->version : 0;  // its history is up to date
    return Py_NewRef(a[0]);
  });
}

// resize(t, shape): contiguous with that shape; memory grows, its first bytes stay -> t
PyObject* resize(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 2 || !is_tensor(a[0]) || !PyTuple_Check(a[1])) type_error("resize takes a tensor and a tuple of sizes");
    Tensor& t = *as_tensor(a[0]);
    if (t.requires_grad()) runtime_error("resize_: cannot resize variables that require grad");
    std::vector<int64_t> shape;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(a[1]); ++k) {
      shape.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(a[1], k)));
      if (shape.back() == -1 && PyErr_Occurred()) throw PythonError();
    }
    int64_t bytes, offset = t.storage ? t.data - static_cast<char*>(t.storage->data) : 0;
    if (__builtin_mul_overflow(count(shape), t.itemsize(), &bytes) || __builtin_add_overflow(bytes, offset, &bytes))
      runtime_error("resize_: size calculation overflowed for shape ", shape_text(shape));
    if (t.storage && bytes > int64_t(t.storage->nbytes)) {
      if (t.base) not_implemented("resize_: the memory must grow from ", t.storage->nbytes, " to ", bytes, " bytes, but this is a view");
      resize_tensor(t, shape, "resize_");
    }
    set_contiguous_dims(t, shape);
    bump_version(t);
    return Py_NewRef(a[0]);
  });
}

PyMethodDef functions[] = {{"become", (PyCFunction)(void*)become, METH_FASTCALL}, {"resize", (PyCFunction)(void*)resize, METH_FASTCALL}, {}};

}  // namespace

void add_reshaping(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau
