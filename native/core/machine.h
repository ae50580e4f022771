// What the processor offers, and its settings: the only file outside kernels/simd that knows an instruction set.
#pragma once

namespace flambeau {

enum CpuLevel { kBaseline = 0, kAvx512 = 1 };
int cpu_level();
// Numbers too small to be normal count as zero, in the calling thread.
void flush_denormals_here(bool on);

}  // namespace flambeau
