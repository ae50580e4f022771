// The functions of flambeau/program.h: no exception leaves them, and whatever they touch they touch under the lock.
#include "../../src/flambeau/include/flambeau/program.h"

#include <memory>

#include "../core/dlpack.h"
#include "../core/generator.h"
#include "../core/recording.h"
#include "../programs/loaded.h"
#include "lock.h"
#include "operators.h"

using namespace flambeau;
using namespace flambeau::standalone;
using programs::Input;
using programs::Loaded;

#define FLAMBEAU_C extern "C" __attribute__((visibility("default")))

struct FlambeauProgram {
  Loaded loaded;
  std::vector<FlambeauInput> inputs;
};

namespace {

static_assert(sizeof(FlambeauTensor) == sizeof(DLTensor));
thread_local std::string error;

// Runs f under the lock; what it throws becomes the error of this thread.
template <class F>
bool succeeds(F&& f) noexcept {
  try {
    Locked locked;
    f();
    return true;
  } catch (const std::bad_alloc&) {
    error = "there is not enough memory";
  } catch (const std::exception& e) {
    error = e.what();
  }
  return false;
}

// What the caller gets: a tensor, and the sizes that the structure points to.
struct Output {
  FlambeauTensor shown;
  TensorRef tensor;
  std::vector<int64_t> dims;
};

FlambeauTensor* output_of(TensorRef t) {
  auto output = std::make_unique<Output>();
  describe_for_dlpack(*t, reinterpret_cast<DLTensor&>(output->shown), output->dims);
  output->tensor = std::move(t);
  return &output.release()->shown;
}

TensorRef copy_of(const Tensor& t) {
  TensorRef copy = empty(t.shape(), t.dtype);
  copy_into(*copy, t);
  return copy;
}

// The caller's memory as a tensor, for the length of a call.
TensorRef input_of(const FlambeauTensor& given, int k) {
  const auto& d = reinterpret_cast<const DLTensor&>(given);
  if (d.device.type != kDLCpu)
    value_error("input ", k, " is on a device of DLPack's type ", d.device.type, "; it must be 1, the CPU");
  return over_dlpack(d, true);
}

}  // namespace

FLAMBEAU_C FlambeauProgram* flambeau_load(const char* path) {
  FlambeauProgram* program = nullptr;
  succeeds([&] {
    if (!path) value_error("flambeau_load: there is no path");
    define_operators();
    auto made = std::make_unique<FlambeauProgram>(FlambeauProgram{Loaded(path), {}});
    for (const Input& input : made->loaded.inputs())
      made->inputs.push_back({input.name.c_str(), dtype_name(input.dtype), int32_t(input.sizes.size()),
                              input.sizes.data()});
    program = made.release();
  });
  return program;
}

FLAMBEAU_C void flambeau_unload(FlambeauProgram* program) {
  succeeds([&] { delete program; });
}

FLAMBEAU_C int32_t flambeau_input_count(const FlambeauProgram* program) { return int32_t(program->inputs.size()); }
FLAMBEAU_C int32_t flambeau_output_count(const FlambeauProgram* program) {
  return int32_t(program->loaded.outputs().size());
}
FLAMBEAU_C const FlambeauInput* flambeau_input(const FlambeauProgram* program, int32_t k) {
  return k >= 0 && size_t(k) < program->inputs.size() ? &program->inputs[size_t(k)] : nullptr;
}
FLAMBEAU_C const char* flambeau_output_name(const FlambeauProgram* program, int32_t k) {
  const auto& names = program->loaded.outputs();
  return k >= 0 && size_t(k) < names.size() ? names[size_t(k)].c_str() : nullptr;
}

FLAMBEAU_C int32_t flambeau_run(FlambeauProgram* program, const FlambeauTensor* inputs, int32_t input_count,
                                FlambeauTensor** outputs, int32_t output_count) {
  return !succeeds([&] {
    if (!program) value_error("flambeau_run: there is no program; flambeau_load has failed and said why");
    std::vector<TensorRef> given;
    for (int32_t k = 0; k < input_count; ++k) given.push_back(input_of(inputs[k], k));
    if (size_t(output_count) != program->loaded.outputs().size())
      value_error("flambeau_run: the program has ", program->loaded.outputs().size(),
                  " results, and there is room for ", output_count);
    std::vector<TensorRef> made = program->loaded.run(given);
    for (TensorRef& t : made)  // what is the caller's stays the caller's
      for (const TensorRef& input : given)
        if (t->storage == input->storage) t = copy_of(*t);
    std::vector<FlambeauTensor*> shown;
    for (TensorRef& t : made) shown.push_back(output_of(std::move(t)));
    std::copy(shown.begin(), shown.end(), outputs);
  });
}

FLAMBEAU_C void flambeau_free(FlambeauTensor* output) {
  if (!output) return;
  succeeds([&] { delete reinterpret_cast<Output*>(output); });
}

FLAMBEAU_C const char* flambeau_error(void) { return error.c_str(); }
FLAMBEAU_C int32_t flambeau_set_threads(int32_t count) {
  return !succeeds([&] {
    if (count < 1) value_error("flambeau_set_threads: at least one thread is needed, got ", count);
    set_num_threads(count);
  });
}
FLAMBEAU_C void flambeau_seed(uint64_t seed) {
  succeeds([&] { default_generator().manual_seed(seed); });
}
FLAMBEAU_C const char* flambeau_version(void) { return FLAMBEAU_VERSION; }
