// What the fake libraries share: they work on the memory of the fake driver, on its streams, and fail when told to.
#pragma once
#include <dlfcn.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

struct Control {
  std::string failing;
  long until_failure = 0;
  int failure = 0;
  std::map<std::string, long> calls;
  std::set<const void*> alive;  // handles and descriptors that were made and not destroyed
};
inline Control& control() {
  static Control* c = new Control;
  return *c;
}
API void fake_fail(const char* function, long n, int status) {
  control().failing = function;
  control().until_failure = n;
  control().failure = status;
}
API long fake_calls(const char* function) { return control().calls[function]; }
API long fake_left() { return control().until_failure; }
API long fake_alive() { return long(control().alive.size()); }

inline int enter(const char* name) {
  Control& c = control();
  ++c.calls[name];
  ++c.calls[""];
  if (c.until_failure && (c.failing.empty() || c.failing == name) && --c.until_failure == 0) return c.failure;
  return 0;
}
#define ENTER(name) \
  if (int failure = enter(name)) return failure

template <class T>
T* make(T* made) {
  control().alive.insert(made);
  return made;
}
inline bool known(const void* p) { return control().alive.contains(p); }
template <class T>
bool drop(T* p) {
  if (!control().alive.erase(p)) return false;
  delete p;
  return true;
}

// --- the driver's memory and streams ---------------------------------------------------------------------------------

inline void* of_driver(const char* symbol) {
  static void* driver = dlopen(std::getenv("FLAMBEAU_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
  return dlsym(driver, symbol);
}
inline int current_device() {
  static auto f = reinterpret_cast<int (*)()>(of_driver("fake_device"));
  return f();
}
// A handle or a plan, which is of use on the device alone that was current when it was made.
struct OfDevice {
  const int device = current_device();
};
// Work of a handle or plan on a stream of its device.
inline int submit(const OfDevice* owner, void* stream, std::function<void()> work) {
  static auto f = reinterpret_cast<int (*)(void*, std::function<void()>*)>(of_driver("fake_submit"));
  return owner->device == current_device() ? f(stream, &work) : 400;
}
// Whether [p, p + bytes) is memory of one allocation on the current device.
inline bool valid(const void* p, size_t bytes) {
  static auto f = reinterpret_cast<int (*)(uint64_t, size_t)>(of_driver("fake_valid"));
  return f(reinterpret_cast<uint64_t>(p), bytes);
}

// --- elements, by CUDA's numbers of their types ----------------------------------------------------------------------

using Number = std::complex<double>;
inline size_t bytes_of(int type) {
  switch (type) {
    case 3: case 8: case 28: case 29: return 1;
    case 2: case 14: return 2;
    case 1: case 4: return 8;
    case 5: return 16;
    default: return 4;
  }
}
template <class T>
T as(const void* p) { T v; std::memcpy(&v, p, sizeof v); return v; }
template <class T>
void put(void* p, T v) { std::memcpy(p, &v, sizeof v); }

// 8-bit floats: e4m3 without infinities, and e5m2.
inline double float8_value(int type, uint8_t bits) {
  const int m = type == 28 ? 3 : 2, bias = type == 28 ? 7 : 15, code = bits & 0x7f, mantissa = code & ((1 << m) - 1);
  const double sign = bits & 0x80 ? -1 : 1;
  if (type == 28 ? code == 0x7f : code > 0x7c) return NAN;
  if (type == 29 && code == 0x7c) return sign * INFINITY;
  return sign * (code >> m ? std::ldexp(mantissa + (1 << m), (code >> m) - bias - m)
                           : std::ldexp(mantissa, 1 - bias - m));
}
// The nearest code; of two that are as near the even one. What is too large becomes the largest number.
inline uint8_t float8_code(int type, double v) {
  const uint8_t sign = std::signbit(v) ? 0x80 : 0;
  if (v != v) return uint8_t(sign | 0x7f);
  const int top = type == 28 ? 0x7e : 0x7b;
  int best = 0;
  for (int code = 0; code <= top; ++code) {
    const double there = std::abs(float8_value(type, uint8_t(code)) - std::abs(v));
    const double here = std::abs(float8_value(type, uint8_t(best)) - std::abs(v));
    if (there < here || (there == here && code % 2 == 0)) best = code;
  }
  return uint8_t(sign | best);
}
inline Number load(int type, const void* base, int64_t i) {
  const char* p = static_cast<const char*>(base) + i * int64_t(bytes_of(type));
  switch (type) {
    case 0: return as<float>(p);
    case 1: return as<double>(p);
    case 2: return double(as<_Float16>(p));
    case 3: return as<int8_t>(p);
    case 4: return {as<float>(p), as<float>(p + 4)};
    case 5: return {as<double>(p), as<double>(p + 8)};
    case 10: return as<int32_t>(p);
    case 28: case 29: return float8_value(type, as<uint8_t>(p));
    case 14: {
      const uint32_t bits = uint32_t(as<uint16_t>(p)) << 16;
      return as<float>(&bits);
    }
    default: std::abort();
  }
}
inline void store(int type, void* base, int64_t i, Number v) {
  char* p = static_cast<char*>(base) + i * int64_t(bytes_of(type));
  switch (type) {
    case 0: return put(p, float(v.real()));
    case 1: return put(p, v.real());
    case 2: return put(p, _Float16(v.real()));
    case 4: return put(p, float(v.real())), put(p + 4, float(v.imag()));
    case 5: return put(p, v.real()), put(p + 8, v.imag());
    case 10: return put(p, int32_t(int64_t(v.real())));
    case 28: case 29: return put(p, float8_code(type, v.real()));
    case 14: {
      const float f = float(v.real());
      const uint32_t u = as<uint32_t>(&f);
      return put(p, f != f ? uint16_t(0x7fff) : uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16));
    }
    default: std::abort();
  }
}
// A float32 number as TF32 keeps it: 10 bits of fraction.
inline double tf32(double v) {
  const float f = float(v);
  uint32_t u = as<uint32_t>(&f);
  u = (u + 0x1000) & ~0x1fffu;
  return as<float>(&u);
}
