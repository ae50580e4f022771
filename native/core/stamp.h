// Whether memory still holds what it held, without reading it. Somebody who has made something of a parameter, such as
// weights in another order, keeps it under the stamp of its memory, which changes with every write.
//
// Memory is followed from the moment when it is a parameter's. Writes through its tensors count in `version`; those
// through x.data, which autograd is not told of, change `followed`. It is lost for good when somebody else can write:
// whoever has asked for its address, or a compiled function, whose writes are counted when it is written down.
#pragma once
#include "tensor.h"

namespace flambeau {

struct Stamp {
  uint64_t memory = 0, writes = 0;
  explicit operator bool() const { return memory; }  // false: nobody can tell
};
Stamp stamp_of(const Storage& s);

void follow_writes(Storage& s);  // from now on, unless it is lost
void lose_writes(Storage& s);
void note_hidden_write(Storage& s);  // one that `version` does not count
// Its address goes to somebody who may write there at any time, or whose memory it is: it can no longer move.
void give_address(Storage& s);

inline void count_write(Storage& s, uint64_t times = 1) {
  s.version += times;
  if (__builtin_expect(!s.resizable, 0)) note_hidden_write(s);  // it may show the memory of another one
}

}  // namespace flambeau
