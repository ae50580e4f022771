// Which calls of a plan run as one, and plans that native code makes by itself: of programs that are pointwise calls
// alone, as derivative rules are, where one walk over the memory does all of them; and of any others, call by call.
#pragma once
#include <memory>

#include "plan.h"

namespace flambeau {

// Calls that run together, over the shape of the leader's result; or one call.
struct CallGroup {
  int leader;
  std::vector<PlanCall> calls;
};
// Appends a step for each of the groups, which are in the order in which they run.
void add_steps(Plan& plan, std::vector<CallGroup> groups);

// Elements from which one walk is faster than several, with the time that it takes to find its plan.
inline constexpr int64_t kWorthJoining = 1 << 15;

// Whether the call may be part of a program of pointwise calls.
bool goes_together(const Call& c);
std::unique_ptr<Plan> plan_together(const Program& p);
// A plan of any program: its calls, one after the other.
std::unique_ptr<Plan> plan_calls(const Program& p);

}  // namespace flambeau
