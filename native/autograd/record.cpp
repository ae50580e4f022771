// Running an operator under autograd: decide whether to record, run, and make the node.
#include <algorithm>

#include "../core/images.h"
#include "../core/memory_format.h"
#include "../core/stamp.h"
#include "node.h"

namespace flambeau {
namespace {

// Which differentiable arguments want a gradient: bit k for argument k.
uint64_t wanted_arguments(const Call& c) {
  uint64_t wanted = 0;
  for (uint64_t bits = c.op->differentiable; bits; bits &= bits - 1) {
    int k = __builtin_ctzll(bits);
    const Value& v = c.args[k];
    if (v.tag == Tag::Tensor) {
      if (tensor_requires_grad(*v.tensor)) wanted |= uint64_t(1) << k;
    } else if (v.tag == Tag::Tensors) {
      for (int64_t j = 0; j < v.tensors.size; ++j)
        if (v.tensors.data[j] && tensor_requires_grad(*v.tensors.data[j])) wanted |= uint64_t(1) << k;
    }
  }
  return wanted;
}

// A call is recorded at its level. What is below is constant to it: the operation that runs below records that.
uint64_t wanted_at_level(const Call& c, uint64_t wanted) {
  int level = level_of(c);
  if (level == 0) return wanted;
  for (uint64_t bits = wanted; bits; bits &= bits - 1) {
    int k = __builtin_ctzll(bits);
    const Value& v = c.args[k];
    bool here = v.tag == Tag::Tensor && v.tensor->level == level;
    if (v.tag == Tag::Tensors)
      for (int64_t j = 0; j < v.tensors.size; ++j)
        here |= v.tensors.data[j] && v.tensors.data[j]->level == level && tensor_requires_grad(*v.tensors.data[j]);
    if (!here) wanted &= ~(uint64_t(1) << k);
  }
  return wanted;
}

constexpr int kMaxAssign = 8;

int64_t edge_count(const Value& v) { return v.tag == Tag::Tensors ? v.tensors.size : 1; }

bool rule_wanted(const Rule& rule, uint64_t wanted) { return rule.input_mask & wanted; }

// Edges in the order of the rules' inputs.
inline void set_edges(const Call& c, uint64_t wanted, Edge* edge) {
  int level = __builtin_expect(tls.active_levels, 0) ? level_of(c) : 0;
  for (const Rule& rule : c.op->rules)
    for (uint8_t k : rule.inputs) {
      const Value& v = c.args[k];
      if (v.tag == Tag::Tensor) {
        if (wanted >> k & 1) set_edge(*edge, *v.tensor);
        ++edge;
      } else if (v.tag == Tag::Tensors) {
        for (int64_t j = 0; j < v.tensors.size; ++j, ++edge)
          if (v.tensors.data[j] && tensor_requires_grad(*v.tensors.data[j]) &&
              (!level || v.tensors.data[j]->level == level))
            set_edge(*edge, *v.tensors.data[j]);
      } else {
        ++edge;
      }
    }
}

// A node with its edges, and the arguments that the wanted rules ask for; results are saved after the run.
NodeRef make_node(const Call& c, uint64_t wanted, const Value* saved_self) {
  const OpDef& op = *c.op;
  int64_t nedges = 0;
  int nargs = int(op.schema.args.size());
  for (const Rule& rule : op.rules)
    for (uint8_t k : rule.inputs) nedges += edge_count(c.args[k]);
  uint64_t save = 0, meta = 0, geometry = 0;
  for (size_t r = 0; r < op.rules.size(); ++r)
    if (rule_wanted(op.rules[r], wanted)) {
      save |= op.saves_arg[r];
      meta |= op.rules[r].meta_args;
      geometry |= op.rules[r].geometry_args;
    }
  NodeRef node = new_node(NodeKind::Rules, 1, nedges, nargs + op.schema.nresults, [&](Node& n) {
    n.op = &op;
    set_edges(c, wanted, n.edges);
  });
  hooks.note_origin(*node);
  for (int k = 0; k < nargs; ++k) {
    if (save >> k & 1) save_value(*node, k, k == 0 && saved_self ? *saved_self : c.args[k]);
    else if (meta >> k & 1) save_meta(*node, k, c.args[k]);
    else if (geometry >> k & 1) save_geometry(*node, k, *c.args[k].tensor);
  }
  return node;
}

void attach_results(Call& c, Node& node, uint64_t wanted) {
  const OpDef& op = *c.op;
  int nargs = int(op.schema.args.size()), nouts = c.nout();
  set_outputs(node, nouts);
  uint64_t save = 0;
  for (size_t r = 0; r < op.rules.size(); ++r)
    if (rule_wanted(op.rules[r], wanted)) save |= op.saves_result[r];
  for (int k = 0; k < nouts; ++k) {
    Tensor& t = c.out(k);
    set_meta(k == 0 ? node.meta : node.more_meta[k - 1], t);
    if (!c.inplace && is_differentiable(t.dtype)) set_history(t, &node, k);
    if (k < op.schema.nresults && (save >> k & 1)) save_result(node, nargs + k, t, k);
  }
  if (__builtin_expect(process.watch_creation, 0)) hooks.node_created(node);
}

void mark_views(Call& c) {
  if (c.args[0].tag != Tag::Tensor) return;
  Tensor& base = *c.args[0].tensor;
  for (int k = 0; k < c.nout(); ++k) {
    if (is_differentiable(base.dtype) && !is_differentiable(c.out(k).dtype)) continue;  // writes to it have no slope
    if (c.out(k).storage == base.storage && c.out(k).level == base.level) set_view(c.out(k), base);
  }
}

// Memory made in inference mode never enters a graph; views of other memory keep what that memory is.
void mark_inference(Call& c) {
  for (int k = 0; k < c.nout(); ++k)
    if (c.out(k).storage && c.out(k).storage->refcount == 1) c.out(k).flags |= kInference;
}

}  // namespace

void bump_version(Tensor& t) {
  if (t.storage) count_write(*t.storage);
}

// The operator as errors name it, in place.
static std::string written(std::string op) { return op.ends_with('_') ? op : op + '_'; }

void check_inplace(const char* op, Tensor& self, bool records) {
  if (self.storage && self.storage->readonly)
    runtime_error(written(op), ": the tensor's memory is read-only (it came from a read-only NumPy array); clone() it "
                  "first");
  if (self.flags & kInference && !tls.inference_enabled)
    runtime_error(written(op), ": this tensor was made under inference_mode and can be changed only there; clone() it "
                  "first");
  if (__builtin_expect(tls.watch_writes, 0)) hooks.before_write(self);
  if (!tls.grad_enabled) return;
  if (self.flags & kRequiresGrad && !self.grad_fn)
    runtime_error(written(op), ": this tensor is a leaf that requires grad, and a change in place would lose its value "
                  "for the gradient. Write inside `with flambeau.no_grad():`, or use the out-of-place form");
  const bool of_view = self.base && self.grad_fn && !tensor_requires_grad(*self.base);  // the leaf is a view itself
  if (self.base && !self.base->grad_fn && !(self.flags & kNoGradView) && (of_view || self.base->flags & kRequiresGrad))
    runtime_error(written(op), ": this tensor is a view of a leaf that requires grad, and a change in place would lose "
                  "its value for the gradient. Write inside `with flambeau.no_grad():`, or on a clone");
  if (self.flags & kNoGradView && self.base && (records || self.base->flags & kRequiresGrad))
    runtime_error(written(op), ": this view was made under no_grad, so a change with gradients on would be unknown to "
                  "its base. Make the view where gradients are on, or write under no_grad");
}

void free_copy_slices(Node& node) { delete static_cast<Slices*>(node.payload); }

// Which edge of `node` belongs to the tensor it wrote to; -1: none, what was there before is gone.
static int written_edge(const Node& node, const Tensor& self) {
  if (node.kind == NodeKind::Rules) {
    const auto& inputs = node.op->rules[0].inputs;
    for (size_t k = 0; k < inputs.size(); ++k)
      if (inputs[k] == 0) return int(k);
    return -1;
  }
  for (int k = 0; k < node.nedges; ++k) {
    const Edge& e = node.edges[k];
    if (e.target == self.grad_fn && e.target && e.output_nr == self.output_nr) return k;
  }
  return -1;
}

void rebase_history(Tensor& self, NodeRef node) {
  if (!self.base) return set_history(self, node.get(), 0);
  // A write through a view: the base's new history is its old one with this slice replaced.
  Tensor& base = *self.base;
  int written = written_edge(*node, self);
  NodeRef slices = new_node(NodeKind::CopySlices, 1, int64_t(node->nedges) + (written < 0), 0, [&](Node& n) {
    if (tensor_requires_grad(base)) set_edge(n.edges[0], base);
    for (int k = 0, at = 1; k < node->nedges; ++k)
      if (k != written) copy_edge(n.edges[at++], node->edges[k]);
  });
  set_meta(slices->meta, base);
  slices->payload = new Slices{alias(self), alias(base), node, written};
  set_history(base, slices.get(), 0);
  self.view_version = self.storage->version - 1;  // stale: its own node is made from the base's when it is asked for
  grad_fn_of(self);
}

void assign(Tensor& self, Tensor& value) {
  static OpHandle copy{"copy_"};
  Value args[kMaxAssign];
  Call c;
  c.op = &copy.get();
  c.nargs = int(c.op->schema.args.size());
  for (int k = 2; k < c.nargs; ++k) args[k] = c.op->schema.args[k].value;
  args[0] = Value(&self);
  args[1] = Value(&value);
  c.args = args;
  c.given = &self;
  c.inplace = true;
  run_op(c);
}

// squeeze_, transpose_ …: self takes the view's geometry; its memory stays as it is.
static void reshape_inplace(Call& c, uint64_t wanted) {
  Tensor& self = c.tensor(0);
  await_calls(self);
  check_inplace(c.name(), self, wanted != 0);
  NodeRef node = wanted ? make_node(c, wanted, nullptr) : NodeRef();
  execute(c);
  set_dims(self, c.out1->shape(), c.out1->stride());
  self.data = c.out1->data;
  c.out1 = TensorRef::borrow(&self);
  bump_version(self);
  if (!node) return;
  attach_results(c, *node, wanted);
  if (!self.base) return set_history(self, node.get(), 0);
  self.view_version = self.storage->version - 1;  // its node is made anew from the base's
  grad_fn_of(self);
}

// self before a write, kept for a rule: a copy at every level, which modes and programs hear of, tied to self's history
// below.
static TensorRef private_copy(Tensor& self) {
  static OpHandle clone{"clone"};
  return invoke(clone, {Value(&self)});
}

// The same without levels, which no graph hears of; it lies as self does.
static TensorRef dense_copy(const Tensor& self) {
  const std::vector<int64_t> strides = dense_strides(self);
  TensorRef copy = strides.empty() ? empty(self.shape(), self.dtype, self.device)
                                   : empty_strided(self.shape(), strides, self.dtype, self.device);
  copy_into(*copy, self);
  return copy;
}

// self as a rule will want it, where one does: a copy, since the write destroys it. Null: none does.
static TensorRef kept_self(const OpDef& op, Tensor& self, uint64_t wanted) {
  bool keeps_self = false;
  for (size_t r = 0; r < op.rules.size(); ++r)
    keeps_self |= rule_wanted(op.rules[r], wanted) && (op.saves_arg[r] & 1);
  if (!keeps_self) return {};
  TensorRef before = last_images(self) ? as_plain(copied_images(self)) : TensorRef();
  const bool modes = tls.user_modes && !tls.dispatch_disabled;
  const bool dispatches = self.level || self.flags & (kDispatch | kPending) || modes;
  if (!before) before = dispatches ? private_copy(self) : dense_copy(self);
  if (Node* history = grad_fn_of(self)) set_history(*before, history, self.output_nr);
  return before;
}

// Kernels that are not pointwise have made a result of their own: it goes into self.
static void write_result(Call& c, Tensor& self) {
  if (!c.out1) runtime_error(c.name(), "_: no result to write");
  if (!(c.out1->ndim == self.ndim && std::equal(self.sizes, self.sizes + self.ndim, c.out1->sizes)))
    runtime_error(c.name(), "_: the result has shape ", shape_text(c.out1->shape()), " but self ",
                  shape_text(self.shape()));
  if (category(c.out1->dtype) > category(self.dtype))
    runtime_error(c.name(), "_: the result is ", dtype_name(c.out1->dtype), ", which a tensor of ",
                  dtype_name(self.dtype), " cannot hold");
  copy_into(self, *c.out1);
}

static void run_inplace(Call& c, uint64_t wanted, const Arguments& arguments) {
  const OpDef& op = *c.op;
  Tensor& self = c.tensor(0);
  if (!is_differentiable(self.dtype)) wanted = 0;
  if (op.kind == Kind::View) return reshape_inplace(c, wanted);
  check_inplace(c.name(), self, wanted != 0);
  TensorRef before;
  NodeRef node;
  if (wanted) {
    before = kept_self(op, self, wanted);
    Value saved_self(before.get());
    node = make_node(c, wanted, before ? &saved_self : nullptr);
  }
  execute(c, arguments);
  if (!op.elementwise && !op.writes_self && c.out1.get() != &self) write_result(c, self);
  c.out1 = TensorRef::borrow(&self);
  bump_version(self);
  if (!node) return;
  attach_results(c, *node, wanted);
  rebase_history(self, std::move(node));
}

void run_op(Call& c) {
  const OpDef& op = *c.op;
  const Arguments arguments = look_at(c);
  uint64_t wanted = arguments.history && tls.grad_enabled && op.differentiable ? wanted_arguments(c) : 0;
  if (__builtin_expect(tls.inference_enabled, 0)) wanted = 0;  // enable_grad() inside changes nothing
  if (__builtin_expect(tls.active_levels, 0) && wanted) wanted = wanted_at_level(c, wanted);
  if (__builtin_expect(c.inplace, 0)) return run_inplace(c, wanted, arguments);
  execute(c, arguments);
  keep_format(c);
  if (c.args[0].tag == Tag::Tensor && c.out1.get() == c.args[0].tensor)
    return;  // nothing to do: contiguous() of a contiguous tensor
  if (op.kind == Kind::View) mark_views(c);
  if (__builtin_expect(tls.inference_enabled, 0)) mark_inference(c);
  if (!wanted) return;
  bool differentiable = false;
  for (int k = 0; k < c.nout(); ++k) differentiable |= is_differentiable(c.out(k).dtype);
  if (!differentiable) return;
  NodeRef node = make_node(c, wanted, nullptr);
  attach_results(c, *node, wanted);
}

}  // namespace flambeau
