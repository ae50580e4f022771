// LAPACK for the fake libraries: its path is in FLAMBEAU_FAKE_LAPACK.
#pragma once
#include "common.h"

template <class... P>
void lapack(int type, const char* routine, P... parameters) {
  static void* library = dlopen(std::getenv("FLAMBEAU_FAKE_LAPACK"), RTLD_NOW);
  const char letter = type == 0 ? 's' : type == 1 ? 'd' : type == 4 ? 'c' : 'z';
  const std::string name = std::string("scipy_") + letter + routine + "_";
  auto f = reinterpret_cast<void (*)(P...)>(dlsym(library, name.c_str()));
  if (!f) std::abort();
  f(parameters...);
}
