#include "machine.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__)
#include <cstdint>
#endif

namespace flambeau {

#if defined(__x86_64__)
namespace {

// Whether ATEN_CPU_CAPABILITY keeps the process to what every processor here has; the variable is PyTorch's.
bool kept_to_baseline() {
  const char* given = std::getenv("ATEN_CPU_CAPABILITY");
  const std::string_view asked = given ? given : "avx512";
  if (asked == "default" || asked == "avx2") return true;
  if (asked != "avx512")
    std::fprintf(stderr, "flambeau: ATEN_CPU_CAPABILITY is \"%s\", which is none of default, avx2 and avx512; the best "
                         "instructions of this processor are used\n", given);
  return false;
}

}  // namespace

int cpu_level() {
  static const int level = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                                   !kept_to_baseline()
                               ? kAvx512
                               : kBaseline;
  return level;
}
bool is_intel() {
  static const bool intel = __builtin_cpu_is("intel");
  return intel;
}
bool multiplies_vectors_of_bfloat16() {
  static const bool offered = cpu_level() == kAvx512 && __builtin_cpu_supports("avx512bf16");
  return offered;
}
bool multiplies_matrices_of_bfloat16() {
#if defined(__linux__) && defined(SYS_arch_prctl)
  static const bool granted = [] {
    constexpr unsigned kOfBfloat16 = 1u << 22, kRegisters = 1u << 24;  // in edx of leaf 7
    constexpr long kAsk = 0x1023, kRegisterData = 18;                 // ARCH_REQ_XCOMP_PERM
    unsigned a, b, c, d;
    const bool there = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kOfBfloat16) && (d & kRegisters);
    return there && multiplies_vectors_of_bfloat16() && syscall(SYS_arch_prctl, kAsk, kRegisterData) == 0;
  }();
  return granted;
#else
  return false;
#endif
}
void flush_denormals_here(bool on) {
  unsigned both = _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON;
  _mm_setcsr(on ? _mm_getcsr() | both : _mm_getcsr() & ~both);
}
void relax() { _mm_pause(); }
#elif defined(__aarch64__)
int cpu_level() { return kBaseline; }
bool is_intel() { return false; }
bool multiplies_vectors_of_bfloat16() { return false; }
bool multiplies_matrices_of_bfloat16() { return false; }
void flush_denormals_here(bool on) {
  constexpr uint64_t kFlush = uint64_t(1) << 24;  // FZ of the control register
  uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  control = on ? control | kFlush : control & ~kFlush;
  __asm__ volatile("msr fpcr, %0" ::"r"(control));
}
void relax() { __asm__ volatile("yield"); }
#else
int cpu_level() { return kBaseline; }
bool is_intel() { return false; }
bool multiplies_vectors_of_bfloat16() { return false; }
bool multiplies_matrices_of_bfloat16() { return false; }
void flush_denormals_here(bool) {}
void relax() {}
#endif

}  // namespace flambeau
