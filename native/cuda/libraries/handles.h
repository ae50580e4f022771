// Handles of NVIDIA's libraries, which live as long as the program: one of each device where all that a handle works in
// is scratch memory of the call, one of each stream where it has memory of its own. Under the interpreter lock.
#pragma once
#include <map>
#include <utility>

#include "../stream.h"

namespace flambeau::cuda {

template <class Handle>
class Handles {
 public:
  // `create` makes one on the current device, which is `device`, or throws.
  template <class Create>
  Handle* of_device(int device, const Create& create) { return of_stream(device, nullptr, create); }
  template <class Create>
  Handle* of_stream(int device, Stream stream, const Create& create) {
    Handle*& handle = made_[{device, stream}];
    if (!handle) create(&handle);
    return handle;
  }
  bool has(int device, Stream stream) const {
    const auto found = made_.find({device, stream});
    return found != made_.end() && found->second;
  }

 private:
  std::map<std::pair<int, Stream>, Handle*> made_;
};

}  // namespace flambeau::cuda
