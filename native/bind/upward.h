// The functions behind core/hooks.h, each defined in the file of its subject.
#pragma once
#include "../core/hooks.h"
#include "python.h"

namespace flambeau::upward {

// tensor_type.cpp
Tensor* allocate_object();
void release_object(Object*);
void track_object(Object*);
void free_object(Object*);
// node_type.cpp
Node* allocate_node_object();
std::string function_name(const Node&);
// generator_type.cpp
Generator* allocate_generator();
// dispatch.cpp
bool dispatch_override(Call&);
void call_python_kernel(Call&);
// op_type.cpp
void run_composite(Call&);
// levels.cpp
TensorRef alias_wrapper(const Tensor&);
// saved_hooks.cpp
void pack_saved(Node&, Saved&, const Value&);
// origin.cpp
void note_origin(Node&);
// autograd.cpp
void node_created(Node&);
void before_write(Tensor&);
void retain_again(Tensor&);
void add_node_context(Node&);
void run_callback(Object*);
// rules.cpp
void apply_rules(Node&, const bool* needs, TensorRef* grads, TensorRef* out);
void apply_function(Node&, const bool* needs, TensorRef* grads, TensorRef* out);
void release_function(Node&);
// hooks.cpp
void run_tensor_hooks(Node&, TensorRef* grads);
void run_node_pre_hooks(Node&, TensorRef* grads);
void run_node_post_hooks(Node&, TensorRef* out, TensorRef* grads);
void run_leaf_hooks(Tensor&, TensorRef& grad);
void run_accumulate_hooks(Tensor&);
// graph.cpp
Plan* plan_program(const Program&);
// cuda_plans.cpp
cuda::PointwisePlan plan_pointwise(const cuda::PointwiseKey&, const char* name);
void plan_row(const Call&, int device, cuda::RowPlan&);
void* make_kernel(int device, const char* family, const std::string& key);
// profile.cpp
void profile_node(Node&, bool begin);

}  // namespace flambeau::upward
