// Errors thrown by native code; bind/ turns each kind into the Python exception PyTorch raises there.
#pragma once
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>

// What libraries of kernels and devices may use.
#define FLAMBEAU_API __attribute__((visibility("default")))

namespace flambeau {

enum class ErrorKind : uint8_t { Runtime, Type, Value, Index, NotImplemented, OutOfMemory, Overflow, LinAlg, Python };

struct FLAMBEAU_API Error : std::exception {
  ErrorKind kind;
  std::string text;
  Error(ErrorKind kind, std::string text) : kind(kind), text(std::move(text)) {}
  const char* what() const noexcept override { return text.c_str(); }
};

// A Python exception is already set in the interpreter; bind/ only has to return it.
struct FLAMBEAU_API PythonError : Error {
  PythonError() : Error(ErrorKind::Python, "") {}
};

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class... Parts>
[[noreturn]] void fail(ErrorKind kind, const Parts&... parts) {
  throw Error(kind, concat(parts...));
}
template <class... Parts>
[[noreturn]] void runtime_error(const Parts&... parts) { fail(ErrorKind::Runtime, parts...); }
template <class... Parts>
[[noreturn]] void type_error(const Parts&... parts) { fail(ErrorKind::Type, parts...); }
template <class... Parts>
[[noreturn]] void value_error(const Parts&... parts) { fail(ErrorKind::Value, parts...); }
template <class... Parts>
[[noreturn]] void index_error(const Parts&... parts) { fail(ErrorKind::Index, parts...); }
template <class... Parts>
[[noreturn]] void not_implemented(const Parts&... parts) { fail(ErrorKind::NotImplemented, parts...); }

}  // namespace flambeau
