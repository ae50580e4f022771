// A program as it was called: primitive calls in order, with all that decides what each of them does, and which of the
// results somebody still holds. Nothing in it changes once it is written: a call that writes into memory which the
// program itself has made gives that memory another value, as if it had made a new one. Calls that move running
// statistics or draw random numbers keep their order, and the program runs before anybody else reads or draws there.
//
// `key` is the same as numbers: two programs with equal keys do the same, apart from the bytes in the memory that comes
// from outside, the numbers (Scalar, float) among the arguments, and sizes: of these the key says only which are 0, 1
// or equal to each other, and which tensors are contiguous. So what was worked out for one serves the other.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "../core/op.h"
#include "../core/pending.h"

namespace flambeau {

// Memory whose addresses stay while more is taken; given back all at once.
class Arena {
 public:
  template <class T> T* take(size_t n) { return static_cast<T*>(bytes(n * sizeof(T))); }
  void clear();

 private:
  void* bytes(size_t n);
  static constexpr size_t kChunk = 1 << 13;  // the first; later ones are larger
  std::vector<std::pair<std::unique_ptr<char[]>, size_t>> chunks_;
  size_t chunk_ = 0, used_ = 0;
};

// One value that lies in a storage from outside (made_by < 0) or is a result of entry `made_by`.
struct ProgramSlot {
  Storage* storage = nullptr;  // from outside: counted. A result's: null once nobody holds it, or another replaced it
  int made_by = -1;
  bool written = false;        // from outside: an entry writes to it
};
// A tensor, as a call sees it: a layout of a slot's memory.
struct Use {
  int slot;
  DType dtype;
  uint8_t ndim;
  uint16_t flags;       // kWrappedNumber
  Device device;
  int64_t offset;       // in elements
  const int64_t* dims;  // sizes, then strides
  Dims sizes() const { return {dims, ndim}; }
  Dims strides() const { return {dims + ndim, ndim}; }
};
// A tensor of that layout without memory.
// Whether t has this layout, apart from where it begins.
bool laid_out(const Tensor& t, Dims sizes, Dims strides);
TensorRef bare_tensor(DType dtype, Device device, Dims sizes, Dims strides, uint16_t flags);
// Arguments that are tensors have their use's number in `i`; lists of tensors an array of numbers (-1: none) in `ints`.
// How a call is made: as the operator; as its in-place form; as the operator, whose result then goes where the first
// argument lies.
enum class Form : uint8_t { Plain, Inplace, Stored };
struct Entry {
  const OpDef* op;
  Value* args;
  int nargs;
  bool list_result;
  Form form;
  int nresults;         // none of those that write into their first argument
  int* results;         // a use each: its slot and layout
  std::span<const int> writes;  // slots from outside that it writes to
};

// Whether an argument is a number whose value a plan need not know (one that is the argument's default it knows), or
// sizes.
bool is_number(const Value& v, const Arg& arg);
bool is_sizes(const Arg& arg);

// Where in the user's program a call was written down, and who knows such places. The code is null where it is not
// known.
struct Place {
  Object* code = nullptr;
  int instruction = 0;
};
struct Places {
  virtual Place here() const = 0;
  virtual std::string text(const Place& place) const = 0;

 protected:
  ~Places() = default;
};

enum class Stage : uint8_t { Open, Running, Done, Failed };
enum class Why : uint8_t { End, Value, Write, Long };  // it runs: at the end, for a value, before a write, at its size
struct Tracer;
struct Plan;

struct Program {
  std::vector<ProgramSlot> slots;
  std::vector<Use> uses;
  std::vector<Entry> entries;
  std::vector<Place> lines;  // of the entries; `codes` keeps what they name
  std::vector<Ref<Object>> codes;
  std::vector<uint64_t> key;
  std::vector<int64_t> sizes_at;  // which words of the key are sizes, strides and offsets, if that is to be known
  Arena arena;
  Stage stage = Stage::Open;
  Why why = Why::End;
  const Places* places = nullptr;
  std::string error;    // of a program that failed
  ErrorKind error_kind = ErrorKind::Runtime;
  Tracer* tracer = nullptr;      // that writes it
  // Who makes its plan, which keeps it; null: this library. For others numbers are part of the key.
  Object* planner = nullptr;
  bool exact = false;            // sizes are part of the key
  bool fast = false;             // numbers too, and results may be rounded differently
  bool record = false;           // devices that can repeat its runs as a whole do
  bool pointwise = false;        // nothing but pointwise calls on the CPU, which run together
  bool anew = false;             // its plan is made for this run alone
  bool marks = false;            // sizes_at is to be known
  const void* thread = nullptr;  // that runs it
  std::shared_ptr<Plan> plan;    // with which it has run
  int64_t refcount = 1;

  Program();
  ~Program();
  Program(const Program&) = delete;
  void clear();
  bool empty() const { return entries.empty(); }
  std::string line_of(int entry) const;  // "" where it is not known
  int find(const Storage* s) const;  // the slot of memory from outside; -1: none
  bool reads(Storage& s) const;      // memory from outside
  bool writes(Storage& s) const;
  bool draws = false;            // random numbers
  // Writes the call down and declares its results. False: it is no call that can wait; nothing has happened.
  bool add(Call& c);
  std::vector<int> wanted() const;       // slots of results that somebody holds
  const Use& made_as(int slot) const;    // the layout of a result
  // Closes the key with which results are wanted, and takes hold of those.
  void seal();

 private:
  int slot_of(Storage* s);
  int note_use(const Tensor& t, int slot);
  int use_of(const Tensor& t);  // is part of the key
  void grow_table();
  void note_line();
  bool ours(const Tensor& t) const;
  bool takes_all(const Call& c) const;
  void write_number(const Value& v);
  uint64_t named(int64_t size);
  std::pair<int64_t, uint64_t>* place_of_name(int64_t size);
  void mark_sizes(size_t n);     // the last n words of the key
  template <class T> const T* write_words(const T* data, int64_t n, bool sizes);
  void write_argument(const Value& from, const Arg& arg, Value& to);
  void write_results(Call& c, Entry& e);
  void note_writes(const Call& c, Entry& e);
  Entry begin(const Call& c, Form form);
  void end(const Entry& e);
  bool add_inplace(Call& c);
  void write_outside(Call& c);
  void write_over(Call& c, Tensor& self);
  bool write_part(Call& c, Tensor& part);
  bool fill_part(Call& c);
  bool put_part(Tensor& part, const Value& value);
  void replace_value(Entry& e, Tensor& whole);
  TensorRef whole_of(const Tensor& part);
  std::vector<int> table_;  // storages from outside -> slot, by address
  std::vector<std::pair<int64_t, uint64_t>> names_;  // sizes -> their names in the key, by value
  uint64_t named_ = 0;
  int outside_ = 0;
  bool foreign_ = false;    // some of them show memory of other libraries
};
inline void retain(Program* p) { ++p->refcount; }
void release(Program* p);
Program* new_program();
// Programs with longer keys are not kept for the next.
inline constexpr size_t kLargeKey = 1 << 17;

// The values of a slot that a program will make. Whoever wants them runs the program.
struct Awaited final : Pending {
  Program* program;
  int slot;
  Awaited(Program* program, int slot) : program(program), slot(slot) { retain(program); }
  ~Awaited() override;
  void make(Storage& s) override;
};

Awaited* awaited(const Storage& s);  // null: nobody waits for a program there

// Runs the program (once; waits while another thread does) and gives every result that is held its memory.
void run_program(Program& p);

}  // namespace flambeau
