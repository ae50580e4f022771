// What calls are given, as words: how it begins, and literals among it.
#pragma once
#include "../core/call.h"
#include "words.h"

namespace flambeau {

// How an argument or operand begins (flambeau/_graph/words.py writes them). Registers and weights are those of a
// routine (programs/routine.h), the last four those of a plan (plan.h).
enum class Given : uint8_t {
  None, Bool, Int, Float, Complex, Text, DType, Device, Format, List, Register, Weight, Outside, Made, View, Given
};
Given read_given(Words& words);
// The literal of that kind. A text lies in the words.
Value read_literal(Words& words, Given kind);
DType read_dtype(Words& words);  // by its name

}  // namespace flambeau
