// SymInt, SymFloat and SymBool among the arguments of an operator. A mode that traces with open sizes must get them as
// they are, while arguments are plain numbers on their way there: so each travels as a token, a number out of a range
// that no program uses, and becomes itself again where arguments become Python objects.
#pragma once
#include <bit>

#include "python.h"

namespace flambeau {

constexpr int64_t kIntTokens = int64_t(1) << 61, kTokens = int64_t(1) << 40;
constexpr int64_t kFloatTokens = 0x7FE0000000000000;  // the bits of 2**1023

inline bool is_token(int64_t i) { return i >= kIntTokens && i < kIntTokens + kTokens; }
inline bool is_token(double f) {
  const int64_t bits = std::bit_cast<int64_t>(f);
  return bits > kFloatTokens && bits < kFloatTokens + kTokens;
}

// Whether an object is a SymInt, SymFloat or SymBool.
bool is_symbol(PyObject* o);
// The number that stands for a symbol in a call: its token inside a mode, else the number that it is in this run. False
// for what is no symbol.
bool symbol_value(PyObject* o, Value& v, bool as_float = false);
// What a token stands for; the number itself where it is no token. New.
PyObject* symbol_object(PyObject* number);
// Sizes that native code has kept of a tensor, for a rule in Python: SymInts in the place of numbers that stand for
// open sizes. Takes the object, a tuple, and gives a new one.
PyObject* symbol_sizes(PyObject* sizes);
// The 0-d tensor of a number that is a token, made by an operator, so that a mode sees it; null for other numbers. New.
PyObject* symbol_tensor(const Value& v);
void add_symbols(PyObject* module);

}  // namespace flambeau
