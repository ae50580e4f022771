// What the processor offers, and its settings: the only file outside kernels/simd that knows an instruction set.
#pragma once

namespace flambeau {

enum CpuLevel { kBaseline = 0, kAvx512 = 1 };
int cpu_level();
// Of a table with the loops of each level (null where none were compiled): the best for this processor.
template <class Loops>
const Loops& best_loops(const Loops* const (&table)[2]) {
  return table[cpu_level()] ? *table[cpu_level()] : *table[0];
}
// Whether memory that is read soon is worth asking for ahead. Intel's processors guess well what comes next, and wait with
// what they are asked for beyond the few lines that they fetch at once: products of a batch took a quarter longer.
bool fetches_on_demand();
// Numbers too small to be normal count as zero, in the calling thread.
void flush_denormals_here(bool on);

}  // namespace flambeau
