// The extension module flambeau._C: puts the parts together.
#include <algorithm>
#include <nanobind/nanobind.h>

#include "../core/device_table.h"
#include "../core/free_list.h"
#include "../core/machine.h"
#include "../core/memory.h"
#include "../core/unwritten.h"
#include "cuda.h"
#include "module_base.h"
#include "optim.h"
#include "python.h"
#include "storage.h"
#include "symbols.h"

namespace nb = nanobind;
using namespace flambeau;

namespace {

nb::dict memory_stats_dict() {
  const MemoryStats& m = memory_stats();
  nb::dict d;
  d["allocated"] = m.allocated;
  d["peak"] = m.peak;
  d["cached"] = m.cached;
  d["allocations"] = m.allocations;
  d["system_allocations"] = m.system_allocations;
  nb::dict objects;
  int64_t bytes = 0;
  for (const FreeListBase* list = FreeListBase::all; list; list = list->next) {
    objects[list->name] = list->count;
    bytes += list->count * int64_t(list->item_size);
  }
  d["free_objects"] = objects;
  d["free_object_bytes"] = bytes;
  return d;
}

// What functions bound by nanobind throw becomes the same Python exception as anywhere else.
void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& e) {
    set_error(e);
  }
}

// Memory, threads and defaults.
void add_settings(nb::module_& m) {
  m.def("memory_stats", memory_stats_dict);
  m.def("empty_cache", empty_cache);
  m.def("fail_allocation", fail_allocation);
  m.def("reset_peak_memory", reset_peak);
  m.def("cpu_capability", [] { return cpu_level() >= kAvx512 ? "AVX512" : "AVX2"; });
  m.def("num_threads", num_threads);
  m.def("set_num_threads", [](int n) {
    if (n < 1) throw nb::value_error("set_num_threads: expected a positive number of threads");
    set_num_threads(n);
  });
  m.def("default_device", [] { return nb::steal(device_object(default_device())); });
  m.def("set_default_device", [](nb::object d) { set_default_device(parse_device(d.ptr())); });
  m.def("placed_device", [](nb::handle d) { return nb::steal(device_object(placed(parse_device(d.ptr())))); });
  m.def("set_flush_denormal", set_flush_denormal);
  m.def("fill_unwritten", [](bool on) { fills_unwritten = on; });
  m.def("set_float_parts", [](int count) { process.float_parts = std::clamp(count, 0, 3); });
  m.def("splits_floats", [] { return multiplies_matrices_of_bfloat16() && process.float_parts; });
  m.def("default_dtype", [] { return nb::borrow(dtype_object(default_dtype())); });
  m.def("set_default_dtype", [](nb::object d) {
    if (Py_TYPE(d.ptr()) != DTypeType) throw nb::type_error("set_default_dtype: expected a flambeau.dtype");
    set_default_dtype(reinterpret_cast<DTypeObject*>(d.ptr())->dtype);
  });
}

}  // namespace

NB_MODULE(_C, m) {
  nb::set_leak_warnings(false);
  nb::register_exception_translator(translate);
  PyObject* module = m.ptr();
  add_types(module);
  add_package_type(module);
  add_errors(module);
  add_values(module);
  add_tensor_type(module);
  add_node_type(module);
  add_op_type(module);
  add_construction(module);
  add_reshaping(module);
  add_symbols(module);
  add_dispatch(module);
  add_levels(module);
  add_generator_type(module);
  add_dlpack(module);
  add_native_program(module);
  add_autocast(module);
  add_module_base(module);
  add_optim(module);
  add_storage(module);
  add_shared_memory(module);
  add_shared_group(module);
  add_shared_heap(module);
  add_profile(module);
  add_graph(module);
  add_pure_calls(module);
  add_settings(m);
  add_cuda(module);
}
