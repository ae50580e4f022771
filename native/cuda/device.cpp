#include "device.h"

#include <utility>

namespace flambeau::cuda {
namespace {

struct Known {
  int handle = -1;
  Context context = nullptr;
  Properties properties;
  bool described = false;
  bool peers[kMaxCudaDevices] = {};
};
Known& known(int index) {  // under the interpreter lock
  static Known* all = new Known[kMaxCudaDevices];
  return all[index];
}

int handle_of(int index) {
  Known& k = known(index);
  if (k.handle < 0) check(driver().device_get(&k.handle, index), "cuda device");
  return k.handle;
}

// The driver's numbers of what is asked for.
const std::pair<int, int Properties::*> kAttributes[] = {
    {75, &Properties::major},
    {76, &Properties::minor},
    {16, &Properties::processors},
    {10, &Properties::warp},
    {39, &Properties::threads_per_processor},
    {8, &Properties::shared_per_block},
    {81, &Properties::shared_per_processor},
    {82, &Properties::registers_per_processor},
    {38, &Properties::second_cache},
    {18, &Properties::integrated},
    {84, &Properties::several_boards},
    {13, &Properties::clock},
    {36, &Properties::memory_clock},
    {37, &Properties::memory_width},
    {33, &Properties::bus},
    {34, &Properties::slot},
    {50, &Properties::domain},
    {1, &Properties::most_threads_per_block},
    {97, &Properties::shared_per_block_asked},
};

}  // namespace

void no_such_device(int index) {
  runtime_error("CUDA error: invalid device ordinal: cuda:", index, " is not there; this machine has ",
                driver().devices, driver().devices == 1 ? " device, cuda:0" : " devices");
}

void set_current_device(int index) { tls.cuda_device = int8_t(index_of(device_at(index))); }

bool initialized(int index) { return known(index).context != nullptr; }

Context context_of(int index) {
  Known& k = known(index);
  if (!k.context) check(driver().context_retain(&k.context, handle_of(index)), "cuda context");
  return k.context;
}

void enter_device(int index) {
  check(driver().context_set(context_of(index)), "cuda context");
  tls.cuda_context = int8_t(index);
}

const Properties& properties(int index) {
  Known& k = known(index);
  if (k.described) return k.properties;
  const Driver& d = driver();
  const int handle = handle_of(index);
  char name[256] = {};
  check(d.device_name(name, sizeof name - 1, handle), "cuda.get_device_properties");
  k.properties.name = name;
  check(d.device_memory(&k.properties.memory, handle), "cuda.get_device_properties");
  check(d.device_uuid(k.properties.uuid, handle), "cuda.get_device_properties");
  for (auto [number, place] : kAttributes)
    check(d.device_attribute(&(k.properties.*place), number, handle), "cuda.get_device_properties");
  k.described = true;
  return k.properties;
}

void allow_peer(int device, int peer) {
  if (device == peer || known(device).peers[peer]) return;
  int can = 0;
  check(driver().device_can_access(&can, handle_of(device), handle_of(peer)), "copy");
  if (can) {
    OnDevice on(device);
    use_device(device);
    if (Result r = driver().context_enable_peer(context_of(peer), 0); r != kPeerAccessAlready) check(r, "copy");
  }
  known(device).peers[peer] = true;
}

OnDevice::OnDevice(int index) : before(tls.cuda_device) { set_current_device(index); }
OnDevice::~OnDevice() { tls.cuda_device = int8_t(before); }

}  // namespace flambeau::cuda
