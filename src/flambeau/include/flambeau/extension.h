// The header of C++ extensions: functions that read and write the memory of tensors, called from Python.
//
// It needs a C++17 compiler and nothing else: no header of Python, no library of Flambeau. What crosses the border is
// plain C (version 1, which stays as it is), so an extension works with any later Flambeau and any version of Python.
// It sees memory, not operators: sizes, strides, a dtype and a pointer. Gradients are not recorded here
// (flambeau.library.custom_op adds them).
//
//   #include <flambeau/extension.h>
//   flambeau::Tensor twice(const flambeau::Tensor& x) {
//     auto y = flambeau::empty(x.sizes(), x.dtype());
//     for (int64_t i = 0; i < x.numel(); ++i) y.data<float>()[i] = 2 * x.data<float>()[i];   // x: contiguous float32
//     return y;
//   }
//   FLAMBEAU_FUNCTION(twice, "2 x")
//
// Parameters: Tensor (by value or const&: read; Tensor&: written), bool, integers, floating point numbers, std::string,
// and std::vector and std::optional of these. Results: the same, void, and std::tuple. Exceptions become Python's.

#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// ---- what crosses the border: version 1

extern "C" {

struct flambeau_tensor {
  void* data;
  const int64_t* sizes;
  const int64_t* strides;  // in elements
  int64_t ndim;
  int32_t dtype;
  int32_t handle;  // its number in the call
};

struct flambeau_value {
  int32_t kind;   // 0 none, 1 bool, 2 int, 3 float, 4 string, 5 tensor, 6 list
  int32_t count;  // bytes of a string, elements of a list
  union {
    int64_t integer;
    double number;
    const void* pointer;
  };
};

struct flambeau_host {
  int32_t version;
  int32_t (*empty)(int64_t ndim, const int64_t* sizes, int32_t dtype, flambeau_tensor* made);  // 0, or it failed
};

struct flambeau_function {
  const char* name;
  const char* documentation;
  const char* parameters;  // one letter each; T is a tensor that is written
  int32_t (*call)(const flambeau_value* arguments, int32_t count, flambeau_value* result, const flambeau_host* host);
};

struct flambeau_table {
  int32_t version;
  int32_t count;
  const flambeau_function* functions;
};

}  // extern "C"

// hidden: two extensions in one process share nothing
namespace flambeau __attribute__((visibility("hidden"))) {

enum class Dtype : int32_t {
  uint8, int8, int16, int32, int64, float16, float32, float64, complex64, complex128, bool_, bfloat16, uint16, uint32,
  uint64
};

template <class T> struct DtypeOf;  // of the types that C++ has itself
template <> struct DtypeOf<uint8_t> { static constexpr Dtype value = Dtype::uint8; };
template <> struct DtypeOf<int8_t> { static constexpr Dtype value = Dtype::int8; };
template <> struct DtypeOf<int16_t> { static constexpr Dtype value = Dtype::int16; };
template <> struct DtypeOf<int32_t> { static constexpr Dtype value = Dtype::int32; };
template <> struct DtypeOf<int64_t> { static constexpr Dtype value = Dtype::int64; };
template <> struct DtypeOf<uint16_t> { static constexpr Dtype value = Dtype::uint16; };
template <> struct DtypeOf<uint32_t> { static constexpr Dtype value = Dtype::uint32; };
template <> struct DtypeOf<uint64_t> { static constexpr Dtype value = Dtype::uint64; };
template <> struct DtypeOf<float> { static constexpr Dtype value = Dtype::float32; };
template <> struct DtypeOf<double> { static constexpr Dtype value = Dtype::float64; };
template <> struct DtypeOf<bool> { static constexpr Dtype value = Dtype::bool_; };

inline const char* name_of(Dtype dtype) {
  static const char* names[] = {"uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
                                "complex64", "complex128", "bool", "bfloat16", "uint16", "uint32", "uint64"};
  return names[static_cast<int32_t>(dtype)];
}

/// A TypeError in Python.
struct TypeError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The memory of a tensor: it lives as long as the call.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(const flambeau_tensor& t) : t_(t) {}

  int64_t ndim() const { return t_.ndim; }
  Dtype dtype() const { return static_cast<Dtype>(t_.dtype); }
  std::vector<int64_t> sizes() const { return {t_.sizes, t_.sizes + t_.ndim}; }
  std::vector<int64_t> strides() const { return {t_.strides, t_.strides + t_.ndim}; }
  int64_t size(int64_t dim) const { return t_.sizes[wrapped(dim)]; }
  int64_t stride(int64_t dim) const { return t_.strides[wrapped(dim)]; }
  void* data() const { return t_.data; }
  const flambeau_tensor& raw() const { return t_; }

  int64_t numel() const {
    int64_t n = 1;
    for (int64_t d = 0; d < t_.ndim; ++d) n *= t_.sizes[d];
    return n;
  }

  bool is_contiguous() const {
    int64_t expected = 1;
    for (int64_t d = t_.ndim; d-- > 0; expected *= t_.sizes[d])
      if (t_.sizes[d] != 1 && t_.strides[d] != expected && numel() != 0) return false;
    return true;
  }

  /// The first element; a TypeError where the elements are of another type.
  template <class T> T* data() const {
    if (DtypeOf<std::remove_const_t<T>>::value != dtype())
      throw TypeError(std::string("data: the tensor is ") + name_of(dtype()) + ", the function expects " +
                      name_of(DtypeOf<std::remove_const_t<T>>::value));
    return static_cast<T*>(t_.data);
  }

  /// The same; also a ValueError where the elements do not lie one after the other, the last dimension fastest.
  template <class T> T* contiguous_data() const {
    if (!is_contiguous()) throw std::invalid_argument("the tensor is not contiguous; call .contiguous() on it first");
    return data<T>();
  }

  /// An element by its indices, whatever the strides; indices are not checked.
  template <class T, class... Index> T& at(Index... index) const {
    int64_t offset = 0, d = 0;
    ((offset += static_cast<int64_t>(index) * t_.strides[d++]), ...);
    return data<T>()[offset];
  }

 private:
  int64_t wrapped(int64_t dim) const {
    if (dim < -t_.ndim || dim >= t_.ndim)
      throw std::out_of_range("dimension " + std::to_string(dim) + " of a tensor with " + std::to_string(t_.ndim));
    return dim < 0 ? dim + t_.ndim : dim;
  }

  flambeau_tensor t_{};
};

namespace detail {

struct HostFailed {};

inline const flambeau_host*& host() {
  static thread_local const flambeau_host* current = nullptr;
  return current;
}

/// What a result points to, until the thread's next call.
struct Kept {
  std::deque<std::string> strings;
  std::deque<flambeau_tensor> tensors;
  std::deque<std::vector<flambeau_value>> lists;
};

inline Kept& kept() {
  static thread_local Kept k;
  return k;
}

inline std::vector<flambeau_function>& functions() {
  static std::vector<flambeau_function> all;
  return all;
}

inline flambeau_value none() { return flambeau_value{0, 0, {0}}; }

inline flambeau_value text(std::string s) {
  auto& all = kept().strings;
  all.push_back(std::move(s));
  flambeau_value v{4, static_cast<int32_t>(all.back().size()), {0}};
  v.pointer = all.back().data();
  return v;
}

inline flambeau_value list(std::vector<flambeau_value> elements) {
  auto& all = kept().lists;
  all.push_back(std::move(elements));
  flambeau_value v{6, static_cast<int32_t>(all.back().size()), {0}};
  v.pointer = all.back().data();
  return v;
}

[[noreturn]] inline void wrong(const char* expected) { throw TypeError(std::string("expected ") + expected); }

/// How a type is read from a value, and written to one; `letter` describes it as a parameter.
template <class T, class = void> struct Convert;

template <> struct Convert<Tensor> {
  static constexpr char letter = 't';
  static Tensor read(const flambeau_value& v) {
    if (v.kind != 5) wrong("a tensor");
    return Tensor(*static_cast<const flambeau_tensor*>(v.pointer));
  }
  static flambeau_value write(const Tensor& t) {
    kept().tensors.push_back(t.raw());
    flambeau_value v{5, 0, {0}};
    v.pointer = &kept().tensors.back();
    return v;
  }
};

template <> struct Convert<bool> {
  static constexpr char letter = 'b';
  static bool read(const flambeau_value& v) {
    if (v.kind != 1) wrong("a bool");
    return v.integer != 0;
  }
  static flambeau_value write(bool b) { return flambeau_value{1, 0, {b}}; }
};

template <class T> struct Convert<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
  static constexpr char letter = 'i';
  static T read(const flambeau_value& v) {
    if (v.kind != 2 && v.kind != 1) wrong("an int");
    if (static_cast<int64_t>(static_cast<T>(v.integer)) != v.integer || (std::is_unsigned_v<T> && v.integer < 0))
      throw std::invalid_argument(std::to_string(v.integer) + " does not fit into the parameter's type");
    return static_cast<T>(v.integer);
  }
  static flambeau_value write(T i) { return flambeau_value{2, 0, {static_cast<int64_t>(i)}}; }
};

template <class T> struct Convert<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static constexpr char letter = 'f';
  static T read(const flambeau_value& v) {
    if (v.kind == 3) return static_cast<T>(v.number);
    if (v.kind != 2 && v.kind != 1) wrong("a number");
    return static_cast<T>(v.integer);
  }
  static flambeau_value write(T x) {
    flambeau_value v{3, 0, {0}};
    v.number = static_cast<double>(x);
    return v;
  }
};

template <> struct Convert<std::string> {
  static constexpr char letter = 's';
  static std::string read(const flambeau_value& v) {
    if (v.kind != 4) wrong("a string");
    return std::string(static_cast<const char*>(v.pointer), static_cast<size_t>(v.count));
  }
  static flambeau_value write(const std::string& s) { return text(s); }
};

template <class T> struct Convert<std::vector<T>> {
  static constexpr char letter = 'l';
  static std::vector<T> read(const flambeau_value& v) {
    if (v.kind != 6) wrong("a list or tuple");
    std::vector<T> out;
    const auto* elements = static_cast<const flambeau_value*>(v.pointer);
    for (int32_t k = 0; k < v.count; ++k) out.push_back(Convert<T>::read(elements[k]));
    return out;
  }
  static flambeau_value write(const std::vector<T>& all) {
    std::vector<flambeau_value> out;
    for (const auto& each : all) out.push_back(Convert<T>::write(each));
    return list(std::move(out));
  }
};

template <class T> struct Convert<std::optional<T>> {
  static constexpr char letter = 'o';
  static std::optional<T> read(const flambeau_value& v) {
    if (v.kind == 0) return std::nullopt;
    return Convert<T>::read(v);
  }
  static flambeau_value write(const std::optional<T>& x) { return x ? Convert<T>::write(*x) : none(); }
};

template <class... T> struct Convert<std::tuple<T...>> {
  static flambeau_value write(const std::tuple<T...>& all) {
    auto write_each = [](const auto&... each) { return list({Convert<std::decay_t<decltype(each)>>::write(each)...}); };
    return std::apply(write_each, all);
  }
};

template <class A> constexpr char letter_of() {
  constexpr bool written = std::is_lvalue_reference_v<A> && !std::is_const_v<std::remove_reference_t<A>>;
  static_assert(!written || std::is_same_v<std::decay_t<A>, Tensor>, "only a Tensor may be written");
  return written ? 'T' : Convert<std::decay_t<A>>::letter;
}

template <auto f> struct Call;

template <class R, class... A, R (*f)(A...)> struct Call<f> {
  static constexpr char parameters[] = {letter_of<A>()..., '\0'};

  template <size_t k, class T> static T argument(const flambeau_value* given) {
    try {
      return Convert<T>::read(given[k]);
    } catch (const TypeError& e) {
      throw TypeError("argument " + std::to_string(k + 1) + ": " + e.what());
    }
  }

  template <size_t... k> static flambeau_value run(const flambeau_value* given, std::index_sequence<k...>) {
    std::tuple<std::decay_t<A>...> read{argument<k, std::decay_t<A>>(given)...};
    (void)read;
    if constexpr (std::is_void_v<R>) {
      f(std::get<k>(read)...);
      return none();
    } else {
      return Convert<std::decay_t<R>>::write(f(std::get<k>(read)...));
    }
  }

  /// 0, or the kind of exception, with its text as the result.
  static int32_t call(const flambeau_value* given, int32_t count, flambeau_value* result, const flambeau_host* h) {
    const flambeau_host* before = host();
    host() = h;
    kept() = Kept();
    int32_t code = 0;
    try {
      if (count != static_cast<int32_t>(sizeof...(A)))
        throw TypeError("expected " + std::to_string(sizeof...(A)) + " arguments, got " + std::to_string(count));
      *result = run(given, std::index_sequence_for<A...>());
    } catch (const HostFailed&) {
      code = 1;
    } catch (const TypeError& e) {
      code = 2, *result = text(e.what());
    } catch (const std::invalid_argument& e) {
      code = 3, *result = text(e.what());
    } catch (const std::out_of_range& e) {
      code = 4, *result = text(e.what());
    } catch (const std::bad_alloc& e) {
      code = 5, *result = text(e.what());
    } catch (const std::exception& e) {
      code = 6, *result = text(e.what());
    } catch (...) {
      code = 6, *result = text("an exception that is no std::exception");
    }
    host() = before;
    return code;
  }
};

struct Registered {
  explicit Registered(flambeau_function f) { functions().push_back(f); }
};

}  // namespace detail

/// A new tensor that Python owns; its elements are not set. Only in the thread that Python called.
inline Tensor empty(const std::vector<int64_t>& sizes, Dtype dtype) {
  const flambeau_host* host = detail::host();
  if (host == nullptr) throw std::runtime_error("empty: tensors are made only in the thread that Python called");
  flambeau_tensor made{};
  if (host->empty(static_cast<int64_t>(sizes.size()), sizes.data(), static_cast<int32_t>(dtype), &made) != 0)
    throw detail::HostFailed();
  return Tensor(made);
}

/// The same with zeros.
inline Tensor zeros(const std::vector<int64_t>& sizes, Dtype dtype) {
  static const int64_t bytes[] = {1, 1, 2, 4, 8, 2, 4, 8, 8, 16, 1, 2, 2, 4, 8};
  Tensor t = empty(sizes, dtype);
  if (t.numel() != 0) std::memset(t.data(), 0, static_cast<size_t>(t.numel() * bytes[static_cast<int32_t>(dtype)]));
  return t;
}

}  // namespace flambeau

/// The function under its own name in Python, with a documentation.
#define FLAMBEAU_FUNCTION(function, documentation)                                                                     \
  static const ::flambeau::detail::Registered flambeau_registered_##function(                                          \
      {#function, documentation, ::flambeau::detail::Call<&function>::parameters,                                      \
       &::flambeau::detail::Call<&function>::call});

extern "C" __attribute__((visibility("default"), weak)) const flambeau_table* flambeau_extension() {
  static flambeau_table table;
  const auto& all = ::flambeau::detail::functions();
  table = {1, static_cast<int32_t>(all.size()), all.data()};
  return &table;
}
