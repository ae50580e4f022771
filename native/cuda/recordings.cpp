// Compiled programs as recorded graphs (`compile(mode="reduce-overhead")`): what a plan does for one set of sizes,
// numbers and layouts is recorded when it comes for the second time, and launched as a whole from then on.
//
// Memory from outside that lay at the same address both times (parameters, running statistics) is used where it lies.
// All other is copied to a place of the recording before the launch, and back after it if the program writes there.
// Results are copied out, since the next launch writes over them; so nobody ever sees a result change.
#include <algorithm>
#include <map>

#include "../core/call.h"
#include "../core/generator.h"
#include "../runtime/constants.h"
#include "graphs.h"
#include "plan.h"

namespace flambeau::cuda {
namespace {

constexpr size_t kMost = 64;      // recordings of a plan
constexpr int kRelaxed = 2;       // while a graph is recorded, modules may be loaded and memory asked for
constexpr int64_t kAligned = 16;  // regions begin at a multiple of this many bytes

// Memory from outside that a program uses, in bytes from where the storage's begins.
struct Region {
  int slot;
  int64_t begin, end;
  bool written;
  Address address(const Program& p) const {
    return reinterpret_cast<Address>(p.slots[size_t(slot)].storage->data) + Address(begin);
  }
};

std::vector<Region> regions_of(const Program& p) {
  std::vector<Region> all;
  for (const Use& u : p.uses) {
    const ProgramSlot& s = p.slots[size_t(u.slot)];
    if (s.made_by >= 0) continue;
    int64_t low = u.offset, high = u.offset + 1;
    for (int d = 0; d < u.ndim; ++d) {
      const int64_t reach = (u.sizes()[d] - 1) * u.strides()[d];
      (reach < 0 ? low : high) += reach;
      if (!u.sizes()[d]) high = low;
    }
    const int64_t item = item_size(u.dtype), begin = low * item / kAligned * kAligned, end = std::max(low, high) * item;
    auto known = std::ranges::find(all, u.slot, &Region::slot);
    if (known == all.end()) all.push_back({u.slot, begin, end, s.written});
    else known->begin = std::min(known->begin, begin), known->end = std::max(known->end, end);
  }
  return all;
}

// All that decides what the plan launches, beside the program's key and the addresses of its memory.
std::vector<uint64_t> words_of(const Program& p, const std::vector<Region>& regions, int device) {
  std::vector<uint64_t> words{uint64_t(device), reinterpret_cast<uint64_t>(current_stream(device))};
  for (const Entry& e : p.entries)
    for (int k = 0; k < e.nargs; ++k) add_words(words, e.args[k]);
  for (const Use& u : p.uses) {
    auto region = std::ranges::find(regions, u.slot, &Region::slot);
    words.push_back(uint64_t(u.offset * item_size(u.dtype) - (region == regions.end() ? 0 : region->begin)));
    words.insert(words.end(), u.dims, u.dims + 2 * u.ndim);
  }
  for (const Region& r : regions) words.push_back(uint64_t(r.end - r.begin));
  return words;
}

// Graphs that are launched on one stream follow each other, so that they share the memory of what lives in between:
// they are recorded on one stream, whose blocks they are.
struct Side {
  Stream stream = nullptr;
  uint64_t pool = 0;
};
Side& side_of(int device) {
  static auto& sides = *new std::map<std::pair<int, Stream>, Side>;  // under the interpreter lock
  Side& side = sides[{device, current_stream(device)}];
  if (!side.stream) side = {pooled_stream(device, 0), new_pool()};
  return side;
}

struct Recording {
  std::vector<uint64_t> words;
  std::vector<Address> addresses;    // of the regions, as recorded
  std::vector<TensorRef> places;     // of regions that move; null: used where they lie
  std::vector<TensorRef> results, constants;
  Recorded graph;
  bool recorded = false, busy = false;
  std::string why_not;
  ~Recording() { forget(); }

  void forget() {
    recorded = false;
    results.clear();
    constants.clear();
    drop_graph(graph);
  }
};

// While one lives, regions that move are where the recording has its place for them.
class Moved {
 public:
  Moved(Program& p, const std::vector<Region>& regions, const Recording& r) : p_(p) {
    for (size_t k = 0; k < regions.size(); ++k) {
      if (!r.places[k]) continue;
      const int slot = regions[k].slot;
      before_.emplace_back(slot, std::exchange(p.slots[size_t(slot)].storage, r.places[k]->storage));
      for (Use& u : p.uses)
        if (u.slot == slot) shift(u, -regions[k].begin);
      begins_.push_back(regions[k].begin);
    }
  }
  ~Moved() {
    for (size_t k = 0; k < before_.size(); ++k) {
      p_.slots[size_t(before_[k].first)].storage = before_[k].second;
      for (Use& u : p_.uses)
        if (u.slot == before_[k].first) shift(u, begins_[k]);
    }
  }
  Moved(const Moved&) = delete;

 private:
  Program& p_;
  std::vector<std::pair<int, Storage*>> before_;
  std::vector<int64_t> begins_;
  static void shift(Use& u, int64_t bytes) { u.offset += bytes / item_size(u.dtype); }
};

struct OnStream {
  int device;
  Stream before = current_stream(device);
  OnStream(int device, Stream stream) : device(device) { set_current_stream(device, stream); }
  ~OnStream() { set_current_stream(device, before); }
};

class CudaRecordings final : public Recordings {
 public:
  bool run(Plan& plan, Program& p) override;
  std::string text() const override { return text_; }

 private:
  std::vector<std::shared_ptr<Recording>> kept_;  // the one used last first; another thread may let one go that runs
  std::string text_ = "is recorded as a CUDA graph when it comes for the second time";

  bool not_now(std::string why) {
    text_ = "is not recorded as a CUDA graph: " + std::move(why);
    return false;
  }
  std::shared_ptr<Recording> find(std::vector<uint64_t> words, const Program& p, const std::vector<Region>& regions);
  bool record(Recording& r, Plan& plan, Program& p, const std::vector<Region>& regions, int device);
};

// The program's device; -1, and why no graph can be made of it, where it does not have one.
int device_of(const Program& p, std::string& why) {
  int device = -1;
  for (const Use& u : p.uses) {
    if (u.device.type != DeviceType::CUDA) why = concat("it works on ", device_name(u.device), " too");
    else if (device >= 0 && index_of(u.device) != device) why = "it works on several devices";
    else device = index_of(u.device);
    if (!why.empty()) return -1;
  }
  return device;
}

// Null where these words come for the first time.
std::shared_ptr<Recording> CudaRecordings::find(std::vector<uint64_t> words, const Program& p,
                                                const std::vector<Region>& regions) {
  auto known = std::ranges::find_if(kept_, [&](const auto& r) { return r->words == words; });
  if (known != kept_.end()) {
    std::rotate(kept_.begin(), known, known + 1);
    return kept_.front();
  }
  auto made = std::make_shared<Recording>();
  made->words = std::move(words);
  for (const Region& r : regions) made->addresses.push_back(r.address(p));
  made->places.resize(regions.size());
  kept_.insert(kept_.begin(), std::move(made));
  if (kept_.size() > kMost) kept_.pop_back();
  return nullptr;
}

// The end of a recording that has failed fails too.
void forget_failed(Recording& r) {
  try {
    r.forget();
  } catch (const Error&) {
    r.forget();
  }
}

bool CudaRecordings::record(Recording& r, Plan& plan, Program& p, const std::vector<Region>& regions, int device) {
  r.forget();
  try {
    Moved moved(p, regions, r);
    const Side& side = side_of(device);
    begin_graph(r.graph, device, side.stream, side.pool, kRelaxed);
    {
      OnStream on(device, side.stream);
      r.results = plan.record(p, r.constants);
    }
    end_graph(r.graph, false);
    return r.recorded = true;
  } catch (const Error& e) {
    r.why_not = e.text;
    forget_failed(r);
    if (e.kind == ErrorKind::Python) throw;  // an interrupt
  }
  return false;
}

// Copies between the regions that move and their places.
void copy_regions(const Recording& r, const Program& p, const std::vector<Region>& regions, int device, bool back) {
  for (size_t k = 0; k < regions.size(); ++k) {
    if (!r.places[k] || (back && !regions[k].written)) continue;
    const Address place = reinterpret_cast<Address>(r.places[k]->data), own = regions[k].address(p);
    check(driver().copy_on_device(back ? own : place, back ? place : own, size_t(regions[k].end - regions[k].begin),
                                  current_stream(device)),
          "cuda.graph");
  }
}

void hand_out_results(const Recording& r, const Plan& plan, const Program& p) {
  for (size_t k = 0; k < r.results.size(); ++k) {
    const int slot = plan.results[k].slot;
    const Use& u = p.made_as(slot);
    TensorRef fresh = empty_strided(u.sizes(), u.strides(), u.dtype, u.device);
    copy_into(*fresh, *r.results[k]);
    hand_out(p, slot, std::move(fresh));
  }
}

bool CudaRecordings::run(Plan& plan, Program& p) {
  std::string why;
  const int device = device_of(p, why);
  if (device < 0) return not_now(std::move(why));
  if (any_capture()) return not_now("another recording goes on");
  use_device(device);
  const std::vector<Region> regions = regions_of(p);
  const std::shared_ptr<Recording> r = find(words_of(p, regions, device), p, regions);
  if (!r || r->busy) return false;
  if (!r->why_not.empty()) return not_now(r->why_not);
  bool fits = r->recorded;
  for (size_t k = 0; k < regions.size(); ++k) {
    const int64_t bytes = regions[k].end - regions[k].begin, one = 1;
    if (r->places[k] || r->addresses[k] == regions[k].address(p)) continue;
    r->places[k] = empty_strided({&bytes, 1}, {&one, 1}, DType::UInt8, device_at(device));
    fits = false;
  }
  struct Busy {
    Recording& r;
    explicit Busy(Recording& r) : r(r) { r.busy = true; }
    ~Busy() { r.busy = false; }
  } busy(*r);
  if (!fits && !record(*r, plan, p, regions, device)) return not_now(r->why_not);
  text_ = "is recorded as a CUDA graph";
  copy_regions(*r, p, regions, device, false);
  replay_graph(r->graph);
  copy_regions(*r, p, regions, device, true);
  hand_out_results(*r, plan, p);
  return true;
}

const bool added = (device_recordings[int(DeviceType::CUDA)] = []() -> std::unique_ptr<Recordings> {
  return std::make_unique<CudaRecordings>();
}, true);

}  // namespace
}  // namespace flambeau::cuda
