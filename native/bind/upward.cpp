// Fills the table of what native code asks Python for (core/hooks.h).
#include "upward.h"

#include "../cuda/plan.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace flambeau {

namespace upward {
namespace {

void warn(const std::string& text) {
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw PythonError();
}

void* release_lock() { return PyEval_SaveThread(); }
void retake_lock(void* state) { PyEval_RestoreThread(static_cast<PyThreadState*>(state)); }
bool lock_held() { return PyGILState_Check() == 1; }

bool hear_signals(void*& state) {
  if (syscall(SYS_gettid) != getpid()) return false;  // Python runs handlers in the main thread alone
  flambeau::retake_lock(std::exchange(state, nullptr));
  checked(PyErr_CheckSignals());
  state = flambeau::release_lock();
  return true;
}

std::string lapack_library() {
  Held module = checked(PyImport_ImportModule("flambeau._libraries"));
  Held path = checked(PyObject_CallMethod(module.p, "find_lapack", nullptr));
  const char* text = PyUnicode_AsUTF8(path.p);
  if (!text) throw PythonError();
  return text;
}

}  // namespace
}  // namespace upward

using namespace upward;
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
    .release_lock = upward::release_lock,
    .retake_lock = upward::retake_lock,
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
