// The table of pointwise loops: files register theirs, and the best instruction set wins, entry by entry.
#include <array>
#include <unordered_map>

#include "../core/machine.h"
#include "elementwise.h"

namespace flambeau {

static std::unordered_map<std::string_view, ElementwiseRow>& table() {
  static std::unordered_map<std::string_view, ElementwiseRow> rows;
  return rows;
}

// Files register in any order: a loop of the better instruction set replaces one of the baseline, never the reverse.
// Exported, so that rows may stand in a library of their own (examples/add_an_operator).
__attribute__((visibility("default"))) ElementwiseRows::ElementwiseRows(int level, void (*make)(ElementwiseRows&))
    : level(level) {
  if (level <= cpu_level()) make(*this);
}

__attribute__((visibility("default"))) void ElementwiseRows::add(std::initializer_list<ElementwiseRow> rows) {
  static std::unordered_map<std::string_view, std::array<int8_t, kDTypes>> levels;
  for (const ElementwiseRow& row : rows) {
    auto [at, fresh] = table().try_emplace(row.name, ElementwiseRow{row.name});
    ElementwiseRow& merged = at->second;
    auto [seen, first] = levels.try_emplace(row.name);
    if (first) seen->second.fill(-1);
    for (int d = 0; d < kDTypes; ++d) {
      if (!row.loop[d] || level <= seen->second[d]) continue;
      merged.loop[d] = row.loop[d];
      merged.beside_number[d] = row.beside_number[d];
      seen->second[d] = int8_t(level);
    }
    if (row.operands) {
      merged.operands = row.operands;
      merged.bool_operands = row.bool_operands;
      merged.any_stride = row.any_stride;
      merged.weight = std::max(merged.weight, row.weight);
    }
    merged.modular |= row.modular;
    merged.in_order |= row.in_order;
    if (row.adapt) merged.adapt = row.adapt;
  }
}

const ElementwiseRow* find_elementwise(std::string_view name) {
  auto at = table().find(name);
  return at == table().end() ? nullptr : &at->second;
}

}  // namespace flambeau
