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
  // Memory is about to be read, or a random number drawn: kept calls that write to it, or draw, must run first.
  virtual void before_read(const Tensor&) {}
  virtual void before_draw() {}
};
// Sets this thread's recorder (null: none) and returns the one before.
FLAMBEAU_API Recorder* exchange_recorder(Recorder* recorder);
// Called before memory is written outside of execute(), and before the default generator is used there. (Before it is
// read: need_values in tensor.h.)
void about_to_write(const Tensor& t);
void about_to_draw();

// Calls f with every argument that the call writes to.
template <class F> void each_written(const Call& c, F f) {
  const auto& args = c.op->schema.args;
  if (c.op->writes_self) f(c.tensor(0));
  if (!c.op->writes_more) return;
  auto is_set = [&](const std::string& flag) {
    for (int k = 0; k < c.nargs; ++k)
      if (args[size_t(k)].name == flag) return c.boolean(k);
    return true;
  };
  for (int k = 0; k < c.nargs; ++k) {
    if (!args[size_t(k)].written || !is_set(args[size_t(k)].written_if)) continue;
    if (Tensor* t = c.optional_tensor(k)) f(*t);
    if (c.args[k].tag != Tag::Tensors) continue;
    for (Tensor* t : c.tensors(k))
      if (t) f(*t);
  }
}

// Whether infer looks at values of this call's arguments.
FLAMBEAU_API bool reads_values(const Call& c);

// Whether the results are described by the arguments' metadata: its infer reads no values, it has a result, and it is
// not on meta, where nothing is to put off.
FLAMBEAU_API bool can_describe(const Call& c);

// Whether nothing else comes of it: it writes to no argument and draws no random numbers.
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
