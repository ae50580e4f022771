#include "tracer.h"

#include <algorithm>
#include <list>
#include <unordered_map>

#include "together.h"

namespace flambeau {
namespace {

constexpr size_t kLongest = 50000;  // calls after which a program runs although nobody has looked

using Key = std::vector<uint64_t>;
struct Kept {
  uint64_t hash;
  Key key;
  std::shared_ptr<Plan> plan;
};
struct Cache {
  std::list<Kept> order;  // the one used last first
  std::unordered_multimap<uint64_t, std::list<Kept>::iterator> by_hash;
  PlanCounts counts;
};
// Never destroyed: plans hold Python's objects, which are gone when static objects go.
Cache& cache = *new Cache;

uint64_t hash_of(const Key& key) {
  uint64_t a = 0x9E3779B97F4A7C15u, b = key.size();
  for (size_t k = 0; k < key.size(); ++k) {
    a = (a ^ key[k]) * 0xBF58476D1CE4E5B9u;
    b = (b << 5 | b >> 59) ^ (a >> 29);
  }
  return a ^ b;
}

std::shared_ptr<Plan> new_plan(Program& p) {
  Listener::Unheard unheard;
  return p.pointwise ? plan_together(p) : std::unique_ptr<Plan>(hooks.plan_program(p));
}

std::shared_ptr<Plan> find_plan(Program& p, bool& known) {
  if (p.anew) return new_plan(p);
  const uint64_t hash = hash_of(p.key);
  auto [first, end] = cache.by_hash.equal_range(hash);
  for (; first != end; ++first) {
    if (first->second->key != p.key) continue;
    cache.order.splice(cache.order.begin(), cache.order, first->second);
    known = true;
    return first->second->plan;
  }
  std::shared_ptr<Plan> plan = new_plan(p);
  cache.counts.made += !p.pointwise;
  cache.order.push_front({hash, p.key, plan});
  cache.by_hash.emplace(hash, cache.order.begin());
  if (cache.order.size() > kMostPlans) {
    auto oldest = std::prev(cache.order.end());
    auto [from, to] = cache.by_hash.equal_range(oldest->hash);
    while (from != to && from->second != oldest) ++from;
    cache.by_hash.erase(from);
    cache.order.erase(oldest);
  }
  return plan;
}

// The tracer writes it no longer; the caller has a reference of its own.
void leave_tracer(Program& p) {
  if (!p.tracer) return;
  p.tracer->program = nullptr;
  p.tracer = nullptr;
  release(&p);
}

// A program that runs keeps its results until they have their memory.
struct Held {
  Program& p;
  explicit Held(Program& p) : p(p) { p.seal(); }
  ~Held() {
    for (ProgramSlot& s : p.slots)
      if (Storage* storage = std::exchange(s.storage, nullptr)) release(storage);
  }
};

}  // namespace

PlanCounts plan_counts() {
  cache.counts.plans = int64_t(cache.order.size());
  return cache.counts;
}
void forget_plans() {
  cache.by_hash.clear();
  cache.order.clear();
}

void run_program(Program& p) {
  if (p.stage == Stage::Running) {
    if (p.thread == this_thread()) runtime_error("compile: a value is asked for while the program that makes it runs");
    wait_until([](const void* p) { return static_cast<const Program*>(p)->stage != Stage::Running; }, &p);
  }
  if (p.stage == Stage::Failed) throw Error(p.error_kind, p.error);
  if (p.stage == Stage::Done) return;
  p.stage = Stage::Running;
  p.thread = this_thread();
  leave_tracer(p);
  if (!p.pointwise) {
    ++cache.counts.programs;
    cache.counts.calls += int64_t(p.entries.size());
    cache.counts.breaks += p.why != Why::End;
  }
  Held held(p);
  try {
    bool known = false;
    auto plan = find_plan(p, known);
    if (Listener* listener = Listener::of_thread()) listener->runs(p, known);
    p.plan = plan;
    plan->run(p);
    p.stage = Stage::Done;
  } catch (const Error& e) {
    p.stage = Stage::Failed;
    p.error_kind = e.kind == ErrorKind::Python ? ErrorKind::Runtime : e.kind;
    p.error = e.kind == ErrorKind::Python ? "the program that makes this value was ended by an exception" : e.text;
    throw;
  }
}

void run_again(Program& p) {
  ++cache.counts.programs;
  p.thread = this_thread();
  p.plan->run(p);
}

void Awaited::make(Storage&) {
  Program* p = program;
  if (p->tracer && p->tracer->whole) {
    const std::string line = p->places ? p->places->text(p->places->here()) : "";
    runtime_error("compile: fullgraph=True, but a value is asked for before the function has ended; compute without "
                  "looking at values (item(), bool(), numpy(), printing, …), or leave fullgraph out",
                  line.empty() ? "" : "\n  asked for in ", line);
  }
  if (p->stage == Stage::Open) p->why = Why::Value;
  retain(p);
  struct Let { Program* p; ~Let() { release(p); } } let{p};
  run_program(*p);
}

Tracer::~Tracer() {
  if (!program) return;
  program->tracer = nullptr;
  release(program);
}

// The numbers in the largest tensor of a call that was written down.
static int64_t most_numbers(Call& c) {
  int64_t most = 0;
  for (int k = 0; k < c.nargs; ++k)
    if (c.args[k].tag == Tag::Tensor) most = std::max(most, c.args[k].tensor->numel);
  for (int k = 0; k < c.nout(); ++k) most = std::max(most, c.out(k).numel);
  return most;
}

bool Tracer::take(Call& c) {
  if (pointwise && !goes_together(c)) return false;
  if (program && program->entries.size() >= kLongest) run(Why::Long);
  if (!program) {
    program = new_program();
    program->tracer = this;
    program->planner = planner;
    program->places = places;
    program->exact = exact || fast || planner;
    program->fast = fast;
    program->record = record;
    program->pointwise = pointwise;
    program->anew = anew;
    program->marks = marks;
    program->key.push_back(reinterpret_cast<uint64_t>(planner) ^ program->exact ^ uint64_t(fast) << 1 ^
                           uint64_t(pointwise) << 2);
  }
  const bool taken = program->add(c);
  if (!taken && planning) runtime_error(c.name(), ": the call cannot wait, and a program is only planned");
  at_once += !taken;
  if (taken) ++calls, numbers += most_numbers(c);
  if (Listener* listener = taken ? nullptr : Listener::of_thread()) listener->at_once(c, places);
  return taken;
}

void Tracer::run(Why why) {
  if (!program) return;
  Program* p = program;
  if (p->empty()) return;
  p->why = why;
  retain(p);
  struct Let { Program* p; ~Let() { release(p); } } let{p};
  run_program(*p);
}

void Tracer::plan() {
  if (!program || program->empty()) return;
  Program* p = program;
  retain(p);
  struct Let { Program* p; ~Let() { release(p); } } let{p};
  p->stage = Stage::Failed;
  p->error = "the program that makes this value was planned, and did not run";
  leave_tracer(*p);
  Held held(*p);
  new_plan(*p);
}

void Tracer::before_write(const Tensor& t) {
  if (program && t.storage && (is_pending(*t.storage) || program->reads(*t.storage)))
    run(Why::Write);
}
void Tracer::before_read(const Tensor& t) {
  ++at_once;
  if (program && t.storage && !is_pending(*t.storage) && program->writes(*t.storage)) run(Why::Value);
}
void Tracer::before_draw() {
  ++at_once;
  if (program && program->draws) run(Why::Value);
}

}  // namespace flambeau
