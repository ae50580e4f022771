#include "library.h"

#include <dlfcn.h>

#include <algorithm>
#include <iterator>

#include "libraries/calls.h"

namespace flambeau::cuda {
namespace {

template <class Map>
const auto& value_of(const Map& map, std::string_view name, const Constants& c) {
  auto found = map.find(name);
  if (found == map.end()) value_error(c.op, ": the call of a library lacks the constant ", name);
  return found->second;
}

using Maker = std::unique_ptr<LibraryCall> (*)(int device, const Constants&);
struct Entry {
  std::string_view function;
  Maker make;
};
constexpr Entry kCalls[] = {
    {"cublaslt.matmul", make_cublaslt_matmul},
    {"cudnn.attention", make_cudnn_attention},
    {"cudnn.convolution", make_cudnn_convolution},
    {"cudnn.recurrent", make_cudnn_recurrent},
    {"cufft.transform", make_cufft_transform},
    {"cusolver.decomposition", make_cusolver_decomposition},
    {"cusolver.factors", make_cusolver_factors},
    {"cusolver.batch", make_cusolver_batch},
    {"cublas.triangular", make_cublas_triangular},
    {"cublas.batched", make_cublas_batched},
    {"cublas.grouped", make_cublas_grouped},
};

}  // namespace

const std::vector<int64_t>& Constants::list(std::string_view name) const { return value_of(integers, name, *this); }
const std::string& Constants::word(std::string_view name) const { return value_of(words, name, *this); }
double Constants::number(std::string_view name) const {
  if (auto found = integers.find(name); found != integers.end()) return double(found->second.at(0));
  return value_of(numbers, name, *this);
}
bool Constants::has(std::string_view name) const {
  return integers.contains(name) || numbers.contains(name) || words.contains(name);
}

std::shared_ptr<LibraryCall> make_library_call(const std::string& function, int device, const Constants& constants) {
  const auto* found = std::ranges::find(kCalls, std::string_view(function), &Entry::function);
  if (found == std::end(kCalls)) value_error(constants.op, ": there is no library function ", function);
  use_device(device);
  return found->make(device, constants);
}

void* open_library(const char* name, const Constants& constants) {
  void* library = dlopen(constants.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) runtime_error(constants.op, ": ", name, " cannot be opened: ", dlerror());
  return library;
}

void* library_function(void* library, const char* symbol, const char* name, const Constants& constants) {
  void* found = dlsym(library, symbol);
  if (!found)
    runtime_error(constants.op, ": ", name, " (", constants.path, ") has no ", symbol,
                  ": it is too old; pip install --upgrade 'flambeau[cuda]'");
  return found;
}

bool library_has(const char* name, const char* symbol, const Constants& constants) {
  return dlsym(open_library(name, constants), symbol) != nullptr;
}

void library_failed(const char* op, const char* library, const char* status, int code, const char* where) {
  runtime_error(op, ": ", library, ": ", status ? status : "unknown status", " (", code, ") in ", where);
}

int cuda_type(const std::string& dtype, const Constants& constants) {
  static constexpr std::pair<std::string_view, int> known[] = {
      {"float32", 0},  {"float64", 1},     {"float16", 2},        {"int8", 3},          {"complex64", 4},
      {"complex128", 5}, {"uint8", 8},     {"int32", 10},         {"bfloat16", 14},     {"float8_e4m3fn", 28},
      {"float8_e5m2", 29}, {"float4_e2m1fn_x2", 33}};
  const auto* found = std::ranges::find(known, std::string_view(dtype), &std::pair<std::string_view, int>::first);
  if (found == std::end(known)) throw Unsupported(concat(constants.op, ": no library of NVIDIA computes in ", dtype));
  return found->second;
}

}  // namespace flambeau::cuda
