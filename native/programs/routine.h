// A program as `flambeau.export` lowers it: routines of instructions over numbered registers. An instruction calls one
// operator, computes a number, checks a condition, or runs other routines as control flow says.
#pragma once
#include <string>
#include <vector>

#include "../core/op.h"
#include "../runtime/words.h"

namespace flambeau::programs {

// What a register holds: nothing, a number, a text …, or a tensor.
struct Content {
  Value value;
  TensorRef tensor;
  Content() = default;
  explicit Content(const Value& v) : value(v) {}
  explicit Content(TensorRef t) : value(t.get()), tensor(std::move(t)) {}
};

struct Operand {
  enum class Kind : uint8_t { Literal, Register, Weight, List };
  Kind kind = Kind::Literal;
  int at = 0;               // which register or weight
  Content literal;          // texts lie in the program's words
  std::vector<Operand> list;
};

using Number = Value (*)(std::span<const Content> operands);
// "add", "floordiv", "item" …; null where there is none.
Number find_number(std::string_view name);

enum class Code : uint8_t { Call, Number, Check, Cond, While, Scan };
// The operands of a scan are what is carried, the tensors it walks along, and what every step gets.
struct Scan {
  int carried = 0, walked = 0, dim = 0;
  bool reverse = false;
};
// A form of an operator, and what it is given, by its schema.
struct Form {
  const OpDef* op;
  std::vector<Operand> operands;
};
struct Instruction {
  Code code;
  std::vector<Form> forms;        // Call: the first that takes its operands is called
  bool inplace = false;
  Number number = nullptr;        // Number
  std::string text;               // Check: what is said where the condition does not hold
  std::vector<int> routines;      // Cond: two branches; While: condition and body; Scan: the body
  Scan scan;
  std::vector<Operand> operands;  // of all others
  std::vector<int> makes;         // registers, by result; -1: nobody wants it
  std::vector<int> ends;          // registers that nobody reads after it
};
struct Routine {
  int registers = 0, inputs = 0;  // the inputs are the first registers
  std::vector<Instruction> body;
  std::vector<Operand> results;
};

// Reads routines; their operators must be known, and registers, weights and routines within these numbers.
std::vector<Routine> read_routines(Words& words, int weights);

// Runs them. Tensors are computed as they are called, or written down where this thread has a recorder.
class Machine {
 public:
  Machine(const std::vector<Routine>& routines, const std::vector<Content>& weights)
      : routines_(routines), weights_(weights) {}
  std::vector<Content> run(int routine, std::vector<Content> inputs) const;

 private:
  const std::vector<Routine>& routines_;
  const std::vector<Content>& weights_;
};

// The only element of a tensor; waits for its value.
Value number_of(const Tensor& t, const char* who);
bool truth_of(const Content& c, const char* who);

}  // namespace flambeau::programs
