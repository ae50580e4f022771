// Launches a kernel on the current stream of a device.
#pragma once
#include <array>

#include "stream.h"

namespace flambeau::cuda {

void launch(const char* name, int device, Function function, std::array<unsigned, 3> grid,
            std::array<unsigned, 3> block, unsigned shared, void** parameters);
void wait_if_blocking(const char* name, int device, Stream stream);  // where the environment asks for it

}  // namespace flambeau::cuda
