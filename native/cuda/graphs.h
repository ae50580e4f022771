// Recorded work: what is launched on a stream between begin and end, to be launched again as one graph.
#pragma once
#include "stream.h"

namespace flambeau::cuda {

struct Recorded {
  int device = 0;
  Stream stream = nullptr;
  uint64_t pool = 0;  // its memory
  bool open = false;
  Graph graph = nullptr;
  GraphExec exec = nullptr;
};

void begin_graph(Recorded& g, int device, Stream stream, uint64_t pool, int mode);
void end_graph(Recorded& g, bool keep_graph);
void instantiate_graph(Recorded& g, bool keep_graph);
void replay_graph(const Recorded& g);
size_t graph_size(const Recorded& g);                        // nodes
void print_graph(const Recorded& g, const std::string& path);  // in Graphviz' language
void drop_graph(Recorded& g);

}  // namespace flambeau::cuda
