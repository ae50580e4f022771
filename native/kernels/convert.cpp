// Conversion of dtype or device as an operator.
#include "../core/call.h"
#include "../core/device_table.h"
#include "options.h"

namespace flambeau {
namespace {

// _to_copy(self, dtype?, device?, non_blocking): always a copy
void infer_to_copy(Call& c) {
  Tensor& self = c.tensor(0);
  Device device = c.has(2) ? placed(c.args[2].device) : self.device;
  if ((device.type == DeviceType::CUDA && !has_device(device)) || int(device.type) >= kDeviceTypes)
    runtime_error("to: this build has no ", device.type == DeviceType::CUDA ? "CUDA" : device_name(device),
                  " device; use device=\"cpu\"");
  if (self.is_meta() && device.type != DeviceType::Meta)
    not_implemented("a tensor on the meta device has no data to copy; make an empty tensor there and fill it "
                    "(Module.to_empty)");
  DType dtype = c.dtype_or(1, self.dtype);
  if (self.contiguous()) c.output(self.shape(), dtype, device);
  else c.output(self.shape(), dtype, device, like_strides(self));
}
void cpu_to_copy(Call& c) {
  NonBlocking may_go_on(c.boolean(3));
  copy_into(c.out(), c.tensor(0));
}

const Primitives rows{{"_to_copy", infer_to_copy, cpu_to_copy, Images::Kept}};

}  // namespace
}  // namespace flambeau
