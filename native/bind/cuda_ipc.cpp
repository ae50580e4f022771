// flambeau._C._cuda, third part: memory and events of devices for other processes, by handles of the driver
// (flambeau.cuda._ipc says who keeps what).
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstring>

#include "../core/device_table.h"
#include "../core/pending.h"
#include "../cuda/allocator.h"
#include "cuda.h"
#include "python.h"

namespace nb = nanobind;

namespace flambeau {
namespace {

using cuda::IpcHandle;

nb::bytes bytes_of(const IpcHandle& h) { return nb::bytes(h.bytes, sizeof h.bytes); }
IpcHandle handle_of(nb::bytes given, const char* what) {
  IpcHandle h;
  if (given.size() != sizeof h.bytes) value_error(what, ": expected a handle of 64 bytes, got ", given.size());
  std::memcpy(h.bytes, given.c_str(), sizeof h.bytes);
  return h;
}

// ipc_memory(tensor): (handle of the segment that its storage is part of, where in it the storage begins, its bytes)
nb::tuple ipc_memory(nb::handle o) {
  const Tensor& t = *as_tensor(o.ptr());
  need_values(t);
  const Storage& s = *owner_of(t.storage);
  if (!owns_memory(s))
    runtime_error("this memory of ", device_name(t.device), " belongs to another process or library, and cannot be "
                  "sent on from here; send x.clone()");
  const auto* block = static_cast<const cuda::Block*>(s.context);
  const cuda::Block* first = block;
  while (first->before) first = first->before;
  cuda::use_device(cuda::index_of(t.device));
  IpcHandle handle;
  cuda::check(cuda::driver().ipc_memory(&handle, first->address), "sending a tensor to another process");
  return nb::make_tuple(bytes_of(handle), block->address - first->address, s.nbytes);
}
uintptr_t ipc_open(int device, nb::bytes handle) {
  constexpr unsigned kPeersToo = 1;
  cuda::use_device(device);
  cuda::Address address = 0;
  cuda::check(cuda::driver().ipc_open_memory(&address, handle_of(handle, "receiving a tensor"), kPeersToo),
              "receiving a tensor of another process");
  return address;
}
void ipc_close(int device, uintptr_t address) {
  cuda::use_device(device);
  cuda::check(cuda::driver().ipc_close_memory(address), "letting go of another process's tensor");
}

// Events for other processes keep no time.
uintptr_t ipc_new_event(int device) {
  constexpr unsigned kNoTiming = 2, kBetweenProcesses = 4;
  cuda::use_device(device);
  cuda::Event e = nullptr;
  cuda::check(cuda::driver().event_create(&e, kNoTiming | kBetweenProcesses), "cuda.Event");
  return reinterpret_cast<uintptr_t>(e);
}
nb::bytes ipc_event(int device, uintptr_t event) {
  cuda::use_device(device);
  IpcHandle handle;
  cuda::check(cuda::driver().ipc_event(&handle, reinterpret_cast<cuda::Event>(event)), "cuda.Event.ipc_handle");
  return bytes_of(handle);
}
uintptr_t ipc_open_event(int device, nb::bytes handle) {
  cuda::use_device(device);
  cuda::Event e = nullptr;
  cuda::check(cuda::driver().ipc_open_event(&e, handle_of(handle, "cuda.Event.from_ipc_handle")),
              "cuda.Event.from_ipc_handle");
  return reinterpret_cast<uintptr_t>(e);
}

}  // namespace

void add_cuda_ipc(PyObject* module) {
  nb::module_ m = nb::borrow<nb::module_>(module);
  m.def("ipc", [] { return nb::module_::import_("flambeau.cuda._ipc"); });  // which tensors that are sent ask for
  m.def("ipc_memory", ipc_memory);
  m.def("ipc_open", ipc_open);
  m.def("ipc_close", ipc_close);
  m.def("ipc_new_event", ipc_new_event);
  m.def("ipc_event", ipc_event);
  m.def("ipc_open_event", ipc_open_event);
}

}  // namespace flambeau
