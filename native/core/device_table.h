// One table per kind of device: where its memory comes from, how tensors are copied and filled there, and what computes
// operators that have no kernel of their own for it. `meta` is the device whose table allocates and computes nothing.
#pragma once
#include "call.h"

namespace flambeau {

// kernels/pointwise.h: a pointwise call that is worked out but for its loop; one that goes the short way
struct Pointwise;
struct ShortCall;

struct DeviceTable {
  const char* name = nullptr;  // null: this process has no such device
  // Null: tensors have no memory. `capacity` is a word that the core keeps beside the block and gives back to `free`.
  void* (*allocate)(size_t nbytes, Device device, size_t* capacity) = nullptr;
  void (*free)(void* block, size_t capacity) = nullptr;
  void (*copy)(Tensor& dst, const Tensor& src) = nullptr;  // any strides and dtypes; either of them may be on the CPU
  void (*fill)(Tensor& dst, const Scalar& value) = nullptr;
  void (*pointwise)(Call& c, Pointwise& worked_out) = nullptr;
  CallFn otherwise = nullptr;  // computes rows whose table of kernels has none for this device
  bool (*open)() = nullptr;    // fills the table when the device is first asked for; false: there is none
  Device (*place)(Device) = nullptr;            // which one it is, named without an index too; throws where it is not
  Storage* (*pinned)(size_t nbytes) = nullptr;  // memory of the CPU that the device can reach
  void (*pointwise_short)(const Call& c, const ShortCall& s) = nullptr;  // null: all calls go by `pointwise`
};
extern FLAMBEAU_API DeviceTable devices[kDeviceTypes];
bool find_device(std::string_view name, DeviceType& type);  // by its table's name; "cuda" always
inline DeviceTable& table_of(Device d) { return devices[int(d.type)]; }
// Whether this process has that kind of device; its table is filled then.
inline bool has_device(Device d) {
  if (int(d.type) >= kDeviceTypes) return false;
  const DeviceTable& table = table_of(d);
  return table.name || (table.open && table.open());
}
// The streams that are current on all devices, as one number (tls.lane), a thread's lane; 0: the default ones. What is
// launched on another lane is not ordered with this one's work. Where a kind of device has streams it fills this table.
struct Lanes {
  bool (*enter)(uint32_t lane) = nullptr;     // its streams become current; false: they may not, and nothing changes
  void (*follow)(uint32_t behind) = nullptr;  // what comes on the current lane begins when that lane's work is over
  void (*use)(const Tensor& t) = nullptr;     // the current lane works on memory that belongs to another
};
extern Lanes lanes;
// The device itself, for one that names its kind alone. What is not there stays as it is: whoever uses it complains.
inline Device placed(Device d) {
  if (d.type == DeviceType::CPU || d.type == DeviceType::Meta || !has_device(d) || !table_of(d).place) return d;
  return table_of(d).place(d);
}
// While one lives, a copy between pinned memory and a device need not be over when it returns.
struct NonBlocking {
  explicit NonBlocking(bool on) : before(std::exchange(tls.cuda_non_blocking, on)) {}
  ~NonBlocking() { tls.cuda_non_blocking = before; }
  bool before;
};
bool owns_memory(const Storage& s);  // it was allocated by the table of its device

// Kernels of one device for rows that stand elsewhere, at namespace scope:
//   static const Kernels rows(DeviceType::PrivateUse1, {{"cat", my_cat}, …});
struct FLAMBEAU_API Kernels {
  Kernels(DeviceType device, std::initializer_list<std::pair<const char*, CallFn>> rows);
};

// The kernel of c's row on that device.
inline void compute(Call& c, const PrimitiveRow& row, Device where) {
  CallFn kernel = row.kernel[int(where.type)];
  (__builtin_expect(kernel != nullptr, 1) ? kernel : table_of(where).otherwise)(c);
}

// copy_into and fill in this process's own memory, and where one of the tensors is not on the CPU.
FLAMBEAU_API void copy_on_cpu(Tensor& dst, const Tensor& src);
FLAMBEAU_API void fill_on_cpu(Tensor& dst, const Scalar& value);
void copy_by_table(Tensor& dst, const Tensor& src);
void fill_by_table(Tensor& dst, const Scalar& value);
// The first bytes of one storage into another of the same device.
void copy_bytes(Storage& dst, Storage& src, size_t nbytes);
}  // namespace flambeau
