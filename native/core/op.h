// What native code knows about an operator: its schema, how it is run, and what its derivative rules want saved.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "call.h"

namespace flambeau {

enum class Type : uint8_t {
  Tensor,
  Tensors,
  OptionalTensors,
  Scalar,
  Int,
  Ints,
  Float,
  Floats,
  Bool,
  Bools,
  Str,
  DType,
  Device,
  Layout,
  MemoryFormat,
  Generator,
  Any,
};

struct Arg {
  std::string name;
  Type type;
  bool optional = false;      // `?`: None is accepted
  bool keyword_only = false;
  bool has_default = false;
  bool number = false;        // a Tensor argument that also takes a Python number
  bool written = false;       // `Tensor(a!)`: the kernel writes to it,
  std::string written_if;     // `Tensor(flag!)`: where the argument `flag` is true
  int repeat = 0;             // int[2]: a lone int stands for this many
  Value value;                // the default
  std::vector<int64_t> ints;  // memory of a list default
  std::string str;            // memory of a str default
  void* py_name = nullptr;    // bind/: the interned name
  void* py_default = nullptr; // bind/: the default as a Python object (for composites)
};

struct Schema {
  std::string text;
  std::string name;
  std::vector<Arg> args;
  int npositional = 0;
  int required = 0;             // arguments up to the last one that has no default
  int needed = 0;               // how many have neither a default nor an absent form
  std::vector<Value> defaults;  // of all arguments
  std::vector<std::string> results;  // names of several results; empty for one
  int nresults = 1;
  bool list_result = false;
};
Schema parse_schema(const std::string& text);  // throws ValueError with the position it did not understand

enum class Kind : uint8_t { Elementwise, Reduction, View, Primitive, Composite };

// Where a parameter of a derivative rule comes from.
enum class Source : uint8_t { Grad, Grads, Arg, Result, ArgShape, ArgDType, ArgGeometry, Needs, SomeGrads };
struct RuleParam {
  Source source;
  uint8_t index;
};
struct Rule {
  void* function;               // the Python callable
  std::vector<uint8_t> inputs;  // the arguments whose gradients it returns
  uint64_t input_mask;          // the same as bits
  bool tuple;                   // it returns a tuple, one gradient per input
  std::vector<RuleParam> params;
  uint64_t meta_args = 0;       // bit k: shape or dtype of argument k is wanted
  uint64_t geometry_args = 0;   // bit k: sizes, strides and offset of argument k are wanted (and no other metadata)
};

// What decides the compute and the result dtype; the record's `promote=`.
enum class Promote : uint8_t {
  Default,      // compute in the promoted dtype, result the same:           add, mul
  IntToFloat,   // integers and bool compute in the default float:           exp, true_divide
  Compare,      // compute promoted, result bool:                            lt, eq, isnan
  Logical,      // operands turned to bool first, result bool:               logical_and
  ComplexToReal,// compute promoted, result the real dtype:                  abs, angle
  SelectSecond, // first operand bool, the others promoted:                  where
  FirstOnly,    // the first operand's dtype decides; others are converted:  masked_fill
};

struct ElementwiseRow;  // kernels/elementwise.h

struct OpDef {
  std::string name;                // "max.dim"
  uint64_t id = 0;                 // made of the name, so that it is the same in every process; a multiple of 4
  std::string shown;               // what users call it: "max"
  Kind kind;
  Schema schema;
  Promote promote = Promote::Default;
  const ElementwiseRow* elementwise = nullptr;
  const PrimitiveRow* row = nullptr;
  int inplace_argument = -1;       // relu(x, inplace=True): the position of that flag
  void* body = nullptr;            // composite: the Python callable
  void* keyword_names = nullptr;   // composite: tuple of its keyword-only names
  std::vector<Rule> rules;
  // What recording looks at, made once from the rules:
  uint64_t differentiable = 0;     // bit k: argument k has a rule
  uint64_t tensors = 0;            // bit k: argument k is a tensor or a list of them
  std::vector<uint64_t> saves_arg; // per rule: bit k: argument k is saved
  std::vector<uint64_t> saves_result;
  void* py_op = nullptr;           // bind/: the Op object
  std::string grad_name;           // "MulBackward0"
  std::vector<std::vector<uint8_t>> older_orders;  // positions of the arguments in calls of old programs
  bool warned_of_order = false;    // somebody was told of them
  bool needs_tensor = false;       // numbers may stand for tensors, but not for all of them
  bool writes_self = false;        // the record's own name ends in "_": its kernel writes into the first argument
  bool writes_more = false;        // and into arguments that its schema marks
  bool keeps_format = false;       // its results take the memory format of its arguments (memory_format.h)
  bool fresh = false;              // its result is written to later, as that of what is made from no tensor: zeros_like
  bool random = false;             // it takes a Generator: inside vmap, the innermost level decides what it draws
  int output_mask = -1;            // the position of the argument of that name
  mutable int single = 0;          // how often in a row its rules were found to be one call each (bind/rules.cpp)
};

// Whether the caller asked for result k. The others come back empty, and Python sees None in their place.
inline bool is_wanted(const Call& c, int k) {
  return c.op->output_mask < 0 || c.ints(c.op->output_mask)[size_t(k)];
}

// What native code takes from a record: its kind, schema, promotion, which arguments may be numbers, and the row of
// the kernels' tables that computes it (kernels/record.cpp). ValueError for unknown words, and where there is no row.
std::unique_ptr<OpDef> make_op(std::string_view kind, const std::string& schema, std::string_view promote,
                               std::string_view numbers);
// The op table of native code, which is filled as records are defined.
OpDef* add_op(std::unique_ptr<OpDef>);
OpDef* find_op(std::string_view name);  // null when there is none
// The op that native code itself calls ("add", "sum_to_size" …): looked up once, a clear error when it is missing.
struct OpHandle {
  const char* name;
  OpDef* def = nullptr;
  OpDef& get();
};

// The transform level a call belongs to: the highest among its arguments; of random operators the innermost one.
int level_of(const Call& c);
// Gives `out` the shape of a result (out=); warns when that changes a non-empty tensor.
// Contiguous in `shape`; the storage grows where it must.
void resize_tensor(Tensor& t, Dims shape, const char* op);
void resize_for_out(Tensor& out, Dims shape, const char* op);

// What one look at the tensors of a call tells.
struct Arguments {
  uint16_t flags = 0;             // the union of theirs
  bool mixed = false;             // they are on several devices
  bool history = false;           // some may want a gradient
  const Tensor* first = nullptr;
  void look(const Tensor& t) {
    flags |= t.flags;
    history |= t.grad_fn || t.base;
    if (!first) first = &t;
    else mixed |= !(t.device == first->device);
  }
};
inline Arguments look_at(const Call& c) {
  Arguments a;
  for (uint64_t bits = c.op->tensors & ((uint64_t(1) << c.nargs) - 1); bits; bits &= bits - 1) {
    const Value& v = c.args[__builtin_ctzll(bits)];
    if (v.tag == Tag::Tensor) a.look(*v.tensor);
    else if (v.tag == Tag::Tensors)
      for (int64_t j = 0; j < v.tensors.size; ++j)
        if (v.tensors.data[j]) a.look(*v.tensors.data[j]);
  }
  a.history |= (a.flags & kRequiresGrad) != 0;
  return a;
}

// Runs `c.op` (not a composite): device check, shapes, kernel. No autograd.
void execute(Call& c, const Arguments& arguments);
inline void execute(Call& c) { execute(c, look_at(c)); }
// The last part of it: all arguments have their values, and no mode asks for the call. `first`: a tensor of the device
// that computes, where there are no results.
void run_on_memory(Call& c, const Tensor* first = nullptr);
// Runs and, where gradients are wanted, records (autograd/record.cpp).
void run_op(Call& c);
// For native callers: one result.
TensorRef invoke(OpHandle& op, std::initializer_list<Value> args);

}  // namespace flambeau
