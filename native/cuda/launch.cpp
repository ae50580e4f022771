#include "launch.h"

#include <cstdlib>

#include "plan.h"

namespace flambeau::cuda {

PlanCounts& plan_counts() {
  static PlanCounts counts;
  return counts;
}

// With CUDA_LAUNCH_BLOCKING=1 each operator waits for its own kernels, so that a fault shows where it belongs.
static bool blocking() {
  static const bool on = [] {
    const char* text = std::getenv("CUDA_LAUNCH_BLOCKING");
    return text && *text && *text != '0';
  }();
  return on;
}

void launch(const char* name, int device, Function function, std::array<unsigned, 3> grid,
            std::array<unsigned, 3> block, unsigned shared, void** parameters) {
  const Driver& d = driver();
  const Stream stream = current_stream(device);
  note_launch(name);
  ++plan_counts().launches;
  check(d.launch(function, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, stream, parameters,
                 nullptr),
        name);
  wait_if_blocking(name, device, stream);
}

void wait_if_blocking(const char* name, int device, Stream stream) {
  if (__builtin_expect(blocking(), 0) && !capturing(stream)) synchronize_stream(device, stream, name);
}

}  // namespace flambeau::cuda
