// Plans that were made elsewhere: by Python's passes (flambeau/compiler), now or when the program was exported.
#pragma once
#include "plan.h"
#include "words.h"

namespace flambeau {

// The plan that the words describe (flambeau/compiler/_lowering.py writes them), for a program of its key. ValueError
// for what is none.
std::unique_ptr<Plan> read_plan(const Program& p, Words words);
// A tensor over memory from outside, as use `use` says; ValueError where that is a result.
PlanArg from_outside(const Program& p, int64_t use, Plan& plan);

}  // namespace flambeau
