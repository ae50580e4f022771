#include "device_table.h"

#include "memory.h"
#include "op.h"

namespace flambeau {
namespace {

void nothing_to_copy(Tensor& dst, const Tensor& src) {
  if (!dst.is_meta())
    not_implemented("a tensor on the meta device has no data to copy; make an empty tensor on ",
                    device_name(dst.device), " and fill it (Module.to_empty)");
  broadcast_shapes(dst.shape(), src.shape(), "copy_");
}
void nothing_to_fill(Tensor&, const Scalar&) {}
void nothing_to_compute(Call&) {}
void nothing_pointwise(Call&, Pointwise&) {}
void no_kernel(Call& c) {
  not_implemented(c.name(), ": no kernel for the CPU; register one, or move the tensors to a device that has one");
}

void* allocate_on_cpu(size_t nbytes, Device, size_t* capacity) { return allocate_block(nbytes, capacity); }

}  // namespace

DeviceTable devices[kDeviceTypes] = {
    {.name = "cpu", .allocate = allocate_on_cpu, .free = free_block, .otherwise = no_kernel},
    {.name = "meta",
     .copy = nothing_to_copy,
     .fill = nothing_to_fill,
     .pointwise = nothing_pointwise,
     .otherwise = nothing_to_compute},
};
Lanes lanes;

namespace {

// Kinds that programs compare with and ask for, and that no build has: their numbers come after those with a table.
constexpr const char* kNamedOnly[] = {"mps",  "xpu",  "hpu",  "mtia",   "xla",    "hip",    "ipu",   "ve",
                                      "fpga", "maia", "lazy", "vulkan", "opengl", "opencl", "ideep", "mkldnn"};

std::string_view kind_name(int k) {
  if (k >= kDeviceTypes) return kNamedOnly[k - kDeviceTypes];
  return devices[k].name ? devices[k].name : k == int(DeviceType::CUDA) ? "cuda" : "privateuseone";
}

}  // namespace

bool find_device(std::string_view name, DeviceType& type) {
  for (int k = 0; k < kDeviceTypes + int(std::size(kNamedOnly)); ++k)
    if (name == kind_name(k)) {
      type = DeviceType(k);
      return true;
    }
  return false;
}

std::string device_name(Device d) {
  std::string name(kind_name(int(d.type)));
  return d.index >= 0 ? name + ":" + std::to_string(d.index) : name;
}

Kernels::Kernels(DeviceType device, std::initializer_list<std::pair<const char*, CallFn>> rows) {
  for (const auto& [name, kernel] : rows) primitive_row(name).kernel[int(device)] = kernel;
}

// The table of the tensor that is not on the CPU decides; meta has no values to give.
void copy_by_table(Tensor& dst, const Tensor& src) {
  if (dst.is_meta()) return nothing_to_copy(dst, src);
  table_of(src.device.type == DeviceType::CPU ? dst.device : src.device).copy(dst, src);
}
void fill_by_table(Tensor& dst, const Scalar& value) { table_of(dst.device).fill(dst, value); }

void copy_bytes(Storage& dst, Storage& src, size_t nbytes) {
  if (!dst.data || !src.data || !nbytes) return;
  auto over = [&](Storage& s) {
    TensorRef t = TensorRef::steal(allocate_tensor());
    const int64_t n = int64_t(nbytes);
    set_contiguous_dims(*t, Dims(&n, 1));
    t->dtype = DType::UInt8;
    t->device = s.device;
    t->storage = &s;
    retain(&s);
    t->data = static_cast<char*>(s.data);
    return t;
  };
  copy_into(*over(dst), *over(src));
}

}  // namespace flambeau
