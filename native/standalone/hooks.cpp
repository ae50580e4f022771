// What native code asks for where there is no Python (core/hooks.h): objects are plain memory, and the interpreter lock
// is a mutex.
#include "lock.h"

#include <dlfcn.h>

#include <cstdio>
#include <filesystem>
#include <mutex>

#include "../core/call.h"
#include "../core/generator.h"
#include "../cuda/plan.h"
#include "../runtime/together.h"
#include "../programs/loaded.h"

namespace flambeau {
namespace standalone {
namespace {

std::mutex interpreter;
thread_local bool held = false;

}  // namespace

void lock() {
  interpreter.lock();
  held = true;
}
void unlock() {
  held = false;
  interpreter.unlock();
}

namespace {

[[noreturn]] void needs_python(const char* what) { not_implemented(what, " needs Python, which is not there"); }

// --- objects: tensors and generators; nodes of graphs are never made
Tensor* allocate_object() {
  auto* t = static_cast<Tensor*>(::operator new(sizeof(Tensor)));
  t->refcount = 1;
  t->type = nullptr;
  blank_tensor(t);
  return t;
}
void release_object(Object* o) {
  auto* t = static_cast<Tensor*>(o);
  if (Tensor* base = std::exchange(t->base, nullptr)) release(base);
  if (Storage* s = std::exchange(t->storage, nullptr)) release(s);
  if (t->sizes && t->sizes != t->inline_dims) delete[] t->sizes;
  recycle_tensor(t);
}
void free_object(Object* o) { ::operator delete(static_cast<void*>(o)); }
void track_object(Object*) {}
Node* allocate_node_object() { needs_python("a derivative"); }
Generator* allocate_generator() { return new Generator; }

// --- calls
bool dispatch_override(Call&) { return false; }
void call_python_kernel(Call& c) { needs_python(c.name()); }
void run_composite(Call& c) { needs_python(c.name()); }
TensorRef alias_wrapper(const Tensor&) { needs_python("a tensor that wraps another"); }
void warn(const std::string& text) { std::fprintf(stderr, "flambeau: %s\n", text.c_str()); }

// --- the lock; signals go where the program wants them
void* release_lock() {
  unlock();
  return &interpreter;
}
void retake_lock(void*) { lock(); }
bool lock_held() { return held; }
bool hear_signals(void*&) { return false; }

// --- graphs of derivatives: there are none
void pack_saved(Node&, Saved&, const Value&) { needs_python("a derivative"); }
void note_origin(Node&) {}
void node_created(Node&) {}
void before_write(Tensor&) {}
void retain_again(Tensor&) {}
std::string function_name(const Node&) { return ""; }
void apply_rules(Node&, const bool*, TensorRef*, TensorRef*) { needs_python("a derivative"); }
void apply_function(Node&, const bool*, TensorRef*, TensorRef*) { needs_python("a derivative"); }
void release_function(Node&) {}
void run_tensor_hooks(Node&, TensorRef*) {}
void run_node_pre_hooks(Node&, TensorRef*) {}
void run_node_post_hooks(Node&, TensorRef*, TensorRef*) {}
void run_leaf_hooks(Tensor&, TensorRef&) {}
void run_accumulate_hooks(Tensor&) {}
void add_node_context(Node&) { throw; }
void run_callback(Object*) {}
void profile_node(Node&, bool) {}

// --- plans
Plan* plan_program(const Program& p) {
  std::unique_ptr<Plan> plan = programs::Loaded::plan_for(p);
  return plan ? plan.release() : plan_calls(p).release();
}
cuda::PointwisePlan plan_pointwise(const cuda::PointwiseKey&, const char*) { needs_python("a kernel for CUDA"); }
void plan_row(const Call&, int, cuda::RowPlan&) { needs_python("a kernel for CUDA"); }
void* make_kernel(int, const char*, const std::string&) { needs_python("a kernel for CUDA"); }

// LAPACK's library beside this one, or in the package that brings it, as installers lay them out.
std::string lapack_library() {
  Dl_info here;
  if (!dladdr(reinterpret_cast<void*>(&lapack_library), &here)) return "libscipy_openblas.so";
  const auto folder = std::filesystem::absolute(here.dli_fname).parent_path();
  for (const char* place : {"libscipy_openblas.so", "../../scipy_openblas32/lib/libscipy_openblas.so"})
    if (std::filesystem::exists(folder / place)) return folder / place;
  return "libscipy_openblas.so";
}

}  // namespace
}  // namespace standalone

using namespace standalone;
constinit const Hooks hooks{
    .allocate_object = allocate_object,
    .allocate_node_object = allocate_node_object,
    .allocate_generator = allocate_generator,
    .release_object = release_object,
    .track_object = track_object,
    .free_object = free_object,
    .dispatch_override = dispatch_override,
    .call_python_kernel = call_python_kernel,
    .run_composite = run_composite,
    .alias_wrapper = alias_wrapper,
    .warn = warn,
    .release_lock = standalone::release_lock,
    .retake_lock = standalone::retake_lock,
    .lock_held = lock_held,
    .hear_signals = hear_signals,
    .pack_saved = pack_saved,
    .note_origin = note_origin,
    .node_created = node_created,
    .before_write = before_write,
    .retain_again = retain_again,
    .function_name = function_name,
    .apply_rules = apply_rules,
    .apply_function = apply_function,
    .release_function = release_function,
    .run_tensor_hooks = run_tensor_hooks,
    .run_node_pre_hooks = run_node_pre_hooks,
    .run_node_post_hooks = run_node_post_hooks,
    .run_leaf_hooks = run_leaf_hooks,
    .run_accumulate_hooks = run_accumulate_hooks,
    .add_node_context = add_node_context,
    .run_callback = run_callback,
    .profile_node = profile_node,
    .plan_program = plan_program,
    .plan_pointwise = plan_pointwise,
    .plan_row = plan_row,
    .make_kernel = make_kernel,
    .lapack_library = lapack_library,
};

}  // namespace flambeau
