#include "stamp.h"

#include "pending.h"

namespace flambeau {
namespace {

constexpr uint64_t kLost = ~uint64_t(0);
uint64_t last_number = 0;

}  // namespace

Stamp stamp_of(const Storage& storage) {
  const Storage& s = *owner_of(const_cast<Storage*>(&storage));
  if (s.followed == kLost || !s.resizable) return {};
  return {s.followed, s.version};
}

void follow_writes(Storage& storage) {
  Storage& s = *owner_of(&storage);
  if (!s.followed && s.resizable) s.followed = ++last_number;
}
void lose_writes(Storage& storage) { owner_of(&storage)->followed = kLost; }
void note_hidden_write(Storage& storage) {
  Storage& s = *owner_of(&storage);
  if (s.followed && s.followed != kLost) s.followed = ++last_number;
}

void give_address(Storage& storage) {
  storage.resizable = owner_of(&storage)->resizable = false;
}

}  // namespace flambeau
