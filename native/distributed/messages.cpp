// Sending and receiving: whoever waits moves all messages of this rank on, so none can block another.
#include "messages.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace flambeau::distributed {
namespace {

struct Head {  // before each message in a ring
  uint64_t bytes;
  int64_t tag;
  uint32_t kind;
  char padding[kLine - 20];
};
static_assert(sizeof(Head) == kLine);

uint64_t lines(uint64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// Copies to or from a place in a ring that may lie across its end.
template <class Copy>
void around(char* ring, uint64_t size, uint64_t at, uint64_t bytes, const Copy& copy) {
  const uint64_t first = std::min(bytes, size - at % size);
  if (first) copy(ring + at % size, 0, first);
  if (bytes > first) copy(ring, first, bytes - first);
}

bool asked_for(const Message& m, int from, int64_t tag) {
  return (m.peer == kAnyone || m.peer == from) && m.tag == tag;
}

}  // namespace

Messages::Messages(Segment& segment)
    : s_(segment), sends_(size_t(s_.size())), current_(size_t(s_.size())), kept_(size_t(s_.size())) {}

void Messages::post(const MessageRef& m) {
  s_.check_broken();
  std::lock_guard<std::mutex> guard(mutex_);
  if (!m->receives) sends_[size_t(m->peer)].push_back(m);
  else if (!take_kept(m)) receives_.push_back(m);
}

// A message that came before it was asked for.
bool Messages::take_kept(const MessageRef& m) {
  for (int r = 0; r < s_.size(); ++r) {
    auto& list = kept_[size_t(r)];
    auto found = std::ranges::find_if(list, [&](auto& one) { return asked_for(*m, r, one->tag); });
    if (found == list.end()) continue;
    Incoming& one = **found;
    one.target = m;
    if (one.fits() && one.bytes) std::memcpy(m->data, one.kept.data(), one.bytes);
    complete(*m, one, r);
    list.erase(found);
    return true;
  }
  return false;
}

void Messages::complete(Message& m, const Incoming& one, int from) {
  m.peer = from;
  if (!one.fits())
    m.error = concat(m.text, ": rank ", from, " sent ", one.bytes, " bytes",
                     one.kind == m.kind ? "" : " of another dtype", ", and the tensor to receive into has ", m.bytes);
  m.done.store(true);
}

// --- receiving -------------------------------------------------------------------------------------------------------

bool Messages::begin_receive(int from) {
  Ring& ring = s_.ring(from, s_.rank());
  const uint64_t read = ring.read.load(std::memory_order_relaxed);
  if (ring.written.load(std::memory_order_acquire) - read < kLine) return false;
  Head head;
  around(s_.ring_data(from, s_.rank()), s_.ring_bytes(), read, kLine, [&](char* place, uint64_t at, uint64_t bytes) {
    std::memcpy(reinterpret_cast<char*>(&head) + at, place, bytes);
  });
  current_[size_t(from)] = std::make_unique<Incoming>();
  Incoming& one = *current_[size_t(from)];
  one.bytes = head.bytes, one.tag = head.tag, one.kind = head.kind;
  ring.read.store(read + kLine, std::memory_order_release);
  return true;
}

// Gives the message under way to the first receive that asks for it, with what has come of it already.
void Messages::find_target(int from) {
  Incoming& one = *current_[size_t(from)];
  if (one.target) return;
  auto found = std::ranges::find_if(receives_, [&](auto& m) { return asked_for(*m, from, one.tag); });
  if (found != receives_.end()) {
    one.target = *found;
    receives_.erase(found);
    if (one.fits() && one.moved) std::memcpy(one.target->data, one.kept.data(), one.moved);
  }
  if (!one.fits()) one.kept.resize(one.bytes);
}

bool Messages::move_in(int from) {
  Incoming& one = *current_[size_t(from)];
  Ring& ring = s_.ring(from, s_.rank());
  const uint64_t read = ring.read.load(std::memory_order_relaxed);
  const uint64_t bytes = std::min(ring.written.load(std::memory_order_acquire) - read, one.bytes - one.moved);
  char* to = (one.fits() ? one.target->data : one.kept.data()) + one.moved;
  around(s_.ring_data(from, s_.rank()), s_.ring_bytes(), read, bytes,
         [&](char* place, uint64_t at, uint64_t n) { std::memcpy(to + at, place, n); });
  one.moved += bytes;
  const uint64_t padding = one.moved == one.bytes ? lines(one.bytes) - one.bytes : 0;
  ring.read.store(read + bytes + padding, std::memory_order_release);
  s_.ring(from);
  return bytes > 0;
}

bool Messages::advance_receive(int from) {
  std::unique_ptr<Incoming>& one = current_[size_t(from)];
  bool moved = false;
  while (one || begin_receive(from)) {
    find_target(from);
    const bool some = move_in(from);
    moved |= some;
    if (one->moved < one->bytes) {
      if (!some) break;
      continue;
    }
    moved = true;
    if (one->target) complete(*one->target, *one, from);
    else kept_[size_t(from)].push_back(std::move(one));
    one.reset();
  }
  return moved;
}

// --- sending ---------------------------------------------------------------------------------------------------------

bool Messages::send_head(int to, const Message& m) {
  Ring& ring = s_.ring(s_.rank(), to);
  const uint64_t written = ring.written.load(std::memory_order_relaxed), size = s_.ring_bytes();
  if (size - (written - ring.read.load(std::memory_order_acquire)) < kLine) return false;
  Head head{};
  head.bytes = m.bytes, head.tag = m.tag, head.kind = m.kind;
  around(s_.ring_data(s_.rank(), to), size, written, kLine, [&](char* place, uint64_t at, uint64_t bytes) {
    std::memcpy(place, reinterpret_cast<char*>(&head) + at, bytes);
  });
  ring.written.store(written + kLine, std::memory_order_release);
  return true;
}

bool Messages::advance_send(int to) {
  auto& list = sends_[size_t(to)];
  Ring& ring = s_.ring(s_.rank(), to);
  const uint64_t size = s_.ring_bytes();
  bool moved = false;
  while (!list.empty()) {
    Message& m = *list.front();
    if (!m.begun && !(m.begun = send_head(to, m))) break;
    const uint64_t written = ring.written.load(std::memory_order_relaxed);
    // counts of both sides are whole lines between two pieces: where the end of a message fits, its padding does
    const uint64_t room = size - (written - ring.read.load(std::memory_order_acquire));
    const uint64_t bytes = std::min(room, m.bytes - m.moved);
    around(s_.ring_data(s_.rank(), to), size, written, bytes,
           [&](char* place, uint64_t at, uint64_t n) { std::memcpy(place, m.data + m.moved + at, n); });
    m.moved += bytes;
    const bool all = m.moved == m.bytes;
    ring.written.store(written + bytes + (all ? lines(m.bytes) - m.bytes : 0), std::memory_order_release);
    s_.ring(to);
    moved |= bytes > 0 || all;
    if (!all) {
      if (bytes == 0) break;
      continue;
    }
    m.done.store(true);
    list.pop_front();
  }
  return moved;
}

// --- waiting ---------------------------------------------------------------------------------------------------------

bool Messages::advance() {
  std::lock_guard<std::mutex> guard(mutex_);
  bool moved = false;
  for (int r = 0; r < s_.size(); ++r) {
    moved |= advance_send(r);
    moved |= advance_receive(r);
  }
  return moved;
}

void Messages::look(const Message& m, Clock::time_point deadline, double seconds) {
  int gone = -1, others = 0;
  for (int r = 0; r < s_.size(); ++r)
    if (r != s_.rank() && (m.peer == kAnyone || m.peer == r)) {
      ++others;
      if (s_.gone(r)) gone = r, --others;
    }
  if (gone >= 0 && others == 0 && !advance() && !m.done.load())
    s_.break_up(concat(m.text, ": ", s_.how_gone(gone)));
  if (Clock::now() >= deadline && !m.done.load())
    s_.break_up(concat(m.text, ": timed out after ", seconds, " seconds; the other side has not ",
                       m.receives ? "sent" : "received", " it", s_.stopped()));
}

// Its memory may be gone from now on.
void Messages::withdraw(const MessageRef& m) {
  std::lock_guard<std::mutex> guard(mutex_);
  std::erase(receives_, m);
  for (auto& list : sends_) std::erase(list, m);
  for (auto& one : current_)
    if (one && one->target == m) {
      one->kept.resize(one->bytes);
      one->target = nullptr;
    }
}

void Messages::finish(const MessageRef& m, std::chrono::nanoseconds timeout,
                      const std::function<bool()>& interrupted) {
  const auto deadline = Clock::now() + timeout;
  const double seconds = std::chrono::duration<double>(timeout).count();
  auto ready = [&] {
    while (!m->done.load() && advance()) {
    }
    return m->done.load();
  };
  try {
    if (!ready()) s_.wait(ready, [&] { look(*m, deadline, seconds); }, interrupted);
  } catch (...) {
    withdraw(m);
    throw;
  }
  if (!m->error.empty()) throw Broken{m->error};
}

}  // namespace flambeau::distributed
