// Calls of NVIDIA's libraries as steps of plans: described by Python once per signature, made here, then repeated.
//
// Each library is opened by name when a plan first calls it; nothing of it is needed to build or to import. What it
// is told about the operands (descriptors, the algorithm it chooses) is made with the plan and lives as long.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "stream.h"

namespace flambeau::cuda {

// What a rule says about a call beside its operands: numbers, lists of numbers and words, by name.
struct Constants {
  const char* op;    // the operator, for errors: a name that lives as long as the program
  std::string path;  // of the library
  std::map<std::string, std::vector<int64_t>, std::less<>> integers;
  std::map<std::string, double, std::less<>> numbers;
  std::map<std::string, std::string, std::less<>> words;

  int64_t integer(std::string_view name) const { return list(name).at(0); }
  const std::vector<int64_t>& list(std::string_view name) const;
  double number(std::string_view name) const;  // of an integer too
  const std::string& word(std::string_view name) const;
  bool has(std::string_view name) const;
};

// Where one call happens.
struct LibrarySite {
  const char* op;
  int device;
  Stream stream;
  const Address* operands;  // 0: an operand that is absent
  Address workspace;
  void* pointer(size_t k) const { return reinterpret_cast<void*>(operands[k]); }
  void* room() const { return reinterpret_cast<void*>(workspace); }
};

class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  virtual void run(const LibrarySite& at) = 0;
  size_t workspace = 0;  // bytes of scratch memory that `run` is given
  size_t kept = 0;       // bytes that it leaves for the way back, where that is asked for
};

// How much a plan asks of libraries: nothing; single calls; calls that compute on the way what comes next.
enum class LibraryUse : int8_t { None, Plain, All };

// A library that cannot do what it was asked for: the plan is made again, asking for no more than `left`.
struct Unsupported : Error {
  LibraryUse left;
  explicit Unsupported(std::string text, LibraryUse left = LibraryUse::None)
      : Error(ErrorKind::NotImplemented, std::move(text)), left(left) {}
  // What a plan that asked for `use`, more than nothing, is made again with.
  LibraryUse after(LibraryUse use) const { return std::min(left, LibraryUse(int8_t(use) - 1)); }
};

// The call `function` ("cublaslt.matmul") of a library. Throws Unsupported, and what the library reports otherwise.
std::shared_ptr<LibraryCall> make_library_call(const std::string& function, int device, const Constants& constants);

// Opens a library once; its functions, found by name. Both say what to install where something is missing.
void* open_library(const char* name, const Constants& constants);
void* library_function(void* library, const char* symbol, const char* name, const Constants& constants);
// Whether the installed release has a function that older ones lack.
bool library_has(const char* name, const char* symbol, const Constants& constants);

// "mm: cuBLASLt: CUBLAS_STATUS_EXECUTION_FAILED (13) in cublasLtMatmul"
[[noreturn]] void library_failed(const char* op, const char* library, const char* status, int code, const char* where);

// CUDA's numbers of dtypes, which the libraries share; throws Unsupported for those it has none for.
int cuda_type(const std::string& dtype, const Constants& constants);
// Of these numbers for float32, float64, complex64 and complex128: the bytes of an element, and the one of four
// functions (s, d, c, z) that is for it.
inline int64_t bytes_of_type(int type) { return type == 0 ? 4 : type == 5 ? 16 : 8; }
template <class F>
F for_type(int type, F s, F d, F c, F z) { return type == 0 ? s : type == 1 ? d : type == 4 ? c : z; }

// A table of functions X(member, result, symbol, parameters) as members of a struct, which `open_table` fills; `kName`
// is the library's name where the struct stands.
#define FLAMBEAU_LIBRARY_MEMBER(member, result, symbol, parameters) result(*member) parameters = nullptr;
#define FLAMBEAU_LIBRARY_FIND(member, result, symbol, parameters) \
  member = reinterpret_cast<result(*) parameters>(library_function(library, symbol, kName, constants));
#define FLAMBEAU_LIBRARY(functions)   \
  functions(FLAMBEAU_LIBRARY_MEMBER)  \
  void find(void* library, const Constants& constants) { functions(FLAMBEAU_LIBRARY_FIND) }

template <class Library>
Library* open_table(const char* name, const Constants& constants) {
  auto table = std::make_unique<Library>();
  table->find(open_library(name, constants), constants);
  return table.release();  // a library stays open
}

}  // namespace flambeau::cuda
