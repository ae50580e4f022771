// What the core knows of CUDA: its device table, which is filled when a driver is found.
#include "../core/device_table.h"

#include "../core/op.h"
#include "allocator.h"
#include "copy.h"
#include "pinned.h"
#include "plan.h"

#include <utility>

namespace flambeau::cuda {
namespace {

// The core keeps one word beside a block: here it is the block's record.
void* allocate_for_core(size_t nbytes, Device device, size_t* record) {
  const int index = index_of(device);
  Block* b = allocate(index, nbytes);
  if (!b) fail(ErrorKind::OutOfMemory, out_of_memory_text(index, nbytes));
  *record = reinterpret_cast<size_t>(b);
  return reinterpret_cast<void*>(b->address);
}
void give_back_for_core(void*, size_t record) { give_back(reinterpret_cast<Block*>(record)); }

bool open() {
  if (!available()) return false;
  DeviceTable& t = devices[int(DeviceType::CUDA)];
  t.name = "cuda";
  t.allocate = allocate_for_core;
  t.free = give_back_for_core;
  t.copy = copy;
  t.fill = fill;
  t.pointwise = run_pointwise;
  t.pointwise_short = run_pointwise_short;
  t.otherwise = run_row;
  t.place = [](Device d) { return device_at(index_of(d)); };
  t.pinned = new_pinned;
  return true;
}
const bool added = (devices[int(DeviceType::CUDA)].open = open, true);

// Kernels of the CPU that only copy and fill, through the tables of whatever devices they find.
void as_on_cpu(Call& c) { c.op->row->kernel[int(DeviceType::CPU)](c); }
// Whether a decomposition has failed is seen on the CPU.
void check_errors(Call& c) {
  const Tensor& info = c.tensor(0);
  TensorRef here = empty(info.shape(), info.dtype);
  copy_into(*here, info);
  Value args[] = {c.args[0], c.args[1], c.args[2]};
  args[0].tensor = here.get();
  struct Exchanged {
    Call& c;
    const Value* before;
    ~Exchanged() { c.args = before; }
  } exchanged{c, std::exchange(c.args, args)};
  as_on_cpu(c);
}
const Kernels rows(DeviceType::CUDA, {{"_to_copy", as_on_cpu},
                                      {"_linalg_check_errors", check_errors},
                                      {"clone", as_on_cpu},
                                      {"contiguous", as_on_cpu},
                                      {"reshape", as_on_cpu},
                                      {"reshape_as", as_on_cpu},
                                      {"flatten", as_on_cpu},
                                      {"ravel", as_on_cpu},
                                      {"repeat", as_on_cpu},
                                      {"diag_embed", as_on_cpu},
                                      {"pixel_shuffle", as_on_cpu},
                                      {"pixel_unshuffle", as_on_cpu},
                                      {"channel_shuffle", as_on_cpu},
                                      {"slice_backward", as_on_cpu},
                                      {"select_backward", as_on_cpu},
                                      {"copy_", as_on_cpu},
                                      {"zeros", as_on_cpu},
                                      {"ones", as_on_cpu},
                                      {"full", as_on_cpu},
                                      {"zeros_like", as_on_cpu},
                                      {"ones_like", as_on_cpu},
                                      {"full_like", as_on_cpu},
                                      {"new_zeros", as_on_cpu},
                                      {"new_ones", as_on_cpu},
                                      {"new_full", as_on_cpu},
                                      {"fill_scalar_", as_on_cpu},
                                      {"fill_tensor_", as_on_cpu},
                                      {"zero_", as_on_cpu},
                                      {"eye", as_on_cpu},
                                      {"_with_part", as_on_cpu},
                                      {"_with_number", as_on_cpu}});

}  // namespace
}  // namespace flambeau::cuda
