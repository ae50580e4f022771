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
bool is_intel();
// Instructions for sums of products of bfloat16: by vectors, and by matrices in registers of their own, which the
// system grants a process that asks.
bool multiplies_vectors_of_bfloat16();
bool multiplies_matrices_of_bfloat16();
// Whether many lines of memory may be asked for at once, ahead of their use. Intel's processors hold few such requests
// and wait with the next ones: products of a batch took a quarter longer.
inline bool fetches_in_bursts() { return !is_intel(); }
// Numbers too small to be normal count as zero, in the calling thread.
void flush_denormals_here(bool on);

}  // namespace flambeau
