// Host memory that the devices can reach (page-locked), kept for reuse: copies to and from it need not be waited for.
#pragma once
#include "stream.h"

namespace flambeau::cuda {

Storage* new_pinned(size_t nbytes);  // a storage of the CPU; count 1
bool is_pinned(const Storage& s);
// Work was launched on that stream that reads or writes s: it is not handed out again before that is over.
void pinned_used(Storage& s, int device, Stream stream);
void empty_host_cache();

struct HostStatistics {
  int64_t blocks = 0, bytes = 0, used_blocks = 0, used_bytes = 0;  // from the driver; in tensors
  int64_t peak_blocks = 0, peak_bytes = 0, peak_used_blocks = 0, peak_used_bytes = 0;
  int64_t driver_allocations = 0, driver_frees = 0, requests = 0;
};
HostStatistics& host_statistics();

}  // namespace flambeau::cuda
