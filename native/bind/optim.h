// _C.optim_step, the fused step of the optimizers. Defined in optim.cpp.
#pragma once
struct _object;

namespace flambeau {

void add_optim(_object* module);

}  // namespace flambeau
