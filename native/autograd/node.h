// Graph nodes: one recorded operation each, with the edges its gradients flow along and what its rules asked to keep.
#pragma once
#include "../core/op.h"

namespace flambeau {

// Shape and dtype a gradient must have: that of the result it belongs to.
struct GradMeta {
  DType dtype = DType::Undefined;
  Device device;
  uint8_t ndim = 0;
  int64_t inline_sizes[kInlineDims];
  int64_t* heap_sizes = nullptr;  // more than kInlineDims dimensions
  Dims shape() const { return {heap_sizes ? heap_sizes : inline_sizes, ndim}; }
};
void set_meta(GradMeta& meta, const Tensor& t);

// Where a gradient goes: output `output_nr` of a node, or a leaf tensor (its `grad`).
struct Edge {
  Object* target = nullptr;  // counted; null: no gradient wanted
  uint32_t output_nr = 0;
  bool leaf = false;
  Node* node() const { return reinterpret_cast<Node*>(target); }
  Tensor* tensor() const { return static_cast<Tensor*>(target); }
};

struct Saved {
  Value value;              // tensors are counted; lists are copied; `packed`: what bind/ made of them
  uint64_t version = 0;     // of the tensor's storage when it was saved
  uint32_t output_nr = 0;
  bool own_result = false;  // a result of this very node, kept as an alias without history (no reference cycle)
  DType dtype = DType::Undefined;  // save_meta: the argument's
  bool packed = false;      // a pack hook took the tensor (or list of tensors)
};

enum class NodeKind : uint8_t { Rules, CopySlices, Function, Accumulate };

struct Node : Object {
  void* dict;
  void* weakrefs;
  const OpDef* op;      // Rules
  uint64_t sequence;    // larger than those of the nodes its edges lead to: the order of the backward pass
  NodeKind kind;
  bool released;        // saved values are gone (after a backward without retain_graph)
  int32_t nouts;
  int32_t nedges;
  int32_t nsaved;
  Edge* edges;          // set while the node is made, see new_node
  Saved* saved;         // Rules: [arguments…, results…]
  void* hooks;          // bind/: Python hooks
  void* payload;        // Function: the Python context; CopySlices: see rebase_history; Accumulate: the leaf
  GradMeta meta;        // of output 0
  GradMeta* more_meta;  // of outputs 1…
  void* code;           // bind/: where in the user's program the operation was called: code object and instruction
  int32_t instruction;
  uint32_t lane;        // on which the operation ran: what it saved belongs there, so its derivative runs there too
  void* scope;          // the modules it was called inside (bind/origin.h)
  Edge inline_edges[3];
  Saved inline_saved[5];

  const GradMeta& output_meta(uint32_t k) const { return k == 0 ? meta : more_meta[k - 1]; }
};
using NodeRef = Ref<Node>;

struct TensorExtra {
  void* hooks = nullptr;             // bind/: Python hooks of a leaf
  void* accumulate_hooks = nullptr;  // bind/: post-accumulate hooks
  Node* accumulate = nullptr;        // the AccumulateGrad node, while anybody knows it …
  bool owns_accumulate = false;      // … counted once it has hooks
};

Node* blank_node(NodeKind kind, int64_t nouts, int64_t nedges, int nsaved);  // without edges and without a number
void number_node(Node&);
// `set_edges(node)` fills the edges. It may make other nodes (a view whose base was written to gets a new one), so a
// node takes its number after it: every edge leads to an older node, and the engine needs nothing else for its order.
template <class SetEdges>
NodeRef new_node(NodeKind kind, int64_t nouts, int64_t nedges, int nsaved, SetEdges&& set_edges) {
  NodeRef node = NodeRef::steal(blank_node(kind, nouts, nedges, nsaved));
  set_edges(*node);
  number_node(*node);
  return node;
}
void set_outputs(Node&, int64_t nouts);      // how many results the node has, when it was made before they were known
[[noreturn]] void graph_was_freed(const Node&);  // throws: a pass needs saved values that an earlier one has freed
void release_saved(Node&);                   // frees saved values; edges stay
void clear_node(Node*);                      // drops everything it holds
void recycle_node(Node*);
// While saved-tensor hooks are active on this thread (tls.packing), these hand tensors to hooks.pack_saved.
void save_value(Node&, int slot, const Value&);
// Only shape and dtype of a tensor argument (or of a list of them): keeps no memory.
void save_meta(Node&, int slot, const Value&);
void save_geometry(Node&, int slot, const Tensor&);  // sizes, strides, offset
void save_result(Node&, int slot, Tensor& result, uint32_t output_nr);
// The saved tensor, checked for in-place modification.
TensorRef unpack_tensor(Node&, Saved&);
// Throws when a tensor of a saved list was modified in place.
void check_list(Node&, Saved&);
uint64_t versions_of(const Value& list);
std::string node_name(const Node&);

// --- grad mode (of this thread) -------------------------------------------------------------------------------------
struct GradMode {
  bool before;
  explicit GradMode(bool on) : before(std::exchange(tls.grad_enabled, on)) {}
  ~GradMode() { tls.grad_enabled = before; }
};

bool tensor_requires_grad(const Tensor& t);
// The node of a non-leaf tensor (made anew for a view whose base was written to); null for a leaf. Borrowed.
Node* grad_fn_of(Tensor& t);
void set_edge(Edge& edge, Tensor& t);  // edge, of the node being made, to where t's gradient goes
void copy_edge(Edge& to, const Edge& from);
void drop_edge(Edge& edge);
void set_history(Tensor& t, Node* node, uint32_t output_nr);
void check_inplace(const char* op, Tensor& self, bool records);
void rebase_history(Tensor& self, NodeRef node);  // after an in-place write recorded in `node`
void set_view(Tensor& view, Tensor& base);
void bump_version(Tensor& t);
void assign(Tensor& self, Tensor& value);         // self.copy_(value), recorded

// --- engine ---------------------------------------------------------------------------------------------------------
using Grads = std::vector<TensorRef>;
struct BackwardOptions {
  bool keep_graph = false;
  bool create_graph = false;
  bool accumulate = true;  // into .grad of the leaves; otherwise the gradients of `inputs` are returned
};
// A place in the graph that the caller names: a tensor, or an output of a node without its tensor. Borrowed.
struct Target {
  Tensor* tensor = nullptr;
  Node* node = nullptr;  // when there is no tensor
  uint32_t output_nr = 0;
  Target(Tensor* t) : tensor(t) {}
  Target(Node* n, uint32_t nr) : node(n), output_nr(nr) {
    if (n->kind == NodeKind::Accumulate) *this = Target(static_cast<Tensor*>(n->payload));
  }
  bool requires_grad() const { return node || tensor_requires_grad(*tensor); }
  Dims shape() const { return node ? node->output_meta(output_nr).shape() : tensor->shape(); }
};
// Gradients of `inputs` (empty unless given); without inputs all leaves accumulate.
Grads run_backward(std::span<const Target> roots, std::span<Tensor* const> root_grads, std::span<const Target> inputs,
                   BackwardOptions options);
// Calls `callback` when the backward pass that this thread is in has ended.
void queue_callback(Object* callback);
Node* running_node();            // of the pass this thread is in: whose rule runs; null: none
bool pass_is_limited();          // gradients of given inputs only
uint64_t current_pass_number();  // of the pass this thread is in; 0: none
// Whether gradients flow to each of these places in the pass that this thread is in.
std::vector<bool> pass_reaches(std::span<const Target> targets);
// The payload of a CopySlices node: a write through a view, as seen from the base.
struct Slices {
  TensorRef view, base;  // aliases without history, for their geometry
  NodeRef node;          // the node of the write itself
  int written;           // its edge that belongs to the view; -1: none
};
// The view's elements in `whole`, whose element 0 of the storage is the base's element `origin`. A view may see complex
// numbers as pairs of real ones, or pairs as complex numbers. `lazy`: flags in which the view and its base differ.
TensorRef seen_through(const Tensor& view, Tensor& whole, int64_t origin, unsigned lazy);
inline unsigned lazy_difference(const Tensor& view, const Tensor& base) { return (view.flags ^ base.flags) & kLazy; }
void copy_slices_backward(Node&, const bool* needs, TensorRef* grads, TensorRef* out);
void free_copy_slices(Node&);
void accumulate_grad(Tensor& leaf, TensorRef grad, bool create_graph);
// The leaf's place in the graph as a node, one for all who ask while one of them holds it; borrowed for the moment.
NodeRef accumulate_node(Tensor& leaf);

}  // namespace flambeau
