// flambeau._C._cuda, second part: tensors in pinned memory and over other libraries' memory, generators, graphs.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "../core/device_table.h"
#include "../core/generator.h"
#include "../cuda/allocator.h"
#include "../cuda/graphs.h"
#include "../cuda/pinned.h"
#include "cuda.h"
#include "../core/foreign.h"
#include "python.h"

namespace nb = nanobind;

namespace flambeau {
namespace {

Tensor& tensor_of(nb::handle o) {
  if (!is_tensor(o.ptr())) type_error("expected a Tensor, got ", Py_TYPE(o.ptr())->tp_name);
  return *as_tensor(o.ptr());
}

// Work of that stream uses t too: its memory is not handed out again before that is over.
void record_stream(nb::handle o, uintptr_t stream) {
  Tensor& t = tensor_of(o);
  need_values(t);
  if (t.device.type != DeviceType::CUDA)
    runtime_error("record_stream: expected a tensor on a CUDA device, got one on ", device_name(t.device));
  if (t.storage->data && owns_memory(*t.storage))
    cuda::use_on(static_cast<cuda::Block*>(t.storage->context), reinterpret_cast<cuda::Stream>(stream));
}

nb::object pin(nb::handle o) {
  Tensor& t = tensor_of(o);
  need_values(t);
  if (t.device.type != DeviceType::CPU)
    runtime_error("pin_memory: only memory of the CPU can be pinned, and this tensor is on ", device_name(t.device));
  TensorRef copy = empty({}, t.dtype);
  release(std::exchange(copy->storage, cuda::new_pinned(size_t(t.nbytes()))));
  copy->data = static_cast<char*>(copy->storage->data);
  set_contiguous_dims(*copy, t.shape());
  copy_into(*copy, t);
  return nb::steal(take_object(std::move(copy)));
}
bool is_pinned(nb::handle o) {
  const Tensor& t = tensor_of(o);
  return t.storage && cuda::is_pinned(*t.storage);
}

// Which device an address belongs to.
int device_of_address(uintptr_t address) {
  constexpr int kOrdinal = 9;
  int device = 0;
  cuda::check(cuda::driver().pointer_attribute(&device, kOrdinal, address), "__cuda_array_interface__");
  return device;
}

void free_foreign(Storage* s) { Py_DECREF(static_cast<PyObject*>(s->context)); }

// over_address(address, shape, strides in elements, dtype, device, owner): a tensor over memory that `owner` keeps
nb::object over_address(uintptr_t address, nb::tuple shape, nb::tuple strides, nb::handle dtype, int device,
                        nb::object owner) {
  const std::vector<int64_t> sizes = integers_of(shape.ptr()), steps = integers_of(strides.ptr());
  const DType d = parse_dtype(dtype.ptr(), "as_tensor");
  int64_t low = 0, high = item_size(d);
  for (size_t k = 0; k < sizes.size(); ++k) {
    const int64_t far = (sizes[k] - 1) * steps.at(k) * item_size(d);
    if (sizes[k] > 0) (far < 0 ? low : high) += far;
  }
  char* data = reinterpret_cast<char*>(address);
  TensorRef t = over_foreign(data + low, size_t(count(sizes) ? high - low : 0), false, d, data);
  t->device = t->storage->device = placed(cuda::device_at(device));  // the first tensor of a process, perhaps
  set_dims(*t, sizes, steps);
  t->storage->context = owner.release().ptr();
  t->storage->free = free_foreign;
  return nb::steal(take_object(std::move(t)));
}

nb::object default_generator_object(int device) { return nb::borrow(py(&default_generator_of(device))); }

using cuda::Recorded;
struct GraphObject : Recorded {
  ~GraphObject() {
    try {
      cuda::drop_graph(*this);
    } catch (const std::exception&) {  // the driver is shutting down
    }
  }
};

void add_graphs(nb::module_& m) {
  m.def("new_pool", cuda::new_pool);
  m.def("begin_pool", [](int device, uint64_t pool, uintptr_t stream) {
    cuda::begin_pool(device, pool, reinterpret_cast<cuda::Stream>(stream));
  });
  m.def("end_pool", [](int device, uint64_t pool, uintptr_t stream) {
    cuda::end_pool(device, pool, reinterpret_cast<cuda::Stream>(stream));
  });
  m.def("drop_pool", cuda::drop_pool);
  nb::class_<GraphObject>(m, "Graph")
      .def(nb::init<>())
      .def("begin", [](GraphObject& g, int device, uintptr_t stream, uint64_t pool, int mode) {
        cuda::begin_graph(g, device, reinterpret_cast<cuda::Stream>(stream), pool, mode);
      })
      .def("end", [](GraphObject& g, bool keep) { cuda::end_graph(g, keep); })
      .def("instantiate", [](GraphObject& g, bool keep) { cuda::instantiate_graph(g, keep); })
      .def("replay", [](GraphObject& g) { cuda::replay_graph(g); })
      .def("size", [](GraphObject& g) { return cuda::graph_size(g); })
      .def("print", [](GraphObject& g, const std::string& path) { cuda::print_graph(g, path); })
      .def("handle", [](GraphObject& g) { return reinterpret_cast<uintptr_t>(g.graph); })
      .def("exec_handle", [](GraphObject& g) { return reinterpret_cast<uintptr_t>(g.exec); })
      .def("reset", [](GraphObject& g) { cuda::drop_graph(g); });
}

}  // namespace

void add_cuda_tensors(PyObject* module) {
  nb::module_ m = nb::borrow<nb::module_>(module);
  m.def("record_stream", record_stream);
  m.def("pin", pin);
  m.def("is_pinned", is_pinned);
  m.def("device_of_address", device_of_address);
  m.def("over_address", over_address);
  m.def("default_generator", default_generator_object);
  m.def("seed_generators", [](nb::int_ seed) {
    seed_cuda_generators(PyLong_AsUnsignedLongLongMask(seed.ptr()));
  });
  add_graphs(m);
}

}  // namespace flambeau
