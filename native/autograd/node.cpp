#include "node.h"

#include <cstring>
#include <limits>

#include "../core/free_list.h"

namespace flambeau {

namespace {

void destroy_node(void* n) { hooks.free_object(static_cast<Node*>(n)); }
FreeList<Node, offsetof(Node, payload)> free_nodes{"nodes", destroy_node};

// The slot is empty before anything is released: a release may run Python, which may look at this node again.
void drop(Saved& s) {
  Value value = std::exchange(s.value, Value());
  s.packed = false;
  switch (value.tag) {
    case Tag::Tensor: release(value.tensor); break;
    case Tag::Ints:
    case Tag::Bools: delete[] value.ints.data; break;
    case Tag::Floats: delete[] value.floats.data; break;
    case Tag::Str: delete[] value.str.data; break;
    case Tag::Tensors:
      for (int64_t k = 0; k < value.tensors.size; ++k)
        if (value.tensors.data[k]) release(value.tensors.data[k]);
      delete[] value.tensors.data;
      break;
    case Tag::Generator:
    case Tag::Object: release(static_cast<Object*>(value.object)); break;
    default: break;
  }
}

template <class T>
T* copied(const T* data, int64_t n) {
  T* p = new T[n > 0 ? n : 1];
  std::copy(data, data + n, p);
  return p;
}

}  // namespace

void set_meta(GradMeta& meta, const Tensor& t) {
  meta.dtype = t.dtype;
  meta.device = t.device;
  meta.ndim = t.ndim;
  meta.heap_sizes = t.ndim > kInlineDims ? new int64_t[t.ndim] : nullptr;
  std::copy(t.sizes, t.sizes + t.ndim, meta.heap_sizes ? meta.heap_sizes : meta.inline_sizes);
}

Node* blank_node(NodeKind kind, int64_t nouts, int64_t nedges, int nsaved) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (nouts > kMost || nedges > kMost)
    runtime_error("autograd records at most ", kMost, " inputs and results of one call, got ", nedges, " inputs and ",
                  nouts, " results");
  Node* n = free_nodes.take();
  if (n) n->refcount = 1;
  else n = hooks.allocate_node_object();
  static_assert((offsetof(Node, inline_edges) - sizeof(Object)) % 8 == 0);
  blank_words(reinterpret_cast<char*>(n) + sizeof(Object), offsetof(Node, inline_edges) - sizeof(Object));
  n->kind = kind;
  n->edges = n->inline_edges;
  n->saved = n->inline_saved;
  NodeRef hold = NodeRef::steal(n);
  if (nedges > 3) n->edges = new Edge[size_t(nedges)];
  n->nedges = int32_t(nedges);
  for (int k = 0; k < nedges; ++k) n->edges[k] = Edge{};
  if (nsaved > 5) n->saved = new Saved[size_t(nsaved)];
  n->nsaved = nsaved;
  for (int k = 0; k < nsaved; ++k) n->saved[k] = Saved{};
  n->nouts = 1;
  if (nouts > 1) set_outputs(*n, nouts);
  hooks.track_object(n);
  return hold.detach();
}

void set_outputs(Node& n, int64_t nouts) {
  if (nouts > 1) n.more_meta = new GradMeta[size_t(nouts - 1)];
  n.nouts = int32_t(nouts);
}

void number_node(Node& n) {
  n.sequence = process.next_node++;
  n.lane = tls.lane;
#ifdef FLAMBEAU_SANITIZE
  for (int k = 0; k < n.nedges; ++k) {
    const Edge& e = n.edges[k];
    if (e.target && !e.leaf && e.node()->sequence >= n.sequence)
      runtime_error("autograd: ", node_name(n), " has an edge to ", node_name(*e.node()),
                    ", which is newer: an error of flambeau's own");
  }
#endif
}

// A node that saved no tensor has nothing to free, and may run again.
void release_saved(Node& n) {
  for (int k = 0; k < n.nsaved; ++k) {
    Saved& s = n.saved[k];
    if (s.value.tag != Tag::Tensor && s.value.tag != Tag::Tensors && !s.packed) continue;
    n.released = true;
    drop(s);
  }
}

void graph_was_freed(const Node& n) {
  runtime_error(
      node_name(n),
      ": what this node saved for its derivative is gone: a backward pass over the graph frees it. To run a second "
      "time (or to read saved tensors afterwards), pass retain_graph=True to the first backward() or grad()");
}

void clear_node(Node* n) {
  n->released = true;
  for (int k = 0; k < n->nsaved; ++k) drop(n->saved[k]);
  for (int k = 0; k < n->nedges; ++k) drop_edge(n->edges[k]);
}

void recycle_node(Node* n) {
  if (n->edges != n->inline_edges) delete[] n->edges;
  if (n->saved != n->inline_saved) delete[] n->saved;
  delete[] n->meta.heap_sizes;
  for (int k = 0; k + 1 < n->nouts; ++k) delete[] n->more_meta[k].heap_sizes;
  delete[] n->more_meta;
  free_nodes.give(n);
}

// Versions only grow, so their sum tells whether any has changed.
uint64_t versions_of(const Value& list) {
  uint64_t sum = 0;
  for (int64_t k = 0; k < list.tensors.size; ++k)
    if (const Tensor* t = list.tensors.data[k]; t && t->storage) sum += t->storage->version;
  return sum;
}

void check_list(Node& n, Saved& s) {
  if (versions_of(s.value) != s.version)
    runtime_error(node_name(n), ": one of a list of ", s.value.tensors.size, " tensors saved for backward has been "
                  "changed in place since, so the gradient would be wrong. Write the change out of place (x = x + y), "
                  "or clone() the tensor before it");
}

void save_value(Node& n, int slot, const Value& v) {
  Saved& s = n.saved[slot];
  if (v.tag == Tag::Tensor && v.tensor->flags & kInference)
    runtime_error("a tensor made under inference_mode cannot be saved for backward; clone() it first");
  if (__builtin_expect(tls.packing, 0) && (v.tag == Tag::Tensor || v.tag == Tag::Tensors))
    return hooks.pack_saved(n, s, v);
  Value own = v;  // the node's only when it is whole: a copy may find no memory
  switch (v.tag) {
    case Tag::Tensor:
      retain(v.tensor);
      s.version = v.tensor->storage ? v.tensor->storage->version : 0;
      break;
    case Tag::Ints:
    case Tag::Bools: own.ints.data = copied(v.ints.data, v.ints.size); break;
    case Tag::Floats: own.floats.data = copied(v.floats.data, v.floats.size); break;
    case Tag::Str: own.str.data = copied(v.str.data, v.str.size); break;
    case Tag::Tensors:
      own.tensors.data = copied(v.tensors.data, v.tensors.size);
      s.version = versions_of(v);
      for (int64_t k = 0; k < v.tensors.size; ++k)
        if (v.tensors.data[k]) retain(v.tensors.data[k]);
      break;
    case Tag::Generator:
    case Tag::Object: retain(static_cast<Object*>(v.object)); break;
    default: break;
  }
  s.value = own;
}

void save_meta(Node& n, int slot, const Value& v) {
  Saved& s = n.saved[slot];
  if (v.tag == Tag::Tensor) {
    s.dtype = v.tensor->dtype;
    save_value(n, slot, Value(v.tensor->shape()));
  } else if (v.tag == Tag::Tensors) {  // one flat list: (ndim, sizes…) of each
    std::vector<int64_t> flat;
    for (int64_t k = 0; k < v.tensors.size; ++k) {
      Dims shape = v.tensors.data[k] ? v.tensors.data[k]->shape() : Dims{};
      flat.push_back(int64_t(shape.size()));
      flat.insert(flat.end(), shape.begin(), shape.end());
      if (v.tensors.data[k]) s.dtype = v.tensors.data[k]->dtype;
    }
    save_value(n, slot, Value(Dims(flat)));
  }
}

void save_geometry(Node& n, int slot, const Tensor& t) {
  std::vector<int64_t> all(t.sizes, t.sizes + t.ndim);
  all.insert(all.end(), t.strides, t.strides + t.ndim);
  all.push_back(t.offset());
  save_value(n, slot, Value(Dims(all)));
}

void save_result(Node& n, int slot, Tensor& result, uint32_t output_nr) {
  Saved& s = n.saved[slot];
  s.own_result = true;
  s.output_nr = output_nr;
  s.version = result.storage ? result.storage->version : 0;
  if (__builtin_expect(tls.packing, 0)) return hooks.pack_saved(n, s, Value(&result));
  s.value = Value(alias(result).detach());
}

std::string node_name(const Node& n) {
  switch (n.kind) {
    case NodeKind::Rules: return n.op->grad_name;
    case NodeKind::CopySlices: return "CopySlices";
    case NodeKind::Accumulate: return "AccumulateGrad";
    default: return hooks.function_name(n);
  }
}

TensorRef unpack_tensor(Node& n, Saved& s) {
  Tensor* t = s.value.tensor;
  uint64_t now = t->storage ? t->storage->version : 0;
  bool only_geometry = n.kind == NodeKind::Rules && n.op->kind == Kind::View;  // a view's rule never looks at values
  if (now != s.version && !only_geometry) {
    std::string made = s.own_result ? concat(", which is output ", s.output_nr, " of ", node_name(n), ",")
                       : t->grad_fn ? concat(", which is output ", t->output_nr, " of ", node_name(*t->grad_fn), ",")
                                    : "";
    runtime_error(node_name(n), ": [", dtype_name(t->dtype), " ", shape_text(t->shape()), "]", made, " was saved for "
                  "backward at version ", s.version, " and has been changed in place since (version ", now, "), so the "
                  "gradient would be wrong. Write the change out of place (x = x + y), or clone() the tensor before "
                  "it");
  }
  if (!s.own_result) return TensorRef::borrow(t);
  if (!tls.grad_enabled) return TensorRef::borrow(t);
  TensorRef fresh = alias(*t);  // with history, so that second derivatives see this node
  set_history(*fresh, &n, s.output_nr);
  return fresh;
}

bool tensor_requires_grad(const Tensor& t) {
  if (t.requires_grad()) return true;
  // a view made before its base got history through another view
  return t.base && t.base->grad_fn && !(t.flags & kNoGradView) && t.storage->version != t.view_version &&
         is_differentiable(t.dtype);
}

void set_history(Tensor& t, Node* node, uint32_t output_nr) {
  if (!t.grad_fn && !t.dict && !t.base && !t.grad) hooks.track_object(&t);
  retain(node);
  Node* old = std::exchange(t.grad_fn, node);
  if (old) release(old);
  t.output_nr = output_nr;
  t.flags &= ~kRequiresGrad;
  if (__builtin_expect(t.flags & kRetainGrad, 0)) hooks.retain_again(t);
}

void set_view(Tensor& view, Tensor& base) {
  view.flags |= base.flags & kInference;
  Tensor* root = base.base ? base.base : &base;
  if (&view == root) return;
  if (view.base) {  // made by a mode, where gradients are off, for this caller
    if (view.base == root && tls.grad_enabled && !(base.base && base.flags & kNoGradView)) view.flags &= ~kNoGradView;
    return;
  }
  hooks.track_object(&view);
  retain(root);
  view.base = root;
  view.view_version = view.storage ? view.storage->version : 0;
  if (!tls.grad_enabled || (base.base && (base.flags & kNoGradView))) view.flags |= kNoGradView;
}

Node* grad_fn_of(Tensor& t) {
  if (!t.base || !t.storage || t.view_version == t.storage->version || (t.flags & kNoGradView)) return t.grad_fn;
  if (!t.base->grad_fn || !is_differentiable(t.dtype) || real_of(t.dtype) != real_of(t.base->dtype)) return t.grad_fn;
  GradMode on(true);
  TensorRef again = seen_through(t, *t.base, 0, lazy_difference(t, *t.base));
  if (again->grad_fn) {
    set_history(t, again->grad_fn, again->output_nr);
    t.view_version = t.storage->version;
  }
  return t.grad_fn;
}

// One more edge, of a node that is being made: it will have the next number or a later one.
static void count_use(Tensor& leaf) {
  if (leaf.uses == 0) leaf.first_use = process.next_node;
  else if (leaf.uses == std::numeric_limits<uint32_t>::max())
    runtime_error("autograd: a leaf tensor is used by 2**32 - 1 inputs of recorded calls, and no more can be counted");
  ++leaf.uses;
}

void set_edge(Edge& edge, Tensor& t) {
  if (Node* fn = grad_fn_of(t)) {
    retain(fn);
    edge = Edge{fn, t.output_nr, false};
  } else if (t.flags & kRequiresGrad) {
    count_use(t);
    retain(&t);
    edge = Edge{&t, 0, true};
  }
}

NodeRef accumulate_node(Tensor& leaf) {
  if (!leaf.extra) leaf.extra = new TensorExtra;
  if (leaf.extra->accumulate) return NodeRef::borrow(leaf.extra->accumulate);
  NodeRef node = new_node(NodeKind::Accumulate, 1, 0, 0, [&](Node& n) {
    retain(&leaf);
    n.payload = &leaf;
  });
  set_meta(node->meta, leaf);
  node->sequence = UINT64_MAX;  // as soon as its gradient is complete
  leaf.extra->accumulate = node.get();
  return node;
}

void copy_edge(Edge& to, const Edge& from) {
  if (!from.target) return;
  if (from.leaf) count_use(*from.tensor());
  retain(from.target);
  to = from;
}

void drop_edge(Edge& edge) {
  Object* target = std::exchange(edge.target, nullptr);
  if (!target) return;
  if (edge.leaf) --static_cast<Tensor*>(target)->uses;
  release(target);
}

}  // namespace flambeau
