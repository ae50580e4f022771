// Values that Python reads: a dispatch mode that records programs is told, since a program decides by what it reads,
// and calls that were put off and write there run first.
#pragma once
#include "../core/recording.h"
#include "python.h"

namespace flambeau {

void tell_modes_of_reading(const Tensor& t);

inline void before_reading(const Tensor& t) {
  if (__builtin_expect(tls.user_modes && !tls.dispatch_disabled, 0)) tell_modes_of_reading(t);
  if (__builtin_expect(tls.recorder != nullptr, 0)) about_to_read(t);
}

}  // namespace flambeau
