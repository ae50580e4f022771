// Calls that are written down instead of run. A thread's Recorder is offered every primitive call; it may describe the
// results (shapes, dtypes, strides, device: `infer` alone, nothing is allocated), keep the call with all it needs, and
// hand back pending tensors. What to run, and when, is the recorder's business.
#pragma once
#include <string>

#include "device_table.h"
#include "op.h"
#include "pending.h"

namespace flambeau {

struct FLAMBEAU_API Recorder {
  virtual ~Recorder() = default;
  // True: the call is kept and its results are declared. False: it runs now.
  virtual bool take(Call& c) = 0;
  // Memory is about to be written: kept calls that read it must run first.
  virtual void before_write(const Tensor& t) = 0;
};
// Sets this thread's recorder (null: none) and returns the one before.
FLAMBEAU_API Recorder* exchange_recorder(Recorder* recorder);
// Called before memory is written outside of execute().
void about_to_write(const Tensor& t);

// Whether nothing but fresh results, described by the arguments' metadata, comes of the call: it writes to no argument,
// draws no random numbers, has a result, its infer reads no values, and it is not on meta: nothing to put off there.
FLAMBEAU_API bool can_wait(const Call& c);
// Declares the results without memory. Those that are views of arguments are finished.
FLAMBEAU_API void describe(Call& c);

// A call that outlives its frame: it owns its arguments, and knows the storages that wait for its results.
class FLAMBEAU_API KeptCall {
 public:
  explicit KeptCall(const Call& described);
  KeptCall(const KeptCall&) = delete;
  ~KeptCall();
  const OpDef& op() const { return *call_.op; }
  bool reads(const Storage& s) const;           // an argument lies in it
  int fresh_results() const;                    // that still wait
  void for_each_fresh(void (*f)(void*, Storage&), void* context);
  void forget(const Storage& s);                // nobody waits for it any more
  // Runs the call and gives the waiting storages their memory. Throws if an argument was written to since.
  void run();

 private:
  struct Argument {
    TensorRef tensor;
    uint64_t version;
  };
  Tensor* keep(Tensor* t);
  Call call_;
  std::vector<Value> values_;
  std::vector<Argument> tensors_;
  std::vector<std::vector<Tensor*>> lists_;
  std::vector<std::vector<int64_t>> ints_;
  std::vector<std::vector<double>> floats_;
  std::vector<std::unique_ptr<std::string>> strings_;
  std::vector<Object*> objects_;
  std::vector<Storage*> waiting_;  // by result; null: nobody waits
};

}  // namespace flambeau
