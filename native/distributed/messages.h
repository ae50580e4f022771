// Messages between two ranks: a ring of bytes for each direction, and tags that say which message a receiver wants.
#pragma once
#include <deque>
#include <memory>

#include "segment.h"

namespace flambeau::distributed {

inline constexpr int kAnyone = -1;

// A message that is being sent or received. `text` is what this side says about it.
struct Message {
  bool receives = false;
  int peer = 0;  // kAnyone: whoever comes first; then who it was
  int64_t tag = 0;
  uint32_t kind = 0;  // the dtype's number: both sides must have the same
  char* data = nullptr;
  uint64_t bytes = 0, moved = 0;
  bool begun = false;  // its head is sent
  std::atomic<bool> done{false};
  std::string text, error;
};
using MessageRef = std::shared_ptr<Message>;

class Messages {
 public:
  explicit Messages(Segment& segment);
  void post(const MessageRef& message);
  // Moves what can be moved; whether anything was.
  bool advance();
  // Until the message is there; throws Broken (also for the message's own error) or Interrupted.
  void finish(const MessageRef& message, std::chrono::nanoseconds timeout, const std::function<bool()>& interrupted);

 private:
  struct Incoming {  // the message that a ring is at, or one that came before anybody asked for it
    uint64_t bytes = 0, moved = 0;
    int64_t tag = 0;
    uint32_t kind = 0;
    MessageRef target;       // who asked for it
    std::vector<char> kept;  // where it goes while nobody has, or where it does not fit
    bool fits() const { return target && target->bytes == bytes && target->kind == kind; }
  };
  bool advance_send(int to);
  bool send_head(int to, const Message& message);
  bool advance_receive(int from);
  bool begin_receive(int from);
  void find_target(int from);
  bool move_in(int from);
  bool take_kept(const MessageRef& message);
  static void complete(Message& message, const Incoming& incoming, int from);
  void withdraw(const MessageRef& message);
  void look(const Message& message, Clock::time_point deadline, double seconds);

  Segment& s_;
  std::mutex mutex_;
  std::vector<std::deque<MessageRef>> sends_;                   // by receiver
  std::deque<MessageRef> receives_;                             // in the order in which they were asked for
  std::vector<std::unique_ptr<Incoming>> current_;              // by sender: under way
  std::vector<std::deque<std::unique_ptr<Incoming>>> kept_;     // by sender: complete, and nobody has asked
};

}  // namespace flambeau::distributed
