// Recorded work: what is launched on a stream between begin and end, to be launched again as one graph.
#pragma once
#include <vector>

#include "allocator.h"
#include "stream.h"

namespace flambeau {
struct Generator;
}

namespace flambeau::cuda {

// A generator that recorded work draws from: its state lies on the device, written before each replay.
struct Drawing {
  Ref<Generator> generator;
  uint64_t count = 0;  // of one replay
};

struct Recorded {
  int device = 0;
  Stream stream = nullptr;
  uint64_t pool = 0;  // its memory
  uint64_t capture = 0;  // the driver's number of the recording that goes on
  bool open = false;
  Graph graph = nullptr;
  GraphExec exec = nullptr;
  Block* states = nullptr;  // seed and offset of each of the drawings
  std::vector<Drawing> drawings;
};
// Where a kernel that is recorded finds its generator's seed and offset, and how far from there it begins; state 0:
// nothing is recorded on that device.
struct RecordedDraws {
  Address state = 0;
  uint64_t offset = 0;
};
RecordedDraws recorded_draws(int device, Generator& g, uint64_t count);

void begin_graph(Recorded& g, int device, Stream stream, uint64_t pool, int mode);
void end_graph(Recorded& g, bool keep_graph);
void instantiate_graph(Recorded& g, bool keep_graph);
void replay_graph(const Recorded& g);
size_t graph_size(const Recorded& g);                        // nodes
void print_graph(const Recorded& g, const std::string& path);  // in Graphviz' language
void drop_graph(Recorded& g);

}  // namespace flambeau::cuda
