// Collective calls over a shared segment: who writes what in which round, and who waits for whom.
#pragma once
#include "joined.h"
#include "reduce.h"
#include "segment.h"

namespace flambeau::distributed {

enum class CollectiveKind : int {
  Barrier, Broadcast, AllReduce, Reduce, AllGather, Gather, Scatter, ReduceScatter, AllToAll
};

// One call on one rank. Lists have an entry for each rank, or are empty where the rank has no part in them.
struct Collective {
  CollectiveKind kind;
  int root = 0;
  DType dtype = DType::Undefined;
  Reduction op = Reduction::Sum;
  Reduce reduce = nullptr;
  std::vector<const char*> in;   // one, or one for each rank
  std::vector<char*> out;        // one, or one for each rank
  int64_t bytes = 0;             // of each part
  std::vector<int64_t> in_bytes, out_bytes;  // of AllToAll, and of AllReduce: of each tensor
  std::string text;              // what this call is and where it stands in the program
  std::function<bool()> interrupted;  // may be null
  std::chrono::nanoseconds timeout{};
};

// Runs the calls of one rank one after the other.
class Collectives {
 public:
  explicit Collectives(Segment& segment) : s_(segment) {}
  // Throws Broken or Interrupted.
  void run(const Collective& call);
  uint64_t count() const { return count_; }

 private:
  void begin(const Collective& c);
  void step(const Collective& c);
  void same_calls(int r);
  void look(const Collective& c, int for_rank);
  template <class Ready> void wait(const Collective& c, int r, const Ready& ready);
  void open_round(const Collective& c, uint64_t round);
  void close_round(uint64_t round);
  void wrote(uint64_t round);
  void await_in(const Collective& c, int r, uint64_t round);
  void await_reduced(const Collective& c, int r, uint64_t round);
  template <class Round> void each_round(const Collective& c, size_t unit, const Round& round);

  void barrier(const Collective& c);
  void broadcast(const Collective& c);
  void all_reduce(const Collective& c);
  template <class Source, class F>
  void reduce_pieces(const Collective& c, const Joined& own, size_t from, size_t to, const Source& source, const F& f);
  void all_reduce_small(const Collective& c, const Joined& own);
  void all_reduce_large(const Collective& c, const Joined& own);
  void reduce(const Collective& c);
  void all_gather(const Collective& c);
  void gather(const Collective& c);
  void scatter(const Collective& c);
  void reduce_scatter(const Collective& c);
  void all_to_all(const Collective& c);

  Segment& s_;
  std::mutex mutex_;
  uint64_t count_ = 0;   // calls begun
  uint64_t round_ = 0;   // rounds of all calls done
  uint64_t last_ = 0;    // where the rounds of this call end
  uint64_t free_ = kSlots;  // rounds before this one may be begun
  std::vector<const char*> sources_;  // of a reduction, by rank
  std::vector<uint64_t> checked_;  // by rank: the last call that was found the same
  Clock::time_point deadline_;
};

}  // namespace flambeau::distributed
