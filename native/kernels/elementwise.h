// Pointwise operators: one loop per (operator, compute dtype); everything around it is shared.
//
// A row names its loops by the dtype they compute in. The iterator (pointwise.h) promotes, broadcasts, collapses
// dimensions, splits over threads, and converts operands to the compute dtype block by block in cache; so float16,
// bfloat16 and mixed dtypes need no loops of their own: halves compute in float32 where a row has no loop for them.
#pragma once
#include "../core/call.h"

namespace flambeau {

// ptr[0] is the result, ptr[1…] the operands in schema order; strides are in bytes and may be 0 (a broadcast operand).
// scalars: the operator's number arguments (Scalar, float, int, bool) in schema order.
using LoopFn = void (*)(char* const* ptr, const int64_t* stride, int64_t n, const Scalar* scalars);

// What a loop may rely on: the result is contiguous; with one operand it is contiguous, with two each is contiguous or
// has stride 0, with more all are contiguous. An absent optional operand has a null pointer. Everything else (strides,
// other dtypes) the iterator packs block by block. A loop may throw; no partial result is promised then.
struct ElementwiseRow {
  const char* name;
  LoopFn loop[kDTypes] = {};             // by compute dtype; null: not offered
  LoopFn beside_number[kDTypes] = {};    // of halves: one operand is a number, which keeps its float32 value
  uint8_t operands = 1;                  // leading arguments that are operands; the rest are `scalars`
  uint8_t bool_operands = 0;             // bit k: operand k is a mask, outside promotion (must be bool)
  bool any_stride = false;               // with three operands too, each is contiguous or has stride 0
  uint8_t weight = 1;                    // cost of an element in units of an addition: when threads pay
  bool in_order = false;                 // a new result is contiguous, however the operands lie in memory
  bool modular = false;                  // integers modulo 2**bits: a number of any size has its place among them
  // Argument checks that need the promoted dtype, and deviating compute or result dtypes.
  void (*adapt)(const Call&, DType& compute, DType& result) = nullptr;
};
// A loop beside a number finds it at this place of `scalars`, and a null pointer in its operand's.
inline constexpr int kNumberPlace = 7;
// How an absent number and a string appear among `scalars`: a category of its own; the first character.
inline constexpr Category kAbsent = Category(4);
const ElementwiseRow* find_elementwise(std::string_view name);

// Each file of kernels/simd/ is compiled once per instruction set, in a namespace of that name, and registers its rows
// there; entry by entry, the best set the processor has wins. The rows are made in a function that is called only where
// the processor has the instructions it is compiled to:
//   static const ElementwiseRows rows(FLAMBEAU_LEVEL, [](ElementwiseRows& r) { r.add({…}); });
struct ElementwiseRows {
  int level;
  ElementwiseRows(int level, void (*make)(ElementwiseRows&));
  void add(std::initializer_list<ElementwiseRow> rows);
};
// Thrown by loops. Not inline: the instruction sets share it.
[[noreturn]] void zero_division();
[[noreturn]] void not_probabilities();

enum class Promote : uint8_t;  // core/op.h
// Promotion, broadcasting, allocation (or the given result) and the loop, for Call `c` with the row's loops.
void run_elementwise(Call& c, const ElementwiseRow& row, Promote promote);
// The same without the loop: declares the result.
void describe_elementwise(Call& c, const ElementwiseRow& row, Promote promote);

}  // namespace flambeau
