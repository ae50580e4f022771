// The parts of flambeau._C._cuda.
#pragma once

struct _object;

namespace flambeau {

void add_cuda(_object* module);
void add_cuda_history(_object* module);  // what happened to memory, and where in the program
void add_cuda_ipc(_object* module);      // memory and events for other processes
void add_cuda_plans(_object* module);    // what is asked of plans and libraries beside calls
void add_cuda_tensors(_object* module);  // pinned memory, memory of others, generators, graphs

}  // namespace flambeau
