// flambeau._C._cuda: what flambeau.cuda asks the driver. Handles are numbers here; flambeau.cuda makes objects of them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "../cuda/allocator.h"
#include "../cuda/pinned.h"
#include "../cuda/plan.h"
#include "cuda.h"
#include "python.h"

namespace nb = nanobind;

namespace flambeau {
namespace {

using cuda::driver;

cuda::Stream stream_of(uintptr_t handle) { return reinterpret_cast<cuda::Stream>(handle); }
cuda::Event event_of(uintptr_t handle) { return reinterpret_cast<cuda::Event>(handle); }
template <class T>
uintptr_t number(T* handle) { return reinterpret_cast<uintptr_t>(handle); }

nb::dict properties_of(int index) {
  const cuda::Properties& p = cuda::properties(index);
  nb::dict d;
  d["name"] = p.name;
  d["major"] = p.major;
  d["minor"] = p.minor;
  d["total_memory"] = p.memory;
  d["multi_processor_count"] = p.processors;
  d["warp_size"] = p.warp;
  d["max_threads_per_multi_processor"] = p.threads_per_processor;
  d["max_threads_per_block"] = p.most_threads_per_block;
  d["shared_memory_per_block"] = p.shared_per_block;
  d["shared_memory_per_block_optin"] = p.shared_per_block_asked;
  d["shared_memory_per_multiprocessor"] = p.shared_per_processor;
  d["regs_per_multiprocessor"] = p.registers_per_processor;
  d["L2_cache_size"] = p.second_cache;
  d["is_integrated"] = p.integrated;
  d["is_multi_gpu_board"] = p.several_boards;
  d["clock_rate"] = p.clock;
  d["memory_clock_rate"] = p.memory_clock;
  d["memory_bus_width"] = p.memory_width;
  d["pci_bus_id"] = p.bus;
  d["pci_device_id"] = p.slot;
  d["pci_domain_id"] = p.domain;
  d["uuid"] = nb::bytes(reinterpret_cast<const char*>(p.uuid), sizeof p.uuid);
  return d;
}

// The calling thread's device where none is named; throws for one that is not there.
int index_of(nb::object device) {
  if (device.is_none()) return cuda::index_of({DeviceType::CUDA, -1});
  const Device d = parse_device(device.ptr());
  if (d.type != DeviceType::CUDA) value_error("expected a CUDA device, got ", device_name(d));
  return cuda::index_of(d);
}

int driver_version() {
  int version = 0;
  cuda::check(driver().version(&version), "cuda driver");
  return version;
}

bool can_access(int device, int peer) {
  int a = 0, b = 0, can = 0;
  cuda::check(driver().device_get(&a, device), "cuda.can_device_access_peer");
  cuda::check(driver().device_get(&b, peer), "cuda.can_device_access_peer");
  cuda::check(driver().device_can_access(&can, a, b), "cuda.can_device_access_peer");
  return can != 0;
}

// --- memory ----------------------------------------------------------------------------------------------------------

// {"allocated_bytes.all.current": …}, by PyTorch's names.
nb::dict statistics_of(int device) {
  constexpr const char* names[] = {"all", "large_pool", "small_pool"};
  const cuda::Statistics& s = cuda::statistics(device);
  nb::dict d;
  for (int c = 0; c < cuda::kCounters; ++c)
    for (int k = 0; k < cuda::kKinds; ++k) {
      const cuda::Count& count = s.count[c][k];
      const std::string name = concat(cuda::kCounterNames[c], ".", names[k], ".");
      d[(name + "current").c_str()] = count.current;
      d[(name + "peak").c_str()] = count.peak;
      d[(name + "allocated").c_str()] = count.allocated;
      d[(name + "freed").c_str()] = count.freed;
    }
  d["num_alloc_retries"] = s.retries;
  d["num_ooms"] = s.failures;
  d["num_sync_all_streams"] = s.waits;
  d["num_device_alloc"] = s.driver_allocations;
  d["num_device_free"] = s.driver_frees;
  return d;
}

nb::list snapshot_of(int device) {
  nb::list all;
  for (const cuda::SegmentView& s : cuda::segments(device)) {
    nb::list blocks;
    size_t used = 0, active = 0, requested = 0;
    for (const cuda::Block* b = s.first; b; b = b->after) {
      nb::dict block;
      block["address"] = b->address;
      block["size"] = b->size;
      block["requested_size"] = b->used ? b->requested : 0;
      block["state"] = !b->used ? "inactive" : b->waits ? "active_pending_free" : "active_allocated";
      block["frames"] = nb::list();
      blocks.append(block);
      used += b->used && !b->waits ? b->size : 0;
      active += b->used ? b->size : 0;
      requested += b->used ? b->requested : 0;
    }
    nb::dict segment;
    segment["device"] = device;
    segment["address"] = s.first->address;
    segment["total_size"] = s.size;
    segment["allocated_size"] = used;
    segment["active_size"] = active;
    segment["requested_size"] = requested;
    segment["stream"] = number(s.stream);
    segment["segment_type"] = s.large ? "large" : "small";
    segment["segment_pool_id"] = nb::make_tuple(0, s.pool);
    segment["is_expandable"] = false;
    segment["frames"] = nb::list();
    segment["blocks"] = blocks;
    all.append(segment);
  }
  return all;
}

nb::tuple memory_info(int device) {
  size_t free = 0, total = 0;
  cuda::use_device(device);
  cuda::check(driver().memory_info(&free, &total), "cuda.mem_get_info");
  return nb::make_tuple(free, total);
}

nb::dict host_statistics() {
  const cuda::HostStatistics& s = cuda::host_statistics();
  nb::dict d;
  d["segment.current"] = s.blocks;
  d["segment.peak"] = s.peak_blocks;
  d["reserved_bytes.current"] = s.bytes;
  d["reserved_bytes.peak"] = s.peak_bytes;
  d["active_requests.current"] = s.used_blocks;
  d["active_requests.peak"] = s.peak_used_blocks;
  d["active_requests.allocated"] = s.requests;
  d["active_bytes.current"] = s.used_bytes;
  d["active_bytes.peak"] = s.peak_used_bytes;
  d["num_host_alloc"] = s.driver_allocations;
  d["num_host_free"] = s.driver_frees;
  return d;
}
void reset_host_peaks() {
  cuda::HostStatistics& s = cuda::host_statistics();
  s.peak_blocks = s.blocks, s.peak_bytes = s.bytes;
  s.peak_used_blocks = s.used_blocks, s.peak_used_bytes = s.used_bytes;
}
void reset_host_totals() {
  cuda::HostStatistics& s = cuda::host_statistics();
  s.driver_allocations = s.driver_frees = s.requests = 0;
}

// (address, the block's number)
nb::tuple raw_allocate(size_t nbytes, int device, uintptr_t stream) {
  const cuda::Stream before = cuda::current_stream(device);
  cuda::set_current_stream(device, stream_of(stream));
  cuda::Block* b;
  try {
    b = cuda::allocate(device, nbytes);
  } catch (...) {
    cuda::set_current_stream(device, before);
    throw;
  }
  cuda::set_current_stream(device, before);
  if (!b) fail(ErrorKind::OutOfMemory, cuda::out_of_memory_text(device, nbytes));
  return nb::make_tuple(b->address, number(b));
}

void add_devices(nb::module_& m) {
  m.def("available", cuda::available);
  m.def("why_unavailable", [] { return cuda::available() ? std::string() : cuda::why_unavailable(); });
  m.def("in_bad_fork", cuda::in_bad_fork);
  m.def("opened", [] { return cuda::opened != nullptr; });
  m.def("device_count", [] { return cuda::available() ? driver().devices : 0; });
  m.def("driver_version", driver_version);
  m.def("error_text", cuda::error_text);
  m.def("index_of", index_of, nb::arg("device").none());
  m.def("current_device", [] { return cuda::index_of({DeviceType::CUDA, -1}); });
  m.def("set_device", cuda::set_current_device);
  m.def("use_device", cuda::use_device);
  m.def("initialized", [](int k) { return cuda::opened && cuda::initialized(k); });
  m.def("properties", properties_of);
  m.def("can_access", can_access);
  m.def("synchronize", cuda::synchronize_device);
  m.def("wait_mode", [] { return cuda::wait_mode(); });
  m.def("set_wait_mode", [](int mode) { cuda::wait_mode() = mode; });
}

void add_streams(nb::module_& m) {
  m.def("current_stream", [](int device) { return number(cuda::current_stream(device)); });
  m.def("set_stream", [](int device, uintptr_t s) { cuda::set_current_stream(device, stream_of(s)); });
  m.def("new_stream", [](int device, int priority) { return number(cuda::pooled_stream(device, priority)); });
  m.def("stream_priority", [](uintptr_t s) {
    int priority = 0;
    cuda::check(driver().stream_priority(stream_of(s), &priority), "cuda.Stream.priority");
    return priority;
  });
  m.def("priority_range", [](int device) {
    int least = 0, greatest = 0;
    cuda::use_device(device);
    cuda::check(driver().context_priorities(&least, &greatest), "cuda.Stream.priority_range");
    return nb::make_tuple(least, greatest);
  });
  m.def("stream_query", [](int device, uintptr_t s) {
    cuda::use_device(device);
    const cuda::Result r = driver().stream_query(stream_of(s));
    if (r != cuda::kNotReady) cuda::check(r, "cuda.Stream.query");
    return r == cuda::kSuccess;
  });
  m.def("stream_synchronize", [](int device, uintptr_t s) {
    cuda::synchronize_stream(device, stream_of(s), "cuda.Stream.synchronize");
  });
  m.def("stream_wait", [](int device, uintptr_t s, uintptr_t e, bool external) {
    cuda::stream_waits(stream_of(s), event_of(e), device, external);
  }, nb::arg("device"), nb::arg("stream"), nb::arg("event"), nb::arg("external") = false);
  m.def("capturing", [](uintptr_t s) { return cuda::capturing(stream_of(s)); });
}

void add_events(nb::module_& m) {
  m.def("new_event", [](int device, bool timing) { return number(cuda::new_event(device, timing)); });
  m.def("drop_event", [](int device, uintptr_t e, bool timing) { cuda::drop_event(device, event_of(e), timing); });
  m.def("record", [](uintptr_t e, uintptr_t s, int device, bool external) {
    cuda::record(event_of(e), stream_of(s), device, external);
  }, nb::arg("event"), nb::arg("stream"), nb::arg("device"), nb::arg("external") = false);
  m.def("event_query", [](uintptr_t e) { return cuda::done(event_of(e)); });
  m.def("event_synchronize", [](uintptr_t e) { cuda::synchronize_event(event_of(e)); });
  m.def("event_elapsed", [](uintptr_t a, uintptr_t b) {
    float milliseconds = 0;
    cuda::check(driver().event_elapsed(&milliseconds, event_of(a), event_of(b)), "cuda.Event.elapsed_time");
    return double(milliseconds);
  });
}

void add_host_memory(nb::module_& m) {
  m.def("host_statistics", host_statistics);
  m.def("reset_host_peaks", reset_host_peaks);
  m.def("reset_host_totals", reset_host_totals);
  m.def("empty_host_cache", cuda::empty_host_cache);
  m.def("host_register", [](uintptr_t address, size_t nbytes, unsigned flags) {
    cuda::use_device(tls.cuda_device);
    return driver().host_register(reinterpret_cast<void*>(address), nbytes, flags);
  });
  m.def("host_unregister", [](uintptr_t address) {
    cuda::use_device(tls.cuda_device);
    return driver().host_unregister(reinterpret_cast<void*>(address));
  });
}

void add_memory(nb::module_& m) {
  m.def("statistics", statistics_of);
  m.def("reset_peaks", cuda::reset_peaks);
  m.def("reset_accumulated", cuda::reset_accumulated);
  m.def("memory_fraction", cuda::memory_fraction);
  m.def("set_memory_fraction", cuda::set_memory_fraction);
  m.def("snapshot", snapshot_of);
  m.def("empty_cache", cuda::empty_cache);
  m.def("memory_info", memory_info);
  m.def("pool_users", cuda::pool_users);
  m.def("raw_allocate", raw_allocate);
  m.def("raw_free", [](uintptr_t block) { cuda::give_back(reinterpret_cast<cuda::Block*>(block)); });
  m.def("plan_counts", [] {
    const cuda::PlanCounts& c = cuda::plan_counts();
    nb::dict d;
    d["pointwise"] = c.pointwise;
    d["rows"] = c.rows;
    d["made"] = c.made;
    d["modules"] = c.modules;
    d["launches"] = c.launches;
    d["libraries"] = c.libraries;
    return d;
  });
  m.def("forget_plans", cuda::forget_plans);
  m.def("library_switches", [] { return process.library_switches; });
  m.def("set_library_switches", [](uint64_t bits) { process.library_switches = bits; });
  m.def("profiler", [](bool on) {
    cuda::use_device(tls.cuda_device);
    cuda::check(on ? cuda::driver().profiler_start() : cuda::driver().profiler_stop(), "cuda.profiler");
  });
}

}  // namespace

void add_cuda(PyObject* module) {
  nb::module_ m = nb::borrow<nb::module_>(module).def_submodule("_cuda");
  add_devices(m);
  add_streams(m);
  add_events(m);
  add_host_memory(m);
  add_memory(m);
  add_cuda_tensors(m.ptr());
  add_cuda_history(m.ptr());
  add_cuda_ipc(m.ptr());
  add_cuda_plans(m.ptr());
}

}  // namespace flambeau
