#include "graphs.h"

#include <utility>

#include "allocator.h"

namespace flambeau::cuda {

void begin_graph(Recorded& g, int device, Stream stream, uint64_t pool, int mode) {
  if (g.open || g.exec || g.graph) runtime_error("cuda.graph: this graph is recorded already; call reset() first");
  if (!stream)
    runtime_error("cuda.graph: the default stream cannot be recorded; use cuda.graph(...), or a stream of "
                  "cuda.Stream()");
  use_device(device);
  begin_capture(stream, mode);
  g.device = device;
  g.stream = stream;
  g.pool = pool;
  g.open = true;
  begin_pool(device, pool, stream);
}

void end_graph(Recorded& g, bool keep_graph) {
  if (!g.open) runtime_error("cuda.graph: nothing is being recorded");
  use_device(g.device);
  g.open = false;
  end_pool(g.device, g.pool);
  try {
    g.graph = end_capture(g.stream);
    if (!keep_graph) instantiate_graph(g, false);
  } catch (const Error&) {
    drop_pool(g.device, g.pool);
    throw;
  }
}

void instantiate_graph(Recorded& g, bool keep_graph) {
  if (!g.graph) runtime_error("cuda.graph: there is no recorded graph to instantiate; keep it with keep_graph=True");
  if (GraphExec old = std::exchange(g.exec, nullptr)) driver().exec_destroy(old);
  constexpr unsigned long long kFreeAtLaunch = 1;
  check(driver().graph_instantiate(&g.exec, g.graph, kFreeAtLaunch), "cuda.graph");
  if (!keep_graph) check(driver().graph_destroy(std::exchange(g.graph, nullptr)), "cuda.graph");
}

void replay_graph(const Recorded& g) {
  if (!g.exec) runtime_error("cuda.graph: replay() before anything was recorded");
  use_device(g.device);
  note_launch("cuda.graph");
  check(driver().graph_launch(g.exec, current_stream(g.device)), "cuda.graph");
}

size_t graph_size(const Recorded& g) {
  if (!g.graph) runtime_error("cuda.graph: the graph is not kept; record it with CUDAGraph(keep_graph=True)");
  size_t count = 0;
  check(driver().graph_nodes(g.graph, nullptr, &count), "cuda.graph");
  return count;
}

void print_graph(const Recorded& g, const std::string& path) {
  if (!g.graph) runtime_error("cuda.graph: the graph is not kept; record it with CUDAGraph(keep_graph=True)");
  check(driver().graph_print(g.graph, path.c_str(), 1), "cuda.graph");
}

void drop_graph(Recorded& g) {
  if (in_bad_fork()) return;
  if (g.open) end_graph(g, true);
  const bool held = g.graph || g.exec;
  if (Graph graph = std::exchange(g.graph, nullptr)) driver().graph_destroy(graph);
  if (GraphExec exec = std::exchange(g.exec, nullptr)) driver().exec_destroy(exec);
  if (held) drop_pool(g.device, g.pool);
}

}  // namespace flambeau::cuda
