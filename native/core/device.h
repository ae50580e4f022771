// Where tensors live.
#pragma once
#include <cstdint>
#include <string>

namespace flambeau {

enum class DeviceType : uint8_t { CPU, Meta, CUDA, PrivateUse1 };  // the last: of a library of its own
inline constexpr int kDeviceTypes = 4;                             // each has a table: device_table.h
struct Device {
  DeviceType type = DeviceType::CPU;
  int8_t index = -1;
  bool operator==(const Device&) const = default;
};
__attribute__((visibility("default"))) std::string device_name(Device d);

}  // namespace flambeau
