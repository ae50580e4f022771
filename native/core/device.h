// Where tensors live.
#pragma once
#include <cstdint>
#include <string>

namespace flambeau {

enum class DeviceType : uint8_t { CPU, Meta, CUDA };
struct Device {
  DeviceType type = DeviceType::CPU;
  int8_t index = -1;
  bool operator==(const Device&) const = default;
};
std::string device_name(Device d);

}  // namespace flambeau
