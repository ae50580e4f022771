// What native code below bind/ asks Python for. bind/upward.cpp fills the table, before anything runs and for good.
#pragma once
#include <string>

namespace flambeau {

struct Object;
struct Tensor;
struct Generator;
struct Call;
struct Value;
struct Node;
struct Saved;
struct Program;
struct Plan;
namespace cuda {
struct PointwiseKey;
struct PointwisePlan;
struct RowPlan;
}  // namespace cuda
template <class T> struct Ref;

// References: none can be left out, and none changes.
struct Hooks {
  // --- objects
  Tensor* (&allocate_object)();
  Node* (&allocate_node_object)();
  Generator* (&allocate_generator)();
  void (&release_object)(Object*);  // the count has reached zero
  void (&track_object)(Object*);    // from now on the object may be part of a cycle
  void (&free_object)(Object*);     // gives back the memory of an object that holds nothing any more
  // --- calls
  bool (&dispatch_override)(Call&);   // runs a primitive in Python: at its level, or through __torch_dispatch__
  void (&call_python_kernel)(Call&);  // of rows that are computed by their record's Python function
  void (&run_composite)(Call&);
  Ref<Tensor> (&alias_wrapper)(const Tensor&);  // `alias`, of a tensor whose type dispatches
  void (&warn)(const std::string&);
  // --- the interpreter lock and signals
  void* (&release_lock)();
  void (&retake_lock)(void*);
  bool (&lock_held)();  // by this thread
  // Takes the lock back from `state`, runs the handlers of signals that have arrived, gives it back into `state`;
  // throws, lock taken and `state` null, when one raised. Returns false where this thread never hears signals.
  bool (&hear_signals)(void*& state);
  // --- the graph
  void (&pack_saved)(Node&, Saved&, const Value&);
  void (&note_origin)(Node&);  // where the operation was called
  void (&node_created)(Node&);
  void (&before_write)(Tensor&);
  void (&retain_again)(Tensor&);  // a tensor that retains its gradient has got another node
  std::string (&function_name)(const Node&);
  // --- the backward pass. `needs[k]`: edge k is wanted; `grads`: one per output, null where none came; `out`: one per
  // edge.
  void (&apply_rules)(Node&, const bool* needs, Ref<Tensor>* grads, Ref<Tensor>* out);
  void (&apply_function)(Node&, const bool* needs, Ref<Tensor>* grads, Ref<Tensor>* out);
  void (&release_function)(Node&);  // a Function's context forgets what it kept
  void (&run_tensor_hooks)(Node&, Ref<Tensor>* grads);  // of what the node has made, retain_grad too
  void (&run_node_pre_hooks)(Node&, Ref<Tensor>* grads);
  void (&run_node_post_hooks)(Node&, Ref<Tensor>* out, Ref<Tensor>* grads);
  void (&run_leaf_hooks)(Tensor&, Ref<Tensor>& grad);
  void (&run_accumulate_hooks)(Tensor&);
  void (&add_node_context)(Node&);  // throws the current exception again, having said which node failed
  void (&run_callback)(Object*);    // calls what queue_callback was given
  void (&profile_node)(Node&, bool begin);  // around each node while a profiler is on
  // --- graphs
  Plan* (&plan_program)(const Program&);  // how a program runs that has not run before
  // --- CUDA: the launch plan of a signature that is new
  cuda::PointwisePlan (&plan_pointwise)(const cuda::PointwiseKey&, const char* name);
  void (&plan_row)(const Call&, int device, cuda::RowPlan&);
  // A kernel (CUfunction) that no signature names: `family` knows how to make the one called `key`.
  void* (&make_kernel)(int device, const char* family, const std::string& key);
  // --- libraries
  std::string (&lapack_library)();  // where the installer put it
};
extern __attribute__((visibility("default"))) const Hooks hooks;

}  // namespace flambeau
