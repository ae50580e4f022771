// What a kernel's image and the threads that run it (threads.cpp) know of each other.
#pragma once

struct dim3 { unsigned x, y, z; };

// One kernel: what runs a thread, where it finds its place, and the image's shared memory.
struct EmulatedKernel {
  void (*body)(void**);
  void** params;
  dim3 *thread, *block, *block_dim, *grid_dim;
  char *shared, *shared_end;
};

struct EmulatedBlock {
  unsigned thread, threads;  // the one that runs; how many there are
  unsigned long long slot[1024];
};

extern "C" {
extern EmulatedBlock emulated;
void emulated_sync_warp(int line);
void emulated_sync_block(int line);
void emulated_launch(const EmulatedKernel& kernel, const unsigned* grid, const unsigned* threads);
}
