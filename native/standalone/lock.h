// Who may touch objects where there is no Python: whoever has this lock, which kernels give back while they work.
#pragma once
namespace flambeau::standalone {

void lock();
void unlock();
struct Locked {
  Locked() { lock(); }
  ~Locked() { unlock(); }
  Locked(const Locked&) = delete;
};

}  // namespace flambeau::standalone
