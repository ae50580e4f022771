// The rounds of each collective. Nobody waits for more than it needs: a rank that only writes goes ahead up to kSlots
// rounds, so copying in, reducing and copying out of one call overlap.
#include "collectives.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace flambeau::distributed {
namespace {

constexpr size_t kSmall = 8192;  // bytes up to which every rank reduces everything by itself

void copy(void* to, const void* from, size_t bytes) {
  if (bytes && to != from) std::memcpy(to, from, bytes);
}

uint64_t mixed(uint64_t h, uint64_t v) { return (h ^ v) * 0x9e3779b97f4a7c15u + (h >> 29); }

uint64_t key_of(const Collective& c) {
  uint64_t h = mixed(1, uint64_t(c.kind));
  h = mixed(h, uint64_t(c.root));
  h = mixed(h, uint64_t(c.dtype));
  h = mixed(h, uint64_t(c.op));
  h = mixed(h, uint64_t(c.bytes));
  if (c.kind == CollectiveKind::AllReduce)
    for (int64_t bytes : c.in_bytes) h = mixed(h, uint64_t(bytes));
  return h;
}

// The part of rank r when `count` elements are shared out to n ranks: whole cache lines of 4-byte elements.
int64_t share_begin(int64_t count, int r, int n) {
  const int64_t each = ((count + n - 1) / n + 15) / 16 * 16;
  return std::min(count, each * r);
}

}  // namespace

// --- waiting ---------------------------------------------------------------------------------------------------------

void Collectives::begin(const Collective& c) {
  s_.check_broken();
  const uint64_t number = ++count_;
  Call& call = s_.own().calls[number % kCalls];
  call.key = key_of(c);
  const size_t length = std::min(c.text.size(), kText - 1);
  std::memcpy(call.text, c.text.data(), length);
  call.text[length] = 0;
  s_.own().started.store(number, std::memory_order_release);
  checked_.resize(size_t(s_.size()));
  sources_.resize(size_t(s_.size()));
  deadline_ = Clock::now() + c.timeout;
}

// Compares this rank's calls with those that rank r has begun by now.
void Collectives::same_calls(int r) {
  const uint64_t begun = std::min(count_, s_.lane(r).started.load(std::memory_order_acquire));
  uint64_t& known = checked_[size_t(r)];
  if (begun > known + kCalls / 2) known = begun - kCalls / 2;
  for (; known < begun; ++known) {
    const uint64_t number = known + 1;
    if (s_.own().calls[number % kCalls].key == s_.lane(r).calls[number % kCalls].key) continue;
    std::string text = "the ranks of the group are in different collectives: ";
    for (int q : {r, s_.rank()}) {
      std::string said = s_.lane(q).calls[number % kCalls].text;
      said.insert(std::min(said.size(), said.find(' ')), concat(" #", number));
      text += concat(q == r ? "" : ", ", "rank ", q, " is in ", said);
    }
    s_.break_up(text + "; every rank must make the same calls in the same order");
  }
}

// What can be wrong while this rank waits: another one has ended before its part was done, or time is up.
void Collectives::look(const Collective& c, int for_rank) {
  const std::string here = concat(c.text.substr(0, c.text.find(' ')), " #", count_);
  for (int r = 0; r < s_.size(); ++r) {
    if (r == s_.rank()) continue;
    same_calls(r);
    if (s_.gone(r) && s_.lane(r).done.load() < last_)
      s_.break_up(concat(here, ": ", s_.how_gone(r), " without finishing it"));
  }
  if (Clock::now() < deadline_) return;
  const double seconds = std::chrono::duration<double>(c.timeout).count();
  std::string where;
  for (int r = 0; r < s_.size(); ++r) {
    const Lane& lane = s_.lane(r);
    const uint64_t begun = lane.started.load();
    if (r == s_.rank() || (r != for_rank && begun >= count_)) continue;
    where += concat(where.empty() ? "" : ", ", "rank ", r, " (process ", lane.pid, ") ",
                    begun >= count_ ? "has begun it and does not go on"
                    : begun ? concat("has not called it; its last call was ", lane.calls[begun % kCalls].text)
                            : std::string("has not called anything yet"));
  }
  s_.break_up(concat(here, ": timed out after ", seconds, " seconds: ", where, s_.stopped()));
}

template <class Ready>
void Collectives::wait(const Collective& c, int r, const Ready& ready) {
  if (!ready()) s_.wait(ready, [&] { look(c, r); }, c.interrupted);
}

// Until all ranks are done with what this round's slots held before.
void Collectives::open_round(const Collective& c, uint64_t round) {
  if (round < free_) return;
  uint64_t least = round;
  for (int r = 0; r < s_.size(); ++r) {
    if (r == s_.rank()) continue;
    auto done = [&] { return s_.lane(r).done.load(std::memory_order_acquire); };
    wait(c, r, [&] { return done() + kSlots > round; });
    same_calls(r);
    least = std::min(least, done());
  }
  free_ = least + kSlots;
}

void Collectives::wrote(uint64_t round) {
  s_.own().in.store(round + 1, std::memory_order_release);
  s_.ring_others();
}

void Collectives::close_round(uint64_t round) {
  s_.own().done.store(round + 1, std::memory_order_release);
  s_.ring_others();
}

void Collectives::await_in(const Collective& c, int r, uint64_t round) {
  Lane& lane = s_.lane(r);
  wait(c, r, [&] { return lane.in.load(std::memory_order_acquire) > round; });
  same_calls(r);
}

void Collectives::await_reduced(const Collective& c, int r, uint64_t round) {
  Lane& lane = s_.lane(r);
  wait(c, r, [&] { return lane.reduced.load(std::memory_order_acquire) > round; });
}

// Calls round(number, offset, bytes) for pieces of c.bytes of at most `unit`; at least once, so that all ranks meet.
template <class Round>
void Collectives::each_round(const Collective& c, size_t unit, const Round& round) {
  const uint64_t rounds = std::max<uint64_t>(1, (uint64_t(c.bytes) + unit - 1) / unit);
  const uint64_t first = round_;
  last_ = first + rounds;
  for (uint64_t k = 0; k < rounds; ++k) {
    open_round(c, first + k);
    const size_t offset = k * unit;
    round(first + k, offset, std::min(unit, size_t(c.bytes) - offset));
    close_round(first + k);
  }
}

void Collectives::run(const Collective& c) {
  std::lock_guard<std::mutex> one_at_a_time(mutex_);
  begin(c);
  try {
    step(c);
  } catch (const Interrupted&) {
    try {
      s_.break_up(concat("rank ", s_.rank(), " was interrupted in ", c.text));
    } catch (const Broken&) {
    }
    throw;
  }
  round_ = last_;
}

void Collectives::step(const Collective& c) {
  switch (c.kind) {
    case CollectiveKind::Barrier: return barrier(c);
    case CollectiveKind::Broadcast: return broadcast(c);
    case CollectiveKind::AllReduce: return all_reduce(c);
    case CollectiveKind::Reduce: return reduce(c);
    case CollectiveKind::AllGather: return all_gather(c);
    case CollectiveKind::Gather: return gather(c);
    case CollectiveKind::Scatter: return scatter(c);
    case CollectiveKind::ReduceScatter: return reduce_scatter(c);
    case CollectiveKind::AllToAll: return all_to_all(c);
  }
}

// --- moving ----------------------------------------------------------------------------------------------------------

void Collectives::barrier(const Collective& c) {
  each_round(c, 1, [&](uint64_t t, size_t, size_t) {
    wrote(t);
    for (int r = 0; r < s_.size(); ++r)
      if (r != s_.rank()) await_in(c, r, t);
  });
}

void Collectives::broadcast(const Collective& c) {
  each_round(c, s_.chunk(), [&](uint64_t t, size_t offset, size_t bytes) {
    if (s_.rank() == c.root) {
      copy(s_.slot(c.root, t), c.in[0] + offset, bytes);
      wrote(t);
    } else {
      await_in(c, c.root, t);
      copy(c.out[0] + offset, s_.slot(c.root, t), bytes);
    }
  });
}

void Collectives::all_gather(const Collective& c) {
  const int me = s_.rank(), n = s_.size();
  copy(c.out[size_t(me)], c.in[0], size_t(c.bytes));
  each_round(c, s_.chunk(), [&](uint64_t t, size_t offset, size_t bytes) {
    copy(s_.slot(me, t), c.in[0] + offset, bytes);
    wrote(t);
    for (int k = 1; k < n; ++k) {
      const int r = (me + k) % n;
      await_in(c, r, t);
      copy(c.out[size_t(r)] + offset, s_.slot(r, t), bytes);
    }
  });
}

void Collectives::gather(const Collective& c) {
  const int me = s_.rank(), n = s_.size();
  if (me == c.root) copy(c.out[size_t(me)], c.in[0], size_t(c.bytes));
  each_round(c, s_.chunk(), [&](uint64_t t, size_t offset, size_t bytes) {
    if (me != c.root) {
      copy(s_.slot(me, t), c.in[0] + offset, bytes);
      wrote(t);
      return;
    }
    for (int k = 1; k < n; ++k) {
      const int r = (me + k) % n;
      await_in(c, r, t);
      copy(c.out[size_t(r)] + offset, s_.slot(r, t), bytes);
    }
  });
}

void Collectives::scatter(const Collective& c) {
  const int me = s_.rank(), n = s_.size();
  const size_t unit = s_.chunk() / size_t(n) / kLine * kLine;
  if (me == c.root) copy(c.out[0], c.in[size_t(me)], size_t(c.bytes));
  each_round(c, unit, [&](uint64_t t, size_t offset, size_t bytes) {
    char* slot = s_.slot(c.root, t);
    if (me != c.root) {
      await_in(c, c.root, t);
      copy(c.out[0] + offset, slot + size_t(me) * unit, bytes);
      return;
    }
    for (int r = 0; r < n; ++r)
      if (r != me) copy(slot + size_t(r) * unit, c.in[size_t(r)] + offset, bytes);
    wrote(t);
  });
}

// Each rank knows its own sizes only: the first round tells them all, so that all count the same rounds.
// long because: the two phases share the table of sizes
void Collectives::all_to_all(const Collective& c) {
  const int me = s_.rank(), n = s_.size();
  const size_t unit = s_.chunk() / size_t(n) / kLine * kLine;
  const uint64_t first = round_;
  last_ = first + 1;
  open_round(c, first);
  copy(s_.slot(me, first), c.in_bytes.data(), size_t(n) * 8);
  wrote(first);
  uint64_t rounds = 0;
  std::string wrong;
  for (int r = 0; r < n; ++r) {
    if (r != me) await_in(c, r, first);
    const int64_t* sizes = reinterpret_cast<const int64_t*>(s_.slot(r, first));
    for (int q = 0; q < n; ++q) rounds = std::max(rounds, (uint64_t(sizes[q]) + unit - 1) / unit);
    if (sizes[me] != c.out_bytes[size_t(r)])
      wrong = concat("all_to_all: rank ", r, " sends ", sizes[me], " bytes to rank ", me, ", which expects ",
                     c.out_bytes[size_t(r)]);
  }
  if (!wrong.empty()) s_.break_up(wrong);
  last_ = first + 1 + rounds;
  close_round(first);
  copy(c.out[size_t(me)], c.in[size_t(me)], size_t(c.in_bytes[size_t(me)]));
  auto piece = [&](int64_t bytes, uint64_t k) -> size_t {
    return uint64_t(bytes) <= k * unit ? 0 : std::min(unit, size_t(bytes) - k * unit);
  };
  for (uint64_t k = 0; k < rounds; ++k) {
    const uint64_t t = first + 1 + k;
    open_round(c, t);
    for (int r = 0; r < n; ++r)
      if (r != me) copy(s_.slot(me, t) + size_t(r) * unit, c.in[size_t(r)] + k * unit, piece(c.in_bytes[size_t(r)], k));
    wrote(t);
    for (int j = 1; j < n; ++j) {
      const int r = (me + j) % n;
      await_in(c, r, t);
      copy(c.out[size_t(r)] + k * unit, s_.slot(r, t) + size_t(me) * unit, piece(c.out_bytes[size_t(r)], k));
    }
    close_round(t);
  }
}

// --- reducing --------------------------------------------------------------------------------------------------------

void Collectives::reduce(const Collective& c) {
  const int me = s_.rank(), n = s_.size();
  std::vector<const char*> sources(size_t(n), nullptr);
  each_round(c, s_.chunk(), [&](uint64_t t, size_t offset, size_t bytes) {
    if (me != c.root) {
      copy(s_.slot(me, t), c.in[0] + offset, bytes);
      wrote(t);
      return;
    }
    for (int r = 0; r < n; ++r) {
      if (r != me) await_in(c, r, t);
      sources[size_t(r)] = r == me ? c.in[0] + offset : s_.slot(r, t);
    }
    c.reduce(c.out[0] + offset, sources.data(), n, int64_t(bytes) / item_size(c.dtype));
  });
}

void Collectives::reduce_scatter(const Collective& c) {
  const int me = s_.rank(), n = s_.size();
  const size_t unit = s_.chunk() / size_t(n) / kLine * kLine;
  std::vector<const char*> sources(size_t(n), nullptr);
  each_round(c, unit, [&](uint64_t t, size_t offset, size_t bytes) {
    for (int r = 0; r < n; ++r)
      if (r != me) copy(s_.slot(me, t) + size_t(r) * unit, c.in[size_t(r)] + offset, bytes);
    wrote(t);
    for (int r = 0; r < n; ++r) {
      if (r != me) await_in(c, r, t);
      sources[size_t(r)] = r == me ? c.in[size_t(me)] + offset : s_.slot(r, t) + size_t(me) * unit;
    }
    c.reduce(c.out[0] + offset, sources.data(), n, int64_t(bytes) / item_size(c.dtype));
  });
}

void Collectives::all_reduce(const Collective& c) {
  const Joined own(c.out, c.in_bytes);
  if (size_t(c.bytes) <= kSmall || s_.size() == 1) all_reduce_small(c, own);
  else all_reduce_large(c, own);
}

// Bytes [from, to) of all of this rank's tensors become the reduction of its own and of what lies at source(r) of
// another rank; f(address, offset from `from`, bytes) is called for each piece of them then.
template <class Source, class F>
void Collectives::reduce_pieces(const Collective& c, const Joined& own, size_t from, size_t to, const Source& source,
                                const F& f) {
  const int me = s_.rank(), n = s_.size();
  own.each(from, to, [&](char* address, size_t at, size_t bytes) {
    for (int r = 0; r < n; ++r) sources_[size_t(r)] = r == me ? address : source(r) + (at - from);
    c.reduce(address, sources_.data(), n, int64_t(bytes) / item_size(c.dtype));
    f(address, at - from, bytes);
  });
}

void Collectives::all_reduce_small(const Collective& c, const Joined& own) {
  const int me = s_.rank(), n = s_.size();
  each_round(c, s_.chunk(), [&](uint64_t t, size_t offset, size_t bytes) {
    own.copy_to(s_.slot(me, t), offset, offset + bytes);
    wrote(t);
    for (int r = 0; r < n; ++r)
      if (r != me) await_in(c, r, t);
    reduce_pieces(c, own, offset, offset + bytes, [&](int r) { return s_.slot(r, t); }, [](char*, size_t, size_t) {});
  });
}

// long because: the three phases share where a chunk's parts lie
// Round t is copied in (what other ranks reduce of it), while t - 1 is reduced (this rank's share) and t - 2 is copied
// out (what others have reduced).
void Collectives::all_reduce_large(const Collective& c, const Joined& own) {
  const int me = s_.rank(), n = s_.size();
  const int64_t item = item_size(c.dtype), elements = c.bytes / item, unit = int64_t(s_.chunk()) / item;
  const uint64_t rounds = uint64_t((elements + unit - 1) / unit), first = round_;
  last_ = first + rounds;
  auto each_share = [&](uint64_t k, const auto& f) {  // f(rank, offset in the chunk, offset in all, and where it ends)
    const int64_t from = int64_t(k) * unit, count = std::min(unit, elements - from);
    for (int r = 0; r < n; ++r) {
      const int64_t a = share_begin(count, r, n), b = share_begin(count, r + 1, n);
      f(r, size_t(a * item), size_t((from + a) * item), size_t((from + b) * item));
    }
  };
  for (uint64_t k = 0; k < rounds + 2; ++k) {
    if (k < rounds) {
      open_round(c, first + k);
      each_share(k, [&](int r, size_t at, size_t from, size_t to) {
        if (r != me) own.copy_to(s_.slot(me, first + k) + at, from, to);
      });
      wrote(first + k);
    }
    if (k >= 1 && k - 1 < rounds) each_share(k - 1, [&](int owner, size_t at, size_t from, size_t to) {
      const uint64_t t = first + k - 1;
      if (owner != me) return;
      for (int r = 0; r < n; ++r)
        if (r != me) await_in(c, r, t);
      char* result = s_.slot(me, t) + at;
      reduce_pieces(c, own, from, to, [&](int r) { return s_.slot(r, t) + at; },
                    [&](char* address, size_t offset, size_t bytes) { copy(result + offset, address, bytes); });
      s_.own().reduced.store(t + 1, std::memory_order_release);
      s_.ring_others();
    });
    if (k >= 2) {
      const uint64_t t = first + k - 2;
      each_share(k - 2, [&](int r, size_t at, size_t from, size_t to) {
        if (r == me) return;
        await_reduced(c, r, t);
        own.copy_from(s_.slot(r, t) + at, from, to);
      });
      close_round(t);
    }
  }
}

}  // namespace flambeau::distributed
