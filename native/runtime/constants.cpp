#include "constants.h"

#include <algorithm>
#include <bit>

namespace flambeau {
namespace {

constexpr int64_t kMostOfPlan = 4 << 20, kMostOfAll = 64 << 20;  // bytes
int64_t bytes_of_constants = 0;  // under the interpreter lock

}  // namespace

void add_words(std::vector<uint64_t>& to, const Value& v) {
  to.push_back(uint64_t(v.tag));
  switch (v.tag) {
    case Tag::Bool: to.push_back(v.b); break;
    case Tag::Int: to.push_back(uint64_t(v.i)), to.push_back(v.huge); break;
    case Tag::Float: to.push_back(std::bit_cast<uint64_t>(v.f)); break;
    case Tag::Complex:
      to.push_back(std::bit_cast<uint64_t>(v.c.re)), to.push_back(std::bit_cast<uint64_t>(v.c.im));
      break;
    case Tag::Ints:
    case Tag::Bools:
      to.push_back(uint64_t(v.ints.size));
      to.insert(to.end(), v.ints.data, v.ints.data + v.ints.size);
      break;
    case Tag::Floats:
      to.push_back(uint64_t(v.floats.size));
      for (int64_t k = 0; k < v.floats.size; ++k) to.push_back(std::bit_cast<uint64_t>(v.floats.data[k]));
      break;
    case Tag::DType: to.push_back(uint64_t(v.dtype)); break;
    default: break;  // the key says all of it
  }
}

KeptStep::KeptStep(std::vector<std::unique_ptr<Step>> inner) : steps(std::move(inner)) {
  for (const auto& step : steps)
    for (const PlanCall& call : step->calls) {
      calls.push_back(call);
      for (const PlanArg& a : call.args)
        if (a.kind == PlanArg::Kind::Given) numbers_.emplace_back(a.at, a.of);
      each_tensor(call.args, [&](const PlanArg& a) {
        if (a.kind == PlanArg::Kind::View) layouts_.push_back(a.of);
      });
    }
}

std::vector<uint64_t> KeptStep::what_it_is_made_from(const Program& p) const {
  std::vector<uint64_t> words;
  words.reserve(made_from_.size());
  for (auto [entry, argument] : numbers_) add_words(words, p.entries[size_t(entry)].args[argument]);
  for (int use : layouts_) {
    const Use& u = p.uses[size_t(use)];
    words.push_back(uint64_t(u.offset));
    words.insert(words.end(), u.dims, u.dims + 2 * u.ndim);
  }
  return words;
}

void KeptStep::run(PlanRun& r) {
  std::vector<uint64_t> now = what_it_is_made_from(r.program);
  taken = !kept_.empty() && now == made_from_;
  if (taken) {
    for (const Kept& k : kept_) r.values[size_t(k.value)] = k.tensor;
    return;
  }
  for (const auto& step : steps) {
    step->run(r);
    r.let_go();
  }
  if (!r.recording) keep(r, std::move(now));  // else there is nothing in it yet
}

std::vector<TensorRef> KeptStep::tensors() const {
  std::vector<TensorRef> all;
  for (const Kept& k : kept_) all.push_back(k.tensor);
  return all;
}

void KeptStep::forget() {
  kept_.clear();
  bytes_of_constants -= std::exchange(bytes_, 0);
}

// What later steps read, if it is not too much.
void KeptStep::keep(const PlanRun& r, std::vector<uint64_t> made_from) {
  forget();
  std::vector<Kept> made;
  int64_t bytes = 0;
  for (const PlanCall& call : calls)
    for (int value : call.makes) {
      if (value < 0 || std::ranges::count(drops, value) || !r.values[size_t(value)]) continue;
      made.push_back({value, r.values[size_t(value)]});
      bytes += made.back().tensor->storage->nbytes;
    }
  if (bytes > kMostOfPlan || bytes_of_constants + bytes > kMostOfAll) return;
  bytes_of_constants += bytes_ = bytes;
  kept_ = std::move(made);
  made_from_ = std::move(made_from);
}

}  // namespace flambeau
