// One table per kind of device: where its memory comes from, how tensors are copied and filled there, and what computes
// operators that have no kernel of their own for it. `meta` is the device whose table allocates and computes nothing.
#pragma once
#include "call.h"

namespace flambeau {

struct Pointwise;  // kernels/pointwise.h: a pointwise call that is worked out but for its loop

struct DeviceTable {
  const char* name = nullptr;  // null: this process has no such device
  void* (*allocate)(size_t nbytes, size_t* capacity) = nullptr;  // null: tensors have no memory
  void (*free)(void* block, size_t capacity) = nullptr;
  void (*copy)(Tensor& dst, const Tensor& src) = nullptr;  // any strides and dtypes; either of them may be on the CPU
  void (*fill)(Tensor& dst, const Scalar& value) = nullptr;
  void (*pointwise)(Call& c, Pointwise& worked_out) = nullptr;
  CallFn otherwise = nullptr;  // computes rows whose table of kernels has none for this device
};
extern FLAMBEAU_API DeviceTable devices[kDeviceTypes];
bool find_device(std::string_view name, DeviceType& type);  // by its table's name; "cuda" always
inline DeviceTable& table_of(Device d) { return devices[int(d.type)]; }

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
