#include "loaded.h"

#include <algorithm>
#include <cstring>

#include "../core/lazy.h"
#include "../core/recording.h"
#include "../core/stamp.h"
#include "../runtime/literal.h"
#include "../runtime/plan_reader.h"
#include "../runtime/tracer.h"

namespace flambeau::programs {
namespace {

constexpr char kEntry[] = "native/program", kPlans[] = "native/plans", kMark[] = "FLAMBEAU";
constexpr int64_t kVersion = 1;

// The memory of a part of the archive, which stays as long as somebody uses it. Nobody else writes there, so what
// kernels make of weights can be kept.
Storage* shown_part(const std::shared_ptr<const Archive>& archive, std::span<char> part) {
  Storage* s = blank_storage();
  s->data = part.data();
  s->nbytes = part.size();
  s->context = new std::shared_ptr<const Archive>(archive);
  s->free = [](Storage* s) { delete static_cast<std::shared_ptr<const Archive>*>(s->context); };
  follow_writes(*s);
  return s;
}

constexpr size_t kMostSizes = 1024;
constexpr int64_t kSmall = 2048;  // numbers for each call, up to which writing it down costs more than it gains

std::vector<int64_t> words_of(std::span<const char> bytes) {
  std::vector<int64_t> words(bytes.size() / sizeof(int64_t));
  std::memcpy(words.data(), bytes.data(), words.size() * sizeof(int64_t));
  return words;
}

// What decides which plan fits, apart from the program: the sizes of its inputs, and how they lie.
std::vector<int64_t> sizes_of(const std::vector<TensorRef>& inputs) {
  std::vector<int64_t> sizes;
  for (const TensorRef& t : inputs) {
    sizes.insert(sizes.end(), t->sizes, t->sizes + t->ndim);
    sizes.insert(sizes.end(), t->strides, t->strides + t->ndim);
  }
  return sizes;
}

}  // namespace

// While one lives, this thread computes without gradients, and what it calls is written down as far as `way` says.
struct Loaded::Recording {
  Tracer tracer;
  const Loaded& program;
  bool missed = false;  // a plan
  bool grad = std::exchange(tls.grad_enabled, false);
  Recorder* before;
  Recording* outer = std::exchange(recording_, this);
  Recording(const Loaded& program, Way way) : program(program) {
    tracer.pointwise = way == Way::Together;
    tracer.anew = !program.archive_;
    tracer.marks = true;
    before = exchange_recorder(way == Way::AtOnce ? nullptr : &tracer);
  }
  ~Recording() {
    recording_ = outer;
    exchange_recorder(before);
    tls.grad_enabled = grad;
  }
  // How inputs that have been written down as a whole are run next time.
  Way next() const {
    if (tracer.numbers <= kSmall * tracer.calls) return Way::AtOnce;
    return missed ? Way::Together : Way::Whole;
  }
};
thread_local Loaded::Recording* Loaded::recording_ = nullptr;

Loaded::Loaded(const std::string& path) : archive_(std::make_shared<const Archive>(path)) {
  words_ = words_of(archive_->ending_in(kEntry));
  read(Words(words_, path.c_str()));
  const std::span<char> plans = archive_->ending_in(kPlans, true);
  const std::vector<int64_t> words = words_of(plans);
  if (!words.empty()) read_plans(Words(words, path.c_str()));
}

Loaded::Loaded(std::string_view words, const std::vector<TensorRef>& weights) : words_(words_of(words)) {
  for (const TensorRef& t : weights) weights_.emplace_back(t);
  read(Words(words_, "run_native"));
}

std::unique_ptr<Plan> Loaded::plan_for(const Program& p) {
  if (!recording_) return nullptr;
  for (const Kept& plan : recording_->program.plans_)
    if (plan.serves(p)) return read_plan(p, Words(plan.words, "a plan of the program"));
  recording_->missed = true;
  return nullptr;
}

bool Loaded::Kept::serves(const Program& p) const {
  if (key.size() != p.key.size() || sizes_at != p.sizes_at) return false;
  std::map<uint64_t, uint64_t> names;  // of a size there -> here
  auto size = sizes_at.begin();
  for (size_t k = 0; k < key.size(); ++k) {
    const bool named = size != sizes_at.end() && *size == int64_t(k);
    size += named;
    if (!named || key[k] < 2 || p.key[k] < 2) {
      if (key[k] != p.key[k]) return false;
    } else if (names.try_emplace(key[k], p.key[k]).first->second != p.key[k]) {
      return false;
    }
  }
  return true;
}

void Loaded::read_plans(Words words) {
  for (size_t n = words.count(); n-- > 0;) {
    const std::span<const int64_t> key = words.list(), sizes_at = words.list(), plan = words.list();
    plans_.push_back({{key.begin(), key.end()}, {sizes_at.begin(), sizes_at.end()}, {plan.begin(), plan.end()}});
  }
}

void Loaded::read(Words words) {
  int64_t mark;
  std::memcpy(&mark, kMark, 8);
  if (words.next() != mark) words.fail("it is no program without Python");
  if (const int64_t version = words.next(); version != kVersion)
    words.fail(concat("its program has version ", version, ", and this library reads ", kVersion));
  if (const std::string_view why = words.text(); !why.empty())
    not_implemented("the program needs Python: ", why);
  read_storages(words);
  read_inputs(words);
  routines_ = read_routines(words, int(weights_.size()));
  if (routines_.empty() || size_t(routines_[0].inputs) != inputs_.size() ||
      routines_[0].results.size() != outputs_.size())
    words.fail("its first routine has other inputs or outputs than the program");
}

// The memory of weights, which a program of a file shows.
void Loaded::read_storages(Words& words) {
  struct Held {
    std::vector<Storage*> all;
    ~Held() { std::ranges::for_each(all, [](Storage* s) { release(s); }); }
  } storages;
  for (size_t n = words.count(); n-- > 0;) {
    const std::string_view name = words.text();
    const int64_t begin = words.within(0, INT64_MAX, "where memory begins");
    const int64_t bytes = words.within(0, INT64_MAX, "how much memory there is");
    if (!archive_) continue;
    const std::span<char> part = archive_->entry(std::string(name));
    if (uint64_t(begin) > part.size() || uint64_t(bytes) > part.size() - size_t(begin))
      words.fail("memory reaches beyond its part of the file");
    storages.all.push_back(shown_part(archive_, part.subspan(size_t(begin), size_t(bytes))));
  }
  const size_t n = words.count();
  if (!archive_ && n != weights_.size()) words.fail(concat("it has ", n, " weights, and was given ", weights_.size()));
  for (size_t k = 0; k < n; ++k) {
    TensorRef t = read_weight(words, storages.all);
    if (archive_) weights_.emplace_back(std::move(t));
  }
}

// A weight; without memory where there are no storages.
TensorRef Loaded::read_weight(Words& words, const std::vector<Storage*>& storages) {
  const int64_t storage = words.within(0, INT64_MAX, "a storage");
  const DType dtype = read_dtype(words);
  const std::span<const int64_t> sizes = words.list(), strides = words.list();
  const int64_t offset = words.next();
  if (sizes.size() != strides.size()) words.fail("a weight has as many strides as sizes");
  TensorRef t = bare_tensor(dtype, Device{}, sizes, strides, 0);
  if (!archive_) return t;
  if (uint64_t(storage) >= storages.size()) words.fail("a weight has no memory");
  Storage* s = storages[size_t(storage)];
  int64_t last = offset;
  bool wrong = offset < 0 || std::ranges::any_of(strides, [](int64_t step) { return step < 0; });
  for (size_t k = 0; k < sizes.size() && t->numel; ++k) {
    int64_t reach;
    wrong |= __builtin_mul_overflow(sizes[k] - 1, strides[k], &reach) || __builtin_add_overflow(last, reach, &last);
  }
  wrong |= t->numel && uint64_t(last) >= s->nbytes / size_t(t->itemsize());
  if (wrong) words.fail("a weight reaches beyond its memory");
  retain(t->storage = s);
  t->data = static_cast<char*>(s->data) + (t->numel ? offset * t->itemsize() : 0);
  if (reinterpret_cast<uintptr_t>(t->data) % size_t(t->itemsize())) words.fail("a weight is not aligned");
  return t;
}

void Loaded::read_inputs(Words& words) {
  for (size_t n = words.count(); n-- > 0;) {
    Input& input = inputs_.emplace_back();
    input.name = words.text();
    input.tensor = words.within(0, 2, "what an input is");
    input.dtype = read_dtype(words);
    const std::span<const int64_t> sizes = words.list();
    input.sizes.assign(sizes.begin(), sizes.end());
  }
  for (size_t n = words.count(); n-- > 0;) outputs_.emplace_back(words.text());
}

// An input as the program takes it. Sizes are checked by the program itself, which knows those that depend on others.
Content Loaded::fitting(size_t k, const TensorRef& t) const {
  const Input& input = inputs_[k];
  if (!input.tensor) {
    if (t->numel != 1 || !is_integral(t->dtype))
      value_error("input '", input.name, "' must be one integer, got ", dtype_name(t->dtype), " of shape ",
                  shape_text(t->shape()));
    return Content(number_of(*t, input.name.c_str()));
  }
  if (t->dtype != input.dtype)
    value_error("input '", input.name, "' must be ", dtype_name(input.dtype), ", got ", dtype_name(t->dtype));
  if (t->ndim != input.sizes.size())
    value_error("input '", input.name, "' must have ", input.sizes.size(), " dimensions, got shape ",
                shape_text(t->shape()));
  return Content(t);
}

std::vector<Content> Loaded::fitting(const std::vector<TensorRef>& given) const {
  if (given.size() != inputs_.size())
    value_error("the program takes ", inputs_.size(), " inputs, got ", given.size());
  std::vector<Content> inputs;
  for (size_t k = 0; k < given.size(); ++k) inputs.push_back(fitting(k, given[k]));
  return inputs;
}

void Loaded::plan(const std::vector<TensorRef>& given) const {
  std::vector<Content> inputs = fitting(given);
  Recording recording(*this, Way::Whole);
  recording.tracer.whole = recording.tracer.planning = true;
  const std::vector<Content> results = Machine(routines_, weights_).run(0, std::move(inputs));
  recording.tracer.plan();
}

std::vector<TensorRef> Loaded::run(const std::vector<TensorRef>& given) const {
  std::vector<Content> inputs = fitting(given), results;
  const std::vector<int64_t> sizes = sizes_of(given);
  auto known = ways_.find(sizes);
  {
    Recording recording(*this, known == ways_.end() ? Way::Whole : known->second);
    results = Machine(routines_, weights_).run(0, std::move(inputs));
    recording.tracer.run(Why::End);
    if (known == ways_.end() && ways_.size() < kMostSizes) ways_[sizes] = recording.next();
  }
  std::vector<TensorRef> tensors;
  for (Content& c : results) {
    TensorRef t = c.tensor;
    if (!t) {
      if (!c.value.is_number()) value_error("the program's result '", outputs_[tensors.size()], "' is no tensor");
      const Scalar number = c.value.scalar();
      t = empty({}, number.dtype(default_dtype()));
      fill(*t, number);
    }
    need_values(*t);
    tensors.push_back(resolved(*t));
  }
  return tensors;
}

}  // namespace flambeau::programs
