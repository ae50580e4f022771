#include "graphs.h"

#include <algorithm>
#include <utility>

#include "../core/generator.h"

namespace flambeau::cuda {
namespace {

constexpr size_t kMostGenerators = 8;
constexpr size_t kState = 2 * sizeof(uint64_t);

std::vector<Recorded*>& open_graphs() {  // under the interpreter lock
  static std::vector<Recorded*> all;
  return all;
}

void write_states(const Recorded& g) {
  const Stream stream = current_stream(g.device);
  for (size_t k = 0; k < g.drawings.size(); ++k) {
    Generator& from = *g.drawings[k].generator;
    const uint64_t state[2] = {from.seed, from.offset};
    check(driver().copy_to_device(g.states->address + k * kState, state, kState, stream), "cuda.graph");
    from.offset += g.drawings[k].count;
  }
}

}  // namespace

RecordedDraws recorded_draws(int device, Generator& g, uint64_t count) {
  const uint64_t capture = capture_of(current_stream(device));
  if (!capture) return {};
  auto& all = open_graphs();
  auto found = std::ranges::find(all, capture, &Recorded::capture);
  if (found == all.end() || (*found)->device != device)
    not_implemented("random numbers in work that another library records: record it with cuda.graph(...)");
  Recorded& r = **found;
  auto known = std::ranges::find_if(r.drawings, [&](const Drawing& d) { return d.generator.get() == &g; });
  if (known == r.drawings.end()) {
    if (r.drawings.size() == kMostGenerators)
      runtime_error("cuda.graph: work that is recorded draws from more than ", kMostGenerators, " generators");
    r.drawings.push_back({Ref<Generator>::borrow(&g), 0});
    known = r.drawings.end() - 1;
  }
  const RecordedDraws draws{r.states->address + size_t(known - r.drawings.begin()) * kState, known->count};
  known->count += count;
  return draws;
}

void begin_graph(Recorded& g, int device, Stream stream, uint64_t pool, int mode) {
  if (g.open || g.exec || g.graph) runtime_error("cuda.graph: this graph is recorded already; call reset() first");
  if (!stream)
    runtime_error("cuda.graph: the default stream cannot be recorded; use cuda.graph(...), or a stream of "
                  "cuda.Stream()");
  use_device(device);
  g.drawings.clear();
  if (!g.states) g.states = allocate(device, kMostGenerators * kState);
  if (!g.states) fail(ErrorKind::OutOfMemory, out_of_memory_text(device, kMostGenerators * kState));
  g.capture = begin_capture(stream, mode);
  open_graphs().push_back(&g);
  g.device = device;
  g.stream = stream;
  g.pool = pool;
  g.open = true;
  begin_pool(device, pool, stream, g.capture);
}

void end_graph(Recorded& g, bool keep_graph) {
  if (!g.open) runtime_error("cuda.graph: nothing is being recorded");
  use_device(g.device);
  g.open = false;
  std::erase(open_graphs(), &g);
  end_pool(g.device, g.pool, g.stream);
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
  write_states(g);
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
  if (Block* states = std::exchange(g.states, nullptr)) give_back(states);
  g.drawings.clear();
}

}  // namespace flambeau::cuda
