// One call of an operator: its parsed arguments, its results, and the table row of a primitive.
//
// A primitive is a row {name, infer, cpu}: `infer` declares every result with Call::output (pure: shapes, dtypes,
// strides from the arguments' metadata, never their data), `cpu` computes into Call::out. A row whose infer must read
// values says so. Kernels of other devices join the row's table from their own files (device.h: Kernels). The Python
// record of the same name (src/flambeau/ops) says everything else.
#pragma once
#include <memory>
#include <new>
#include <string_view>
#include <type_traits>

#include "tensor.h"

namespace flambeau {

enum class Tag : uint8_t {
  None,
  Tensor,
  Bool,
  Int,
  Float,
  Complex,
  Ints,
  Floats,
  Tensors,
  Bools,
  Str,
  DType,
  Device,
  Generator,
  Object
};

struct Generator;

// One argument, as its schema type asks for. Borrowed: the caller keeps everything alive during the call.
struct Value {
  Tag tag = Tag::None;
  bool huge = false;  // Tag::Int: 2**63 or more; i has the bits of its uint64
  union {
    flambeau::Tensor* tensor;
    bool b;
    int64_t i;
    double f;
    struct { double re, im; } c;
    struct { const int64_t* data; int64_t size; } ints;  // Tag::Bools too: zeros and ones
    struct { const double* data; int64_t size; } floats;
    struct { flambeau::Tensor* const* data; int64_t size; } tensors;  // entries may be null for Tensor?[]
    struct { const char* data; int64_t size; } str;
    flambeau::DType dtype;
    flambeau::Device device;
    flambeau::Generator* generator;
    void* object;  // a Python object that native code only passes on
  };
  Value() : i(0) {}
  struct Uninitialised {};
  explicit Value(Uninitialised) {}  // memory that is written before it is read
  Value(flambeau::Tensor* t) : tag(t ? Tag::Tensor : Tag::None), tensor(t) {}
  Value(int64_t v) : tag(Tag::Int), i(v) {}
  Value(int v) : Value(int64_t(v)) {}
  Value(double v) : tag(Tag::Float), f(v) {}
  Value(bool v) : tag(Tag::Bool), b(v) {}
  Value(Dims d) : tag(Tag::Ints) { ints = {d.data(), int64_t(d.size())}; }
  bool none() const { return tag == Tag::None; }
  bool is_number() const { return tag >= Tag::Bool && tag <= Tag::Complex; }
  Scalar scalar() const;
};

struct OpDef;
inline constexpr int kMaxArgs = 24;  // no operator has more

// One value of any type: small ones lie in the call itself.
struct WorkedOut {
  static constexpr size_t kInline = 256;
  alignas(16) char memory[kInline];
  void* place;
  void (*drop)(void*) = nullptr;
  ~WorkedOut() {
    if (drop) drop(place);
  }
};

struct Call {
  const OpDef* op = nullptr;
  const Value* args = nullptr;
  int nargs = 0;
  bool list_result = false;       // the results are one Python list/tuple
  bool released_lock = false;
  bool describes = false;         // results are declared without memory (recording.h)
  bool plain_images = false;      // its images have the channels last, and users see them as plain ones (images.h)
  // Where pointwise operators write instead of into fresh memory: an `out=` tensor or, for in-place forms, self. Of all
  // other kinds the call layer copies the fresh results into it afterwards, so their kernels need not care.
  Tensor* given = nullptr;
  bool inplace = false;           // `given` is the first argument: never resized, its dtype stays
  TensorRef out1;                 // the first result (nearly always the only one)
  std::vector<TensorRef> more;    // the rest
  WorkedOut worked_out;

  FLAMBEAU_API const char* name() const;
  // --- arguments by position (the schema's order)
  bool has(int k) const { return args[k].tag != Tag::None; }
  Tensor& tensor(int k) const { return *args[k].tensor; }
  Tensor* optional_tensor(int k) const { return args[k].tag == Tag::Tensor ? args[k].tensor : nullptr; }
  int64_t integer(int k) const { return args[k].i; }
  int64_t integer_or(int k, int64_t otherwise) const { return has(k) ? args[k].i : otherwise; }
  double real(int k) const { return args[k].tag == Tag::Float ? args[k].f : args[k].scalar().to<double>(); }
  bool boolean(int k) const { return args[k].b; }
  Scalar scalar(int k) const { return args[k].scalar(); }
  Dims ints(int k) const { return has(k) ? Dims{args[k].ints.data, size_t(args[k].ints.size)} : Dims{}; }
  std::span<Tensor* const> tensors(int k) const { return {args[k].tensors.data, size_t(args[k].tensors.size)}; }
  std::string_view str(int k) const { return {args[k].str.data, size_t(args[k].str.size)}; }
  DType dtype_or(int k, DType otherwise) const { return has(k) ? args[k].dtype : otherwise; }
  int64_t dim(int k, int64_t ndim) const { return wrap_dim(args[k].i, ndim, name()); }

  // --- results
  // What infer worked out and the kernel wants again. The kernel finds it where infer of the same call has left it.
  template <class T> T& hand_over(T value);
  template <class T> T& handed() { return *static_cast<T*>(worked_out.place); }

  int nout() const { return out1 ? 1 + int(more.size()) : 0; }
  Tensor& out(int k = 0) const { return k == 0 ? *out1 : *more[k - 1]; }
  // infer: allocates the next result (contiguous unless strides are given).
  FLAMBEAU_API Tensor& output(Dims shape, DType dtype, Device device);
  FLAMBEAU_API Tensor& output(Dims shape, DType dtype, Device device, Dims strides);
  Tensor& output_like(const Tensor& t) { return output(t.shape(), t.dtype, t.device); }
  void view(TensorRef result);    // infer of a view op: the next result shares its input's storage
  void push(TensorRef result);    // the next result, already made
};

template <class T> T& Call::hand_over(T value) {
  if (worked_out.drop) worked_out.drop(worked_out.place);
  worked_out.drop = nullptr;
  constexpr bool fits = sizeof(T) <= WorkedOut::kInline && alignof(T) <= 16;
  T* made;
  if constexpr (fits) made = new (worked_out.memory) T(std::move(value));
  else made = new T(std::move(value));
  worked_out.place = made;
  if constexpr (!fits) worked_out.drop = [](void* p) { delete static_cast<T*>(p); };
  else if constexpr (!std::is_trivially_destructible_v<T>) worked_out.drop = [](void* p) { static_cast<T*>(p)->~T(); };
  return *made;
}

using CallFn = void (*)(Call&);

// What `infer` looks at beside the arguments' metadata, since the results' shapes depend on it: nothing, values, or
// those of the tensors in a list that are masks (bool, uint8).
enum class Infer : uint8_t { Pure, ReadsValues, ReadsMasks };
// What a kernel does with images that have the channels last in memory (images.h). Kept: its loops take them so, and
// its results lie so too. Along: it works along dimensions and takes the rows [n, height, width, channels] that they
// are. Read: it reads them with the strides that they have, and its results do not depend on those. Copied: its result
// is a copy or a view.
enum class Images : uint8_t { Plain, Kept, Along, Read, Copied };

struct PrimitiveRow {
  const char* name = nullptr;
  CallFn infer = nullptr;
  CallFn kernel[kDeviceTypes] = {};  // none for the CPU: a view, nothing to compute anywhere
  Infer reads = Infer::Pure;
  // Whether the kernel reads an argument's opaque layout as it is, or only its form (pending.h), or a lazy one's memory
  // by its flags (lazy.h); of all others the values are made first.
  bool (*accepts)(const Call&, const Tensor&) = nullptr;
  Images images = Images::Plain;
  // Of those that keep images: whether plain ones are worth a copy with the channels last.
  bool (*begins)(const Call&) = nullptr;

  PrimitiveRow() = default;
  PrimitiveRow(const char* name, CallFn infer, CallFn cpu, Infer how = Infer::Pure,
               bool (*accepts)(const Call&, const Tensor&) = nullptr)
      : name(name), infer(infer), kernel{cpu}, reads(how), accepts(accepts) {}
  PrimitiveRow(const char* name, CallFn infer, CallFn cpu, Images images, bool (*begins)(const Call&) = nullptr)
      : name(name), infer(infer), kernel{cpu}, images(images), begins(begins) {}
  bool is_view() const { return !kernel[int(DeviceType::CPU)]; }
};

// At namespace scope of a kernel file:  static const Primitives rows{{"cat", infer_cat, cpu_cat}, …};
struct FLAMBEAU_API Primitives {
  Primitives(std::initializer_list<PrimitiveRow> rows);
};
FLAMBEAU_API const PrimitiveRow* find_primitive(std::string_view name);
PrimitiveRow& primitive_row(std::string_view name);  // made when there is none yet

// The kernel of rows that are computed by their record's Python function; what it returns is copied into the results.
inline void python_kernel(Call& c) { hooks.call_python_kernel(c); }

// A native call that is running on this thread. From the moment it gives the interpreter lock back until it ends, it
// owns the tensors it works on, and whoever wants to give one of them another storage or shape waits (await_calls):
// kernels may read a tensor's address and sizes at any time.
struct Calling {
  explicit Calling(const Call& c) : outer(std::exchange(tls.call, this)), call(&c) {}
  explicit Calling(std::span<const TensorRef> tensors) : outer(std::exchange(tls.call, this)), given(tensors) {}
  Calling(const Calling&) = delete;
  ~Calling() {
    tls.call = outer;
    if (__builtin_expect(held, 0)) drop();
  }
  void hold();
  void drop();
  bool holds(const Tensor& t) const;

  Calling* outer;
  const Call* call = nullptr;
  std::span<const TensorRef> given;
  bool held = false;
  const void* thread = nullptr;               // from here on: only while held
  Calling *newer = nullptr, *older = nullptr;  // among all that are held, in any thread
  std::vector<TensorRef> tensors;
};
// Called before a tensor takes another storage, shape or dtype: sleeps while calls of other threads hold it; throws
// when a call of this thread does (a signal handler interrupted it).
void await_held(const Tensor& t);
inline void await_calls(const Tensor& t) {
  if (__builtin_expect(process.held_calls != nullptr, 0)) await_held(t);
}

// Kernels whose work is large release the interpreter lock while one lives; `work` is in element visits. Only then can
// they be interrupted (parallel.h), so a kernel whose time depends on values counts that too. Outside of a Calling,
// `also` names the tensors that are used.
struct LockRelease {
  explicit LockRelease(int64_t work, std::initializer_list<const Tensor*> also = {});
  ~LockRelease();
  void* state = nullptr;
  std::vector<TensorRef> tensors;
  std::unique_ptr<Calling> calling;
};
// While one lives, kernels of this thread keep the interpreter lock.
struct KeepLock {
  KeepLock();
  ~KeepLock();
};
// Gives the interpreter lock back and takes it again. A fork in another thread waits for the code between the two, so
// that a child is never made while native code is at work.
void* release_lock();
void retake_lock(void*);
// Sleeps until ready(context), with neither the interpreter lock nor a place in the way of a fork.
void wait_until(bool (*ready)(const void*), const void* context);

}  // namespace flambeau
