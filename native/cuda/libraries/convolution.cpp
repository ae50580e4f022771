// Convolutions by cuDNN's backend interface: the operation is described, the library's heuristics name engines, and the
// first that the switches allow is kept. With the switch `benchmark` the first call times several and keeps the
// fastest.
#include <algorithm>
#include <limits>

#include "cudnn.h"

namespace flambeau::cuda {
namespace {

using namespace cudnn;

enum { kConvolution = 1, kEngine = 2, kConfig = 3, kHeuristics = 4, kPlan = 5, kForward = 10, kFilter = 11, kData = 12,
       kGraph = 15, kPack = 16, kTensor = 17 };
enum { kTypeHandle = 0, kTypeDType = 1, kTypeInt64 = 3, kTypeFloat = 4, kTypeDouble = 5, kTypePointer = 6,
       kTypeMode = 7, kTypeHeuristic = 8, kTypeNote = 11, kTypeDescriptor = 15 };
enum { kTensorCores = 0, kDownConverts = 1, kNondeterministic = 4, kNotes = 32 };
constexpr int kHeuristicModes[] = {3, 2};  // A, and what always works

struct Candidate {
  Descriptor plan;
  size_t workspace;
};

class Convolution final : public LibraryCall {
 public:
  Convolution(int device, const Constants& c)
      : l_(library_of(c)), handle_(handle_of(l_, device, c.op)), op_(c.op), benchmark_(c.integer("benchmark") != 0) {
    if (!c.integer("tf32") && c.word("dtype") == "float32") forbidden_ = {kTensorCores, kDownConverts};
    if (c.integer("deterministic")) forbidden_.push_back(kNondeterministic);
    find_plans(describe(c), benchmark_ ? size_t(std::max<int64_t>(c.integer("benchmark_limit"), 1)) : 1);
    for (const Candidate& k : candidates_) workspace = std::max(workspace, k.workspace);
  }

  void run(const LibrarySite& at) override {
    check(l_, l_.set_stream(handle_, at.stream), at.op, "cudnnSetStream");
    const Descriptor pack = packed(at);
    if (candidates_.size() > 1 && !capturing(at.stream)) keep_fastest(at, pack);
    execute(candidates_.front(), pack);
  }

 private:
  Library& l_;
  Handle* handle_;
  const char* op_;
  const bool benchmark_;
  std::vector<int> forbidden_;
  std::vector<Candidate> candidates_;

  Descriptor tensor(const Constants& c, const std::string& name, int64_t id) const {
    Descriptor d(l_, kTensor, op_);
    d.set(901, kTypeDType, type_of(c.word("dtype"), c));
    d.set(902, c.list(name));
    d.set(903, c.list(name + "_strides"));
    d.set(906, kTypeInt64, id);
    d.set(900, kTypeInt64, c.integer(name + "_alignment"));
    d.finish();
    return d;
  }
  Descriptor geometry(const Constants& c) const {
    Descriptor d(l_, kConvolution, op_);
    const int computes = c.word("dtype") == "float64" ? 1 : 0, correlation = 1;
    d.set(100, kTypeDType, computes);
    d.set(101, kTypeMode, correlation);
    d.set(102, c.list("dilation"));
    d.set(103, c.list("stride"));
    d.set(104, c.list("padding"));
    d.set(105, c.list("padding"));
    d.set(106, kTypeInt64, int64_t(c.list("stride").size()));
    d.finish();
    return d;
  }
  // The operation graph of one operation; its parts may go, it keeps what it needs.
  Descriptor describe(const Constants& c) const {
    const std::string& way = c.word("way");
    const int kind = way == "forward" ? kForward : way == "data" ? kData : kFilter;
    const int first = kind == kForward ? 700 : kind == kData ? 706 : 712;  // attributes: alpha, beta, conv, …
    const Descriptor x = tensor(c, "x", 1), w = tensor(c, "w", 2), y = tensor(c, "y", 3), conv = geometry(c);
    Descriptor operation(l_, kind, op_);
    if (c.word("dtype") == "float64") {
      operation.set(first, kTypeDouble, 1.0);
      operation.set(first + 1, kTypeDouble, 0.0);
    } else {
      operation.set(first, kTypeFloat, 1.0f);
      operation.set(first + 1, kTypeFloat, 0.0f);
    }
    operation.set(first + 2, conv);
    operation.set(first + 3, w);
    operation.set(first + 4, x);
    operation.set(first + 5, y);
    operation.finish();
    Descriptor graph(l_, kGraph, op_);
    graph.set(800, kTypeHandle, handle_);
    graph.set(801, operation);
    graph.finish();
    return graph;
  }
  std::vector<Descriptor> configs(const Descriptor& graph, int mode) const {
    Descriptor heuristics(l_, kHeuristics, op_);
    heuristics.set(201, graph);
    heuristics.set(200, kTypeHeuristic, mode);
    if (heuristics.try_finish() != 0) return {};
    int64_t count = 0;
    check(l_, l_.desc_get(heuristics.get(), 202, kTypeDescriptor, 0, &count, nullptr), op_, "cudnnBackendGetAttribute");
    std::vector<Descriptor> found;
    std::vector<Desc> places;
    for (int64_t k = 0; k < count; ++k) {
      found.emplace_back(l_, kConfig, op_);
      places.push_back(found.back().get());
    }
    check(l_, l_.desc_get(heuristics.get(), 202, kTypeDescriptor, count, &count, places.data()), op_,
          "cudnnBackendGetAttribute");
    found.erase(found.begin() + std::min<int64_t>(count, int64_t(found.size())), found.end());
    return found;
  }
  bool allowed(const Descriptor& config) const {
    if (forbidden_.empty()) return true;
    const Descriptor engine(l_, kEngine, op_);
    Desc place = engine.get();
    int64_t count = 0;
    int notes[kNotes];
    check(l_, l_.desc_get(config.get(), 300, kTypeDescriptor, 1, &count, &place), op_, "cudnnBackendGetAttribute");
    check(l_, l_.desc_get(place, 1303, kTypeNote, kNotes, &count, notes), op_, "cudnnBackendGetAttribute");
    return std::none_of(notes, notes + std::min<int64_t>(count, kNotes),
                        [&](int note) { return std::ranges::find(forbidden_, note) != forbidden_.end(); });
  }
  void find_plans(const Descriptor& graph, size_t most) {
    Status last = 0;
    for (int mode : kHeuristicModes)
      for (const Descriptor& config : configs(graph, mode)) {
        if (candidates_.size() >= most) return;
        if (!allowed(config)) continue;
        Descriptor plan(l_, kPlan, op_);
        plan.set(400, kTypeHandle, handle_);
        plan.set(401, config);
        if (Status s = plan.try_finish(); s != 0) {
          last = unsupported(s) ? last : s;
          continue;
        }
        int64_t nbytes = 0, count = 0;
        check(l_, l_.desc_get(plan.get(), 402, kTypeInt64, 1, &count, &nbytes), op_, "cudnnBackendGetAttribute");
        candidates_.push_back({std::move(plan), size_t(nbytes)});
      }
    if (!candidates_.empty()) return;
    check(l_, last, op_, "cudnnBackendFinalize");
    throw Unsupported(concat(op_, ": cuDNN has no engine for a convolution of these shapes and layouts"));
  }

  Descriptor packed(const LibrarySite& at) const {
    Descriptor pack(l_, kPack, op_);
    const int64_t ids[] = {1, 2, 3};
    void *places[] = {at.pointer(0), at.pointer(1), at.pointer(2)}, *room = at.room();
    pack.set(1000, kTypeInt64, 3, ids);
    pack.set(1001, kTypePointer, 3, places);
    pack.set(1003, kTypePointer, room);
    pack.finish();
    return pack;
  }
  void execute(const Candidate& k, const Descriptor& pack) const {
    check(l_, l_.execute(handle_, k.plan.get(), pack.get()), op_, "cudnnBackendExecute");
  }
  // Each twice, the second time between two events.
  void keep_fastest(const LibrarySite& at, const Descriptor& pack) {
    const Event begin = new_event(at.device, true), end = new_event(at.device, true);
    size_t best = 0;
    float least = std::numeric_limits<float>::infinity();
    for (size_t k = 0; k < candidates_.size(); ++k) {
      execute(candidates_[k], pack);
      record(begin, at.stream, at.device);
      execute(candidates_[k], pack);
      record(end, at.stream, at.device);
      synchronize_event(end);
      float took = 0;
      cuda::check(driver().event_elapsed(&took, begin, end), op_);
      if (took < least) least = took, best = k;
    }
    drop_event(at.device, begin, true);
    drop_event(at.device, end, true);
    std::swap(candidates_[0], candidates_[best]);
    candidates_.erase(candidates_.begin() + 1, candidates_.end());
  }
};

}  // namespace

// Operands: x, w, y, of which `way` says which one is written: y ("forward"), x ("data") or w ("filter").
std::unique_ptr<LibraryCall> make_cudnn_convolution(int device, const Constants& constants) {
  return std::make_unique<Convolution>(device, constants);
}

}  // namespace flambeau::cuda
