// The real cuDNN without a GPU, for tests: it is told what a GPU would be, chooses engines and makes plans, kernels
// compiled; nothing runs. Functions that need more than the backend interface are not here.
#include <fstream>
#include <iterator>

#include "common.h"

namespace {

using Desc = void*;
enum { kHeuristics = 4, kPlan = 5, kDevice = 38 };
enum { kTypeText = 24, kTypeDescriptor = 15 };

template <class F>
F real(const char* symbol) {
  static void* library = dlopen(std::getenv("FLAMBEAU_REAL_CUDNN"), RTLD_NOW | RTLD_GLOBAL);
  return reinterpret_cast<F>(dlsym(library, symbol));
}
int set(Desc d, int attribute, int type, int64_t n, const void* p) {
  static auto f = real<int (*)(Desc, int, int, int64_t, const void*)>("cudnnBackendSetAttribute");
  return f(d, attribute, type, n, p);
}
int finish(Desc d) {
  static auto f = real<int (*)(Desc)>("cudnnBackendFinalize");
  return f(d);
}
int make_real(int kind, Desc* d) {
  static auto f = real<int (*)(int, Desc*)>("cudnnBackendCreateDescriptor");
  return f(kind, d);
}
std::map<Desc, int> kinds;

// What the GPU is, from a file; null where the library does not take the description.
Desc device() {
  static Desc made = [] {
    std::ifstream file(std::getenv("FLAMBEAU_DESCRIBED_GPU"));
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    Desc d = nullptr;
    if (make_real(kDevice, &d) || set(d, 2702, kTypeText, int64_t(text.size()), text.data()) || finish(d)) return Desc();
    return d;
  }();
  return made;
}

}  // namespace

API int fake_described() { return device() != nullptr; }
API int cudnnCreate(void** h) { *h = &kinds; return 0; }
API int cudnnSetStream(void*, void*) { return 0; }
API size_t cudnnGetVersion() { return real<size_t (*)()>("cudnnGetVersion")(); }
API const char* cudnnGetErrorString(int s) { return real<const char* (*)(int)>("cudnnGetErrorString")(s); }
API int cudnnBackendCreateDescriptor(int kind, Desc* d) {
  const int status = make_real(kind, d);
  kinds[*d] = kind;
  return status;
}
API int cudnnBackendDestroyDescriptor(Desc d) { return real<int (*)(Desc)>("cudnnBackendDestroyDescriptor")(d); }
API int cudnnBackendSetAttribute(Desc d, int attribute, int type, int64_t n, const void* p) {
  return attribute == 800 || attribute == 400 ? 0 : set(d, attribute, type, n, p);  // the handle, which there is not
}
API int cudnnBackendFinalize(Desc d) {
  Desc gpu = device();
  if (kinds[d] == kHeuristics || kinds[d] == kPlan)
    if (int s = set(d, kinds[d] == kPlan ? 407 : 204, kTypeDescriptor, 1, &gpu)) return s;
  return finish(d);
}
API int cudnnBackendGetAttribute(Desc d, int attribute, int type, int64_t asked, int64_t* n, void* p) {
  static auto f = real<int (*)(Desc, int, int, int64_t, int64_t*, void*)>("cudnnBackendGetAttribute");
  return f(d, attribute, type, asked, n, p);
}
API int cudnnBackendExecute(void*, Desc, Desc) { ENTER("execute"); return 0; }

// What plans of attention and convolutions do not call.
#define ABSENT(name) API int name() { return 3000; }
ABSENT(cudnnCreateTensorDescriptor) ABSENT(cudnnDestroyTensorDescriptor) ABSENT(cudnnSetTensorNdDescriptor)
ABSENT(cudnnCreateDropoutDescriptor) ABSENT(cudnnDestroyDropoutDescriptor) ABSENT(cudnnSetDropoutDescriptor)
ABSENT(cudnnCreateRNNDescriptor) ABSENT(cudnnDestroyRNNDescriptor) ABSENT(cudnnSetRNNDescriptor_v8)
ABSENT(cudnnCreateRNNDataDescriptor) ABSENT(cudnnDestroyRNNDataDescriptor) ABSENT(cudnnSetRNNDataDescriptor)
ABSENT(cudnnGetRNNWeightSpaceSize) ABSENT(cudnnGetRNNWeightParams) ABSENT(cudnnGetRNNTempSpaceSizes)
ABSENT(cudnnRNNForward) ABSENT(cudnnRNNBackwardData_v8) ABSENT(cudnnRNNBackwardWeights_v8)
