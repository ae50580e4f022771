#include "launch.h"

#include "plan.h"

namespace flambeau::cuda {

PlanCounts& plan_counts() {
  static PlanCounts counts;
  return counts;
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
  if (__builtin_expect(driver().blocking, 0) && !capturing(stream)) synchronize_stream(device, stream, name);
}

}  // namespace flambeau::cuda
