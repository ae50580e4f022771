// Kernels: images are loaded once per device, and stay.
#include <unordered_map>

#include "device.h"
#include "plan.h"

namespace flambeau::cuda {
namespace {

auto& modules() {  // under the interpreter lock
  static auto* m = new std::unordered_map<std::string, Module>;  // by device and digest
  return *m;
}

constexpr int kMostShared = 8;           // the driver's number of the attribute
constexpr unsigned kWithoutAsking = 48 << 10;  // bytes of shared memory that every kernel may use

}  // namespace

Function kernel_of(int device, const std::string& digest, const std::string& image, const std::string& name,
                   unsigned shared) {
  use_device(device);
  const Driver& d = driver();
  const std::string key = concat(device, " ", digest);
  auto found = modules().find(key);
  if (found == modules().end()) {
    Module module = nullptr;
    check(d.module_load(&module, image.data()), name.c_str());
    found = modules().emplace(key, module).first;
    ++plan_counts().modules;
  }
  Function f = nullptr;
  check(d.module_function(&f, found->second, name.c_str()), name.c_str());
  if (shared > kWithoutAsking) check(d.function_set(f, kMostShared, int(shared)), name.c_str());
  return f;
}

}  // namespace flambeau::cuda
