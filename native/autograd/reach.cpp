// Which nodes and leaves of the graph a pass can reach: looked at ahead of it, depth first, without recursion.
#include <unordered_set>

#include "pass.h"

namespace flambeau {

void find_leads(Pass& pass, std::span<const Target> roots) {
  struct Frame {
    Node* node;
    int edge;
    bool leads;
  };
  std::vector<Frame> stack;
  auto visit = [&](Node* n) {
    if (pass.leads.contains(n)) return;
    pass.leads[n] = pass.captures.contains(n);
    stack.push_back({n, 0, false});
  };
  for (const Target& root : roots)
    if (Node* fn = root.node ? root.node : grad_fn_of(*root.tensor)) {
      visit(fn);
      while (!stack.empty()) {
        Frame& f = stack.back();
        if (f.edge == f.node->nedges) {
          Frame done = f;
          stack.pop_back();
          if (done.leads) pass.leads[done.node] = true;
          if (!stack.empty() && pass.leads[done.node]) stack.back().leads = true;
          continue;
        }
        const Edge& e = f.node->edges[f.edge++];
        if (!e.target) continue;
        if (e.leaf) {
          if (pass.captures.contains(e.target)) pass.leads[e.target] = true, f.leads = true;
        } else if (auto known = pass.leads.find(e.target); known != pass.leads.end()) {
          f.leads |= known->second;
        } else {
          visit(e.node());
        }
      }
    }
}

void look_ahead(Pass& pass) {
  pass.ahead = std::make_unique<Ahead>();
  auto& [seen, oldest] = *pass.ahead;
  std::vector<Node*> stack;
  auto visit = [&](Node* n) {
    if (seen.find(n) != Places::kNone) return;
    seen.insert(n, 0);
    stack.push_back(n);
  };
  for (const auto& [number, slot] : pass.heap) visit(pass.slots[slot].node);
  while (!stack.empty()) {
    Node* n = stack.back();
    stack.pop_back();
    for (int k = 0; k < n->nedges; ++k) {
      const Edge& e = n->edges[k];
      if (!pass.wanted(e)) continue;
      if (!e.leaf) {
        visit(e.node());
      } else if (uint32_t place = seen.find(e.target); place != Places::kNone) {
        oldest[place] = std::min(oldest[place], n->sequence);
      } else {
        seen.insert(e.target, uint32_t(oldest.size()));
        oldest.push_back(n->sequence);
      }
    }
  }
  for (auto& [first, leaf] : pass.waiting) first = pass.ahead->of(*pass.leaves[~leaf].leaf);
  std::make_heap(pass.waiting.begin(), pass.waiting.end());
}

std::vector<bool> pass_reaches(std::span<const Target> targets) {
  std::vector<bool> found(targets.size());
  if (!tls.pass) return found;
  std::unordered_set<Object*> seen;
  std::vector<Node*> stack;
  auto visit = [&](Node* n) {
    if (seen.insert(n).second) stack.push_back(n);
  };
  for (const NodeRef& root : tls.pass->roots) visit(root.get());
  while (!stack.empty()) {
    Node* n = stack.back();
    stack.pop_back();
    for (int k = 0; k < n->nedges; ++k) {
      const Edge& e = n->edges[k];
      if (!tls.pass->wanted(e)) continue;
      if (e.leaf) seen.insert(e.target);
      else visit(e.node());
    }
  }
  for (size_t k = 0; k < targets.size(); ++k)
    found[k] = seen.contains(targets[k].node ? static_cast<Object*>(targets[k].node) : targets[k].tensor);
  return found;
}

}  // namespace flambeau
