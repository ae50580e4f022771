// Convolutions by cuDNN's backend interface: the operation is described, the library's heuristics name engines, and the
// first that the switches allow is kept. With the switch `benchmark` the first call times several and keeps the
// fastest.
#include <algorithm>
#include <limits>

#include "cudnn_graph.h"

namespace flambeau::cuda {
namespace {

using namespace cudnn;

// Milliseconds on a stream, between two events.
class Clock {
 public:
  explicit Clock(const LibrarySite& at) : at_(at), begin_(at.device), end_(at.device) {}
  // Of the second of two runs: the first may load the kernels.
  template <class F>
  float time(const F& run) const {
    run();
    record(begin_.event, at_.stream, at_.device);
    run();
    record(end_.event, at_.stream, at_.device);
    synchronize_event(end_.event);
    float took = 0;
    cuda::check(driver().event_elapsed(&took, begin_.event, end_.event), at_.op);
    return took;
  }

 private:
  struct Mark {
    const int device;
    const Event event;
    explicit Mark(int where) : device(where), event(new_event(where, true)) {}
    Mark(const Mark&) = delete;
    ~Mark() { drop_event(device, event, true); }
  };
  const LibrarySite& at_;
  const Mark begin_, end_;
};

// What is true while it lives.
class Turn {
 public:
  explicit Turn(bool& taken) : taken_(taken) { taken_ = true; }
  Turn(const Turn&) = delete;
  ~Turn() { taken_ = false; }

 private:
  bool& taken_;
};

class Convolution final : public LibraryCall {
 public:
  Convolution(int device, const Constants& c)
      : l_(library_of(c)), handle_(handle_of(l_, device, c.op)), op_(c.op), benchmark_(c.integer("benchmark") != 0) {
    if (!c.integer("tf32") && c.word("dtype") == "float32") forbidden_ = {kTensorCores, kDownConverts};
    if (c.integer("deterministic")) forbidden_.push_back(kNondeterministic);
    const size_t most = benchmark_ ? size_t(std::max<int64_t>(c.integer("benchmark_limit"), 1)) : 1;
    const char* what = "a convolution of these shapes and layouts";
    engines_ = engines_for(l_, handle_, op_, described(c), forbidden_, most, what);
    for (const Engine& e : engines_) workspace = std::max(workspace, e.workspace);
  }

  void run(const LibrarySite& at) override {
    static constexpr int64_t kIds[] = {1, 2, 3};
    void* const places[] = {at.pointer(0), at.pointer(1), at.pointer(2)};
    const Descriptor pack = packed(l_, op_, kIds, places, at.room());
    if (engines_.size() > 1 && !capturing(at.stream)) keep_fastest(at, pack);
    run_engine(engines_.front(), at, pack);
  }

 private:
  Library& l_;
  Handle* handle_;
  const char* op_;
  const bool benchmark_;
  std::vector<int> forbidden_;
  std::vector<Engine> engines_;
  bool choosing_ = false;  // some thread times the engines

  Descriptor tensor(const Constants& c, const std::string& name, int64_t id) const {
    return describe(l_, op_, form_of(c, name, type_of(c.word("dtype"), c), id));
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
  // The graph of the one operation.
  Descriptor described(const Constants& c) const {
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
    return graph_of(l_, handle_, op_, {&operation, 1});
  }
  void run_engine(const Engine& engine, const LibrarySite& at, const Descriptor& pack) const {
    check(l_, l_.set_stream(handle_, at.stream), op_, "cudnnSetStream");  // the handle is that of all streams
    execute(l_, handle_, op_, engine, pack);
  }
  // Other threads get the interpreter lock while an engine is waited for: they run the first engine, on streams of
  // their own, as long as the thread that came first looks at the others.
  void keep_fastest(const LibrarySite& at, const Descriptor& pack) {
    if (choosing_) return;
    const Turn turn(choosing_);
    const Clock clock(at);
    size_t best = 0;
    float least = std::numeric_limits<float>::infinity();
    for (size_t k = 0; k < engines_.size(); ++k) {
      const float took = clock.time([&] { run_engine(engines_[k], at, pack); });
      if (took < least) least = took, best = k;
    }
    std::swap(engines_[0], engines_[best]);
    engines_.erase(engines_.begin() + 1, engines_.end());
  }
};

}  // namespace

// Operands: x, w, y, of which `way` says which one is written: y ("forward"), x ("data") or w ("filter").
std::unique_ptr<LibraryCall> make_cudnn_convolution(int device, const Constants& constants) {
  return std::make_unique<Convolution>(device, constants);
}

}  // namespace flambeau::cuda
