// Which operators can be steps of a chain.
#include "chain.h"

#include "../core/machine.h"

namespace flambeau {

static ChainKernels chain_kernels[2];

ChainRegistration::ChainRegistration(int level, ChainKernels (*made)()) {
  if (level <= cpu_level()) chain_kernels[level] = made();
}

const ChainLoop* chain_loop(DType dtype) {
  static const ChainKernels& chosen = chain_kernels[chain_kernels[kAvx512].f32.go ? kAvx512 : kBaseline];
  return dtype == DType::Float32 ? &chosen.f32 : dtype == DType::Float64 ? &chosen.f64 : nullptr;
}

ChainOp chain_op(std::string_view name) {
  static constexpr std::pair<std::string_view, ChainOp> kSteps[] = {
      {"add", ChainOp::Add},       {"sub", ChainOp::Sub},   {"rsub", ChainOp::SubFrom}, {"mul", ChainOp::Mul},
      {"div", ChainOp::Div},       {"neg", ChainOp::Neg},   {"square", ChainOp::Square}, {"relu", ChainOp::Relu},
      {"sqrt", ChainOp::Sqrt},
  };
  for (const auto& [known, op] : kSteps)
    if (known == name) return op;
  return ChainOp::None;
}

}  // namespace flambeau
