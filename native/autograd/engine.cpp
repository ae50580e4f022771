// Reverse pass: visit nodes newest first and hand each one's gradients on to its inputs.
//
// A node's number is larger than those of all nodes its edges lead to (new_node sees to that), so a heap by number is a
// topological order: when a node comes up, everything that could still add to its gradient has run. No dependency
// count, no pass over the graph. What a pass knows is in its own lists, nothing in nodes or tensors.
//
// A leaf's gradient is complete, and is handed over, once no node still to come leads to it, so that a hook may use and
// free it while the pass goes on. A leaf knows a bound: the oldest live node that uses it. That node may belong to an
// earlier graph (`loss` of the step before is still held). So where it matters, because a hook waits or many gradients
// do, the pass looks once at all nodes to come, and knows for each leaf its own oldest one.
//
// A node runs on the lane (core/device_table.h) that its operation ran on, leaves are handed over on the caller's.
// Gradients that come from another lane are waited for, and so is everything when the pass ends.
#include "pass.h"

namespace flambeau {

namespace {

OpHandle op_add{"add"}, op_isnan{"isnan"}, op_any{"any"};

thread_local std::unique_ptr<Lists> spare;  // memory of the pass before, empty

}  // namespace

TensorRef added(TensorRef a, TensorRef b) {
  if (!tls.grad_enabled && unshared(*a) && !(b->flags & kIndirect)) {
    Value args[3] = {Value(a.get()), Value(b.get()), Value(int64_t(1))};
    Call c;
    c.op = &op_add.get();
    c.args = args;
    c.nargs = int(c.op->schema.args.size());
    c.given = a.get();
    c.inplace = true;
    if (a->dtype == b->dtype) {
      execute(c);
      return a;
    }
  }
  return invoke(op_add, {Value(a.get()), Value(b.get())});
}

Pass::Pass(BackwardOptions o)
    : Lists(spare ? std::exchange(*spare, {}) : Lists()),
      options(o),
      number(++process.passes),
      outer(std::exchange(tls.pass, this)) {}

Pass::~Pass() {
  tls.pass = outer;
  enter_lane(home);
  for (Slot& s : slots)
    if (s.node) release(s.node);
  clear();
  constexpr size_t kKeep = 4096;
  if (slots.capacity() <= kKeep && leaves.capacity() <= kKeep && places.capacity() <= 2 * kKeep)
    (spare ? *spare : *(spare = std::make_unique<Lists>())) = std::move(static_cast<Lists&>(*this));
}

namespace {

void capture(Pass& pass, Object* target, uint32_t output_nr, const TensorRef& grad) {
  auto found = pass.captures.find(target);
  if (found == pass.captures.end()) return;
  for (auto [nr, which] : found->second)
    if (nr == output_nr) pass.captured[which] = grad;
}

// Tells a profiler where a node's work begins and ends.
struct ProfiledNode {
  Node* node;
  explicit ProfiledNode(Node* n) : node(process.profiling ? n : nullptr) {
    if (__builtin_expect(node != nullptr, 0)) hooks.profile_node(*node, true);
  }
  ~ProfiledNode() {
    if (__builtin_expect(node != nullptr, 0)) hooks.profile_node(*node, false);
  }
};

void check_nan(Node& node, TensorRef* out) {
  GradMode off(false);
  for (int k = 0; k < node.nedges; ++k) {
    if (!out[k] || out[k]->is_meta() || out[k]->level || !is_differentiable(out[k]->dtype)) continue;
    TensorRef found = invoke(op_isnan, {Value(out[k].get())});
    if (*invoke(op_any, {Value(found.get())})->ptr<bool>())
      runtime_error(node_name(node), ": gradient ", k, " contains NaN (looked for in anomaly mode)");
  }
}

// The leaf's gradient is complete: hooks, then `.grad`.
void finish_leaf(Pass& pass, uint32_t k) {
  LeafSlot s = std::exchange(pass.leaves[k], LeafSlot{});
  pass.places.erase(s.leaf.get());
  if (!s.grad) return;
  enter_lane(pass.home);
  if (__builtin_expect(s.lane != tls.lane, 0)) bring(s.lane, {&s.grad, 1});
  TensorExtra* extra = s.leaf->extra;
  NodeRef node = NodeRef::borrow(extra ? extra->accumulate : nullptr);  // a hook may drop it
  if (extra && extra->hooks) hooks.run_leaf_hooks(*s.leaf, s.grad);
  if (pass.limited) capture(pass, s.leaf.get(), 0, s.grad);
  if (!pass.options.accumulate || !s.leaf->requires_grad()) return;  // it may have stopped wanting one
  if (node && node->hooks) hooks.run_node_pre_hooks(*node, &s.grad);
  if (!s.grad) return;
  const bool watched = node && node->hooks;
  TensorRef given = watched && s.leaf->grad ? s.grad : TensorRef();  // a first gradient becomes .grad itself
  {
    NodeRef shown = process.profiling ? accumulate_node(*s.leaf) : NodeRef();
    ProfiledNode profiled(shown.get());
    accumulate_grad(*s.leaf, std::move(s.grad), pass.options.create_graph);
  }
  if (watched && !given) given = TensorRef::borrow(s.leaf->grad);
  if (s.leaf->extra && s.leaf->extra->accumulate_hooks) hooks.run_accumulate_hooks(*s.leaf);
  if (watched) hooks.run_node_post_hooks(*node, nullptr, &given);
}

// Finishes the leaves that no node still to come uses.
void finish_leaves(Pass& pass) {
  constexpr size_t kMany = 32;
  uint64_t next = pass.heap.empty() ? 0 : pass.heap.front().first;
  const bool late = next != 0 && pass.waiting.front().first <= next;
  if (late && !pass.ahead && (pass.hooked || pass.waiting.size() >= kMany)) look_ahead(pass);
  while (!pass.waiting.empty() && (next == 0 || pass.waiting.front().first > next)) {
    std::pop_heap(pass.waiting.begin(), pass.waiting.end());
    uint32_t k = ~pass.waiting.back().second;
    pass.waiting.pop_back();
    finish_leaf(pass, k);
  }
}

void run_node(Pass& pass, Node& node, TensorRef* grads) {
  constexpr int kInline = 8;
  TensorRef inline_out[kInline];
  bool inline_needs[kInline];
  std::vector<TensorRef> heap_out;
  std::unique_ptr<bool[]> heap_needs;
  TensorRef* out = inline_out;
  bool* needs = inline_needs;
  if (node.nedges > kInline) {
    heap_out.resize(size_t(node.nedges));
    heap_needs.reset(needs = new bool[size_t(node.nedges)]);
    out = heap_out.data();
  }
  if (node.released && node.kind != NodeKind::Accumulate) graph_was_freed(node);
  if (node.hooks) hooks.run_node_pre_hooks(node, grads);
  for (int k = 0; k < node.nedges; ++k) needs[k] = pass.wanted(node.edges[k]);
  {
    ProfiledNode profiled(&node);
    switch (node.kind) {
      case NodeKind::Rules: hooks.apply_rules(node, needs, grads, out); break;
      case NodeKind::CopySlices: copy_slices_backward(node, needs, grads, out); break;
      default: hooks.apply_function(node, needs, grads, out); break;
    }
  }
  if (__builtin_expect(process.anomaly_check, 0)) check_nan(node, out);
  if (node.hooks) hooks.run_node_post_hooks(node, out, grads);
  for (int k = 0; k < node.nedges; ++k) {
    const Edge& e = node.edges[k];
    if (!out[k] || !needs[k]) continue;
    if (e.leaf) {
      pass.arrive(e, fitted(std::move(out[k]), *e.tensor(), node, k));
    } else {
      pass.arrive(e, fitted(std::move(out[k]), e.node()->output_meta(e.output_nr), node, k));
    }
  }
  if (pass.options.keep_graph) return;
  release_saved(node);
  if (node.kind == NodeKind::Function) hooks.release_function(node);
  if (node.kind == NodeKind::CopySlices) release_saved(*static_cast<Slices*>(node.payload)->node);
}

}  // namespace

void queue_callback(Object* callback) {
  if (!tls.pass) runtime_error("queue_callback: called outside of a backward pass, whose end the callback waits "
                                   "for");
  Pass* outermost = tls.pass;
  while (outermost->outer) outermost = outermost->outer;
  outermost->callbacks.push_back(Ref<Object>::borrow(callback));
}

Node* running_node() { return tls.pass ? tls.pass->running : nullptr; }
bool pass_is_limited() { return tls.pass && tls.pass->limited; }
uint64_t current_pass_number() { return tls.pass ? tls.pass->number : 0; }

namespace {

// What the caller asked gradients of: which nodes lead there, and where to keep what arrives.
std::vector<NodeRef> aim(Pass& pass, std::span<const Target> roots, std::span<const Target> inputs) {
  std::vector<NodeRef> alive;
  pass.limited = !inputs.empty();
  pass.captured.resize(inputs.size());
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Target& t = inputs[k];
    Node* fn = t.node ? t.node : grad_fn_of(*t.tensor);
    if (!fn && !(t.tensor->flags & kRequiresGrad)) runtime_error("grad: input ", k, " does not require grad, so "
                                                                 "nothing depends on it");
    Object* target = fn ? static_cast<Object*>(fn) : t.tensor;
    if (fn) alive.push_back(NodeRef::borrow(fn));
    pass.captures[target].emplace_back(t.node ? t.output_nr : fn ? t.tensor->output_nr : 0, int(k));
  }
  if (pass.limited) find_leads(pass, roots);
  return alive;
}

void start(Pass& pass, std::span<const Target> roots, std::span<Tensor* const> grads) {
  for (size_t k = 0; k < roots.size(); ++k) {
    Edge e;
    if (roots[k].node) e = Edge{roots[k].node, roots[k].output_nr, false}, retain(e.target);
    else set_edge(e, *roots[k].tensor);
    struct Drop {
      Edge& e;
      ~Drop() { drop_edge(e); }
    } drop{e};
    if (!e.target) runtime_error("backward: output ", k, " does not require grad and has no grad_fn: no input of it "
                                 "has requires_grad=True, or it was computed under no_grad or detached");
    if (pass.limited && e.leaf && pass.captures.contains(e.target)) pass.leads[e.target] = true;
    if (!e.leaf) pass.roots.push_back(NodeRef::borrow(e.node()));
    if (pass.wanted(e)) pass.arrive(e, TensorRef::borrow(grads[k]));
  }
}

// The newest node that has a gradient, and those gradients.
NodeRef next_node(Pass& pass, TensorRef& one, std::vector<TensorRef>& many, uint32_t& lane) {
  std::pop_heap(pass.heap.begin(), pass.heap.end());
  uint32_t k = pass.heap.back().second;
  pass.heap.pop_back();
  Slot& s = pass.slots[k];
  NodeRef node = NodeRef::steal(std::exchange(s.node, nullptr));
  pass.places.erase(node.get());
  one = std::move(s.grad);
  lane = s.lane;
  if (node->nouts > 1) {
    many = std::move(s.more);
    many.resize(node->nouts - 1);
    many.insert(many.begin(), std::move(one));
  }
  s.more.clear();
  pass.free_slots.push_back(k);
  return node;
}

void visit(Pass& pass, Node& node, TensorRef* grads) {
  if (node.hooks) hooks.run_tensor_hooks(node, grads);
  if (pass.limited && pass.captures.contains(&node)) {
    for (int j = 0; j < node.nouts; ++j) capture(pass, &node, j, grads[j]);
    bool further = false;
    for (int j = 0; j < node.nedges; ++j) further |= pass.wanted(node.edges[j]);
    if (!further && !pass.options.accumulate) return;
  }
  run_node(pass, node, grads);
}

}  // namespace

Grads run_backward(std::span<const Target> roots, std::span<Tensor* const> root_grads, std::span<const Target> inputs,
                   BackwardOptions options) {
  Pass pass(options);
  GradMode mode(options.create_graph);
  std::vector<NodeRef> alive = aim(pass, roots, inputs);
  start(pass, roots, root_grads);
  while (!pass.heap.empty()) {
    TensorRef one;
    std::vector<TensorRef> many;
    uint32_t lane;
    NodeRef node = next_node(pass, one, many, lane);
    TensorRef* grads = node->nouts > 1 ? many.data() : &one;
    pass.running = node.get();
    try {
      if (__builtin_expect((node->lane ^ tls.lane) | (lane ^ tls.lane), 0)) pass.enter_lane_of(*node, lane, grads);
      visit(pass, *node, grads);
    } catch (...) {
      hooks.add_node_context(*node);
      throw;
    }
    pass.running = nullptr;
    if (!pass.waiting.empty()) finish_leaves(pass);
  }
  if (!pass.waiting.empty()) finish_leaves(pass);
  pass.come_home();
  for (size_t k = 0; k < pass.callbacks.size(); ++k) hooks.run_callback(pass.callbacks[k].get());
  return std::move(pass.captured);
}

}  // namespace flambeau
