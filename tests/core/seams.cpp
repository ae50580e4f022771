// Users of the core's seams, built by the tests against its public headers: a device that counts what is asked of it, a
// recorder that puts calls off until somebody looks, and a layout of its own for weights. Called through ctypes with the
// interpreter lock held.
#include <algorithm>
#include <deque>

#include "core/device_table.h"
#include "core/recording.h"

using namespace flambeau;

// --- a device: host memory behind its own doors ----------------------------------------------------------------------

namespace {

struct Counts {
  int64_t kernels, pointwise, own_kernels, allocations, frees, copies, fills;
} counts;

const DeviceTable& cpu = devices[int(DeviceType::CPU)];

void* allocate(size_t nbytes, Device, size_t* capacity) {
  ++counts.allocations;
  return cpu.allocate(nbytes, {}, capacity);
}
void give_back(void* block, size_t capacity) {
  ++counts.frees;
  cpu.free(block, capacity);
}
void copy(Tensor& dst, const Tensor& src) {
  ++counts.copies;
  copy_on_cpu(dst, src);
}
void fill_here(Tensor& dst, const Scalar& value) {
  ++counts.fills;
  fill_on_cpu(dst, value);
}
void run_pointwise(Call& c, Pointwise& worked_out) {
  ++counts.pointwise;
  cpu.pointwise(c, worked_out);
}
void run_kernel(Call& c) {
  ++counts.kernels;
  compute(c, *c.op->row, Device{});
}
void own_sum(Call& c) {  // one operator has a row for this device
  ++counts.own_kernels;
  compute(c, *c.op->row, Device{});
}

const bool added = (devices[int(DeviceType::PrivateUse1)] = {"counting", allocate, give_back, copy, fill_here,
                                                             run_pointwise, run_kernel},
                    true);
const Kernels rows(DeviceType::PrivateUse1, {{"sum", own_sum}});

}  // namespace

extern "C" FLAMBEAU_API const int64_t* seams_counts() { return &counts.kernels; }

// --- a recorder --------------------------------------------------------------------------------------------------------

namespace {

struct Book;

// The place of one call in the book; the storages that wait for its results keep it.
struct Entry {
  Book* book;
  KeptCall call;
  Entry(Book* book, const Call& c) : book(book), call(c) {}
};

struct Result final : Pending {
  std::shared_ptr<Entry> entry;
  Storage* storage;
  Result(std::shared_ptr<Entry> entry, Storage* storage) : entry(std::move(entry)), storage(storage) {}
  ~Result() override { entry->call.forget(*storage); }
  void make(Storage&) override;
};

struct Book final : Recorder {
  std::deque<std::shared_ptr<Entry>> open;  // in the order of the program
  int64_t recorded = 0, ran = 0, dropped = 0;

  bool take(Call& c) override {
    if (!can_wait(c)) return false;
    describe(c);
    auto entry = std::make_shared<Entry>(this, c);
    if (!entry->call.fresh_results()) return true;  // views: nothing is left to do
    ++recorded;
    open.push_back(entry);
    entry->call.for_each_fresh(
        [](void* e, Storage& s) {
          attach(s, std::make_unique<Result>(*static_cast<std::shared_ptr<Entry>*>(e), &s));
        },
        &entry);
    return true;
  }
  void before_write(const Tensor& t) override {
    for (size_t k = open.size(); k-- > 0;)
      if (open[k]->call.reads(*t.storage)) return run_until(std::shared_ptr(open[k]).get());
  }
  void run_until(const Entry* last) {  // all that stand before it, so that values are those of the program's order
    while (!open.empty()) {
      std::shared_ptr<Entry> e = open.front();
      open.pop_front();
      if (e->call.fresh_results()) {
        run(*e, e.get() == last);
      } else {
        ++dropped;  // nobody has kept a result
      }
      if (e.get() == last) return;
    }
  }
  void run(Entry& e, bool wanted) {
    ++ran;
    try {
      e.call.run();
    } catch (const Error& error) {  // it is whose results are looked at that fails, as often as they are
      if (wanted || error.kind == ErrorKind::Python) throw;
    }
  }
} book;

void Result::make(Storage&) {
  std::shared_ptr<Entry> keep = entry;
  Book& book = *keep->book;
  if (std::ranges::find(book.open, keep) != book.open.end()) book.run_until(keep.get());
  else book.run(*keep, true);
}

}  // namespace

extern "C" FLAMBEAU_API void seams_record(int on) { exchange_recorder(on ? &book : nullptr); }
extern "C" FLAMBEAU_API const int64_t* seams_book() { return &book.recorded; }
extern "C" FLAMBEAU_API int seams_pending(Object* t) {
  const auto& x = *static_cast<Tensor*>(t);
  return x.flags & kPending && is_pending(*x.storage);
}

// --- an opaque layout: the rows of a matrix, four at a time, column by column ----------------------------------------

namespace {

constexpr int64_t kBlock = 4;
const char kBlocked = 0;  // its address names the layout
int64_t restored, read_blocked;

struct Blocked final : Pending {
  int64_t rows, columns;
  std::vector<float> values;  // [rows / 4, rounded up][columns][4]
  Blocked(const Tensor& t)
      : rows(t.size(0)), columns(t.size(1)), values(size_t((rows + kBlock - 1) / kBlock * kBlock * columns)) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) at(i, j) = t.ptr<float>()[i * columns + j];
  }
  float& at(int64_t i, int64_t j) { return values[size_t((i / kBlock * columns + j) * kBlock + i % kBlock)]; }
  const void* layout() const override { return &kBlocked; }
  void make(Storage& s) override {
    ++restored;
    const int64_t shape[] = {rows, columns};
    TensorRef plain = empty(shape, DType::Float32);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) plain->ptr<float>()[i * columns + j] = at(i, j);
    adopt(s, *plain->storage);
  }
};

// seams_blocked_mv(Tensor weight, Tensor vector): reads blocked weights as they are, plain ones too
void infer_blocked_mv(Call& c) {
  const Tensor& w = c.tensor(0);
  const int64_t n = w.size(0);
  c.output(Dims(&n, 1), w.dtype, w.device);
}
void cpu_blocked_mv(Call& c) {
  const Tensor &w = c.tensor(0), &x = c.tensor(1);
  const int64_t n = w.size(0), m = w.size(1);
  auto* blocked = static_cast<Blocked*>(pending_of(*w.storage));
  read_blocked += blocked != nullptr;
  for (int64_t i = 0; i < n; ++i) {
    float sum = 0;
    for (int64_t j = 0; j < m; ++j) sum += (blocked ? blocked->at(i, j) : w.ptr<float>()[i * m + j]) * x.ptr<float>()[j];
    c.out().ptr<float>()[i] = sum;
  }
}
bool reads_blocked(const Call& c, const Tensor& t) {
  Pending* p = &t == &c.tensor(0) ? pending_of(*t.storage) : nullptr;
  if (!p || p->layout() != &kBlocked || t.data != nullptr || !t.contiguous()) return false;
  const auto& blocked = static_cast<const Blocked&>(*p);
  return t.numel == blocked.rows * blocked.columns;
}

const Primitives layout_rows{{"seams_blocked_mv", infer_blocked_mv, cpu_blocked_mv, Infer::Pure, reads_blocked}};

}  // namespace

// A new tensor with the values of a contiguous float32 matrix, kept in blocks.
extern "C" FLAMBEAU_API Object* seams_block(Object* matrix) {
  const auto& t = *static_cast<Tensor*>(matrix);
  return pending_tensor(t.shape(), t.stride(), t.dtype, t.device, std::make_unique<Blocked>(t)).detach();
}
extern "C" FLAMBEAU_API int64_t seams_restored() { return restored; }
extern "C" FLAMBEAU_API int64_t seams_read_blocked() { return read_blocked; }
