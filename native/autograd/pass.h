// What one reverse pass knows: the nodes that wait with their gradients, newest first, the leaves, and what was asked
// for.
//
// engine.cpp runs it, reach.cpp looks at the graph ahead of it, fit.cpp gives gradients the shape that is expected.
#pragma once
#include <algorithm>
#include <memory>
#include <unordered_map>

#include "../core/device_table.h"
#include "node.h"
#include "places.h"

namespace flambeau {

struct Slot {
  Node* node = nullptr;  // counted
  TensorRef grad;        // of output 0
  std::vector<TensorRef> more;
  uint32_t lane = 0;     // that the gradients so far are ready on
};

struct LeafSlot {
  TensorRef leaf, grad;
  uint32_t lane = 0;
};

inline void enter_lane(uint32_t lane) {
  if (__builtin_expect(lane != tls.lane, 0)) lanes.enter(lane);
}
// Makes gradients that are ready on `lane` ready on the current one, which is going to work on them.
inline void bring(uint32_t& lane, std::span<const TensorRef> grads) {
  lanes.follow(std::exchange(lane, tls.lane));
  for (const TensorRef& g : grads)
    if (g) lanes.use(*g);
}

TensorRef added(TensorRef a, TensorRef b);  // their sum, in place where nobody else sees a's memory

struct Lists {
  std::vector<Slot> slots;
  std::vector<uint32_t> free_slots;
  std::vector<std::pair<uint64_t, uint32_t>> heap;  // (sequence, slot), largest first
  std::vector<LeafSlot> leaves;
  std::vector<std::pair<uint64_t, uint32_t>>
      waiting;  // heap of (first use, leaf): leaves whose gradient may still grow
  std::vector<NodeRef> roots;
  Places places;  // of nodes in `slots`, of leaves in `leaves`
  void clear() {
    slots.clear(), free_slots.clear(), heap.clear(), leaves.clear(), waiting.clear(), roots.clear(), places.clear();
  }
};

// The nodes to come at one moment of a pass, and for each leaf the oldest of them that leads to it.
struct Ahead {
  Places seen;  // nodes, and leaves, whose places are in `oldest`
  std::vector<uint64_t> oldest;
  uint64_t of(const Tensor& leaf) const {
    uint32_t k = seen.find(&leaf);
    return k == Places::kNone ? UINT64_MAX : oldest[k];
  }
};

struct Pass : Lists {
  BackwardOptions options;
  std::vector<Ref<Object>> callbacks;
  uint64_t number;
  const uint32_t home = tls.lane;       // the caller's lane …
  std::vector<uint32_t> visited_lanes;  // … and those that nodes ran on beside it
  Node* running = nullptr;
  Pass* outer;  // the pass of this thread that called into this one
  // With `inputs`: only nodes that lead to one of them run, and gradients arriving at them are kept.
  bool limited = false;
  bool hooked = false;  // a leaf that waits has hooks
  std::unique_ptr<Ahead> ahead;  // once it was looked for
  std::unordered_map<Object*, bool> leads;
  std::unordered_map<Object*, std::vector<std::pair<uint32_t, int>>> captures;  // target -> (output, which input)
  Grads captured;

  explicit Pass(BackwardOptions options);
  ~Pass();
  Pass(const Pass&) = delete;

  uint32_t slot_of(Node* node) {
    uint32_t k = places.find(node);
    if (k != Places::kNone) return k;
    if (free_slots.empty()) {
      k = uint32_t(slots.size());
      slots.emplace_back();
    } else {
      k = free_slots.back();
      free_slots.pop_back();
    }
    retain(node);
    slots[k].node = node;
    slots[k].lane = tls.lane;
    places.insert(node, k);
    heap.emplace_back(node->sequence, k);
    std::push_heap(heap.begin(), heap.end());
    return k;
  }

  LeafSlot& leaf_of(Tensor* t) {
    uint32_t k = places.find(t);
    if (k != Places::kNone) return leaves[k];
    k = uint32_t(leaves.size());
    places.insert(t, k);
    waiting.emplace_back(ahead ? ahead->of(*t) : t->first_use, ~k);  // of one first use the first input comes first
    std::push_heap(waiting.begin(), waiting.end());
    if (t->extra) hooked = true;
    leaves.push_back({TensorRef::borrow(t), {}, tls.lane});
    return leaves.back();
  }

  void arrive(const Edge& edge, TensorRef grad) {
    if (edge.leaf) {
      LeafSlot& s = leaf_of(edge.tensor());
      if (__builtin_expect(s.lane != tls.lane, 0)) bring(s.lane, {&s.grad, 1});
      return add_to(s.grad, std::move(grad));
    }
    Slot& s = slots[slot_of(edge.node())];
    if (__builtin_expect(s.lane != tls.lane, 0)) {
      bring(s.lane, s.more);
      if (s.grad) lanes.use(*s.grad);
    }
    if (edge.output_nr == 0) return add_to(s.grad, std::move(grad));
    if (s.more.size() < edge.output_nr) s.more.resize(edge.output_nr);
    add_to(s.more[edge.output_nr - 1], std::move(grad));
  }
  static void add_to(TensorRef& place, TensorRef grad) {
    place = place ? added(std::move(place), std::move(grad)) : std::move(grad);
  }

  // The node's lane becomes current, and its gradients, which are ready on `lane`, are brought there.
  void enter_lane_of(const Node& node, uint32_t lane, TensorRef* grads) {
    if (node.lane != tls.lane && lanes.enter(node.lane) && std::ranges::find(visited_lanes, node.lane) ==
                                                                visited_lanes.end())
      visited_lanes.push_back(node.lane);
    if (lane != tls.lane) bring(lane, {grads, size_t(node.nouts)});
  }
  // Back on the caller's lane, for which all that the pass has done comes before what it does now.
  void come_home() {
    enter_lane(home);
    for (uint32_t lane : visited_lanes)
      if (lane != home) lanes.follow(lane);
    if (!visited_lanes.empty())
      for (const TensorRef& g : captured)
        if (g) lanes.use(*g);
  }

  bool wanted(const Edge& e) {
    if (!e.target) return false;
    if (!limited) return true;
    auto found = leads.find(e.target);
    return found != leads.end() && found->second;
  }
};

// Which nodes lead to one of the captures, for `pass.leads`.
void find_leads(Pass& pass, std::span<const Target> roots);
// Finds for each leaf that waits the oldest node to come that leads to it, for `pass.ahead`.
void look_ahead(Pass& pass);

inline bool same_shape(Dims a, Dims b) { return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin()); }

// The gradient in the shape and dtype and on the device of what it is the gradient of; broadcast dimensions are summed.
TensorRef fitted(TensorRef g, Dims shape, DType dtype, Device device, Node& from, int which);
template <class Of>  // a tensor or a node's output
TensorRef fitted(TensorRef g, const Of& of, Node& from, int which) {
  if (g->dtype == of.dtype && g->device == of.device && same_shape(g->shape(), of.shape())) return g;
  return fitted(std::move(g), of.shape(), of.dtype, of.device, from, which);
}

}  // namespace flambeau
