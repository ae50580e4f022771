// Memory that nobody has written: what is in it when a program asks for the same numbers in every run.
#pragma once
#include "tensor.h"

namespace flambeau {

extern bool fills_unwritten;      // whether new memory is filled
void fill_unwritten(Tensor& t);  // with NaN, the largest integer, true: what is seen at once

}  // namespace flambeau
