#include "cudnn_graph.h"

#include <algorithm>

namespace flambeau::cuda::cudnn {
namespace {

constexpr int kHeuristicModes[] = {3, 2};  // A, and what always works

std::vector<Descriptor> configs(Library& l, const char* op, const Descriptor& graph, int mode) {
  Descriptor heuristics(l, kHeuristics, op);
  heuristics.set(201, graph);
  heuristics.set(200, kTypeHeuristic, mode);
  if (heuristics.try_finish() != 0) return {};
  int64_t count = 0;
  check(l, l.desc_get(heuristics.get(), 202, kTypeDescriptor, 0, &count, nullptr), op, "cudnnBackendGetAttribute");
  std::vector<Descriptor> found;
  std::vector<Desc> places;
  for (int64_t k = 0; k < count; ++k) {
    found.emplace_back(l, kConfig, op);
    places.push_back(found.back().get());
  }
  check(l, l.desc_get(heuristics.get(), 202, kTypeDescriptor, count, &count, places.data()), op,
        "cudnnBackendGetAttribute");
  found.erase(found.begin() + std::min<int64_t>(count, int64_t(found.size())), found.end());
  return found;
}
bool allowed(Library& l, const char* op, const Descriptor& config, const std::vector<int>& forbidden) {
  if (forbidden.empty()) return true;
  const Descriptor engine(l, kEngine, op);
  Desc place = engine.get();
  int64_t count = 0;
  int notes[kNotes];
  check(l, l.desc_get(config.get(), 300, kTypeDescriptor, 1, &count, &place), op, "cudnnBackendGetAttribute");
  check(l, l.desc_get(place, 1303, kTypeNote, kNotes, &count, notes), op, "cudnnBackendGetAttribute");
  return std::none_of(notes, notes + std::min<int64_t>(count, kNotes),
                      [&](int note) { return std::ranges::find(forbidden, note) != forbidden.end(); });
}

}  // namespace

Descriptor describe(Library& l, const char* op, const TensorForm& t) {
  Descriptor d(l, kTensor, op);
  d.set(901, kTypeDType, t.type);
  d.set(902, t.sizes);
  d.set(903, t.strides);
  d.set(906, kTypeInt64, t.id);
  d.set(900, kTypeInt64, t.alignment);
  if (t.between) d.set(907, kTypeBool, true);
  if (t.is_number) d.set(908, kTypeBool, true);
  d.finish();
  return d;
}

TensorForm form_of(const Constants& c, const std::string& name, int type, int64_t id) {
  return {type, c.list(name), c.list(name + "_strides"), id, c.integer(name + "_alignment")};
}

Descriptor graph_of(Library& l, Handle* handle, const char* op, std::span<const Descriptor> operations) {
  std::vector<Desc> places;
  for (const Descriptor& o : operations) places.push_back(o.get());
  Descriptor graph(l, kGraph, op);
  graph.set(800, kTypeHandle, handle);
  graph.set(801, kTypeDescriptor, int64_t(places.size()), places.data());
  graph.finish();
  return graph;
}

size_t Operations::between(const std::vector<int64_t>& sizes, int type) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t d = sizes.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * sizes[d];
  return between(sizes, strides, type);
}
size_t Operations::between(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, int type) {
  return tensor({type, sizes, strides, kFirstBetween + int64_t(tensors_.size()), 16, true, false});
}
void Operations::multiply(size_t a, size_t b, size_t c) {
  Descriptor mode(l_, kProductMode, op_), operation(l_, kProduct, op_);
  mode.set(1500, kTypeDType, int(kFloat));
  mode.finish();
  operation.set(1520, tensors_[a]);
  operation.set(1521, tensors_[b]);
  operation.set(1522, tensors_[c]);
  operation.set(1523, mode);
  operation.finish();
  operations_.push_back(std::move(operation));
}
void Operations::pointwise(Mode kind, size_t y, size_t x, size_t b, size_t t, int computes, int64_t axis) {
  Descriptor mode(l_, kPointwiseMode, op_), operation(l_, kPointwise, op_);
  mode.set(0, kTypePointwise, int(kind));
  mode.set(1, kTypeDType, computes);
  if (axis >= 0) mode.set(9, kTypeInt64, axis);
  mode.finish();
  operation.set(750, mode);
  operation.set(751, tensors_[x]);
  if (b != kNone) operation.set(752, tensors_[b]);
  operation.set(753, tensors_[y]);
  if (t != kNone) operation.set(758, tensors_[t]);
  operation.finish();
  operations_.push_back(std::move(operation));
}
void Operations::fold(Fold kind, size_t y, size_t x) {
  Descriptor mode(l_, kReductionMode, op_), operation(l_, kReduction, op_);
  mode.set(1600, kTypeReduction, int(kind));
  mode.set(1601, kTypeDType, int(kFloat));
  mode.finish();
  operation.set(1610, tensors_[x]);
  operation.set(1611, tensors_[y]);
  operation.set(1612, mode);
  operation.finish();
  operations_.push_back(std::move(operation));
}
void Operations::view(size_t y, size_t x) {
  Descriptor operation(l_, kReshape, op_);
  operation.set(2200, tensors_[x]);
  operation.set(2201, tensors_[y]);
  operation.finish();
  operations_.push_back(std::move(operation));
}

std::vector<Engine> engines_for(Library& l, Handle* handle, const char* op, const Descriptor& graph,
                                const std::vector<int>& forbidden, size_t most, const char* what) {
  std::vector<Engine> found;
  Status last = 0;
  for (int mode : kHeuristicModes)
    for (const Descriptor& config : configs(l, op, graph, mode)) {
      if (found.size() >= most) return found;
      if (!allowed(l, op, config, forbidden)) continue;
      Descriptor plan(l, kPlan, op);
      plan.set(400, kTypeHandle, handle);
      plan.set(401, config);
      if (Status s = plan.try_finish(); s != 0) {
        last = unsupported(s) ? last : s;
        continue;
      }
      int64_t nbytes = 0, count = 0;
      check(l, l.desc_get(plan.get(), 402, kTypeInt64, 1, &count, &nbytes), op, "cudnnBackendGetAttribute");
      found.push_back({std::move(plan), size_t(nbytes)});
    }
  if (!found.empty()) return found;
  check(l, last, op, "cudnnBackendFinalize");
  throw Unsupported(concat(op, ": cuDNN has no engine for ", what));
}

Descriptor packed(Library& l, const char* op, std::span<const int64_t> ids, void* const* places, void* room) {
  Descriptor pack(l, kPack, op);
  pack.set(1000, kTypeInt64, int64_t(ids.size()), ids.data());
  pack.set(1001, kTypePointer, int64_t(ids.size()), places);
  pack.set(1003, kTypePointer, room);
  pack.finish();
  return pack;
}

}  // namespace flambeau::cuda::cudnn
