// cuBLAS: the handle of each device, for the calls of cublas.cpp and cublas_grouped.cpp. What it works in is scratch
// memory of the call: its own would be shared by all streams, and by recorded graphs that run at the same time.
#pragma once
#include "calls.h"

namespace flambeau::cuda::cublas {

using Status = int;
struct Handle;
inline constexpr const char* kName = "cuBLAS";

void check(Status s, const char* op, const char* where);
Handle* handle_of(int device, const Constants& constants);
// Bytes that products and decompositions work in at full speed, as NVIDIA recommends them for a kind of GPU.
size_t workspace_of(int device);
// Before a call's first function, and after anything that may give the interpreter lock away: other threads use the
// same handle on other streams.
void follow(Handle* handle, const LibrarySite& at, size_t workspace);

}  // namespace flambeau::cuda::cublas
