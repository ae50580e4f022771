// Parts of captured programs as Python's objects.
#pragma once
#include <functional>

#include "../runtime/program.h"
#include "python.h"

namespace flambeau {

// graph_plan.cpp
PyObject* argument_object(const Value& v, const Arg& arg);  // tensors: ("use", number), ("uses", numbers); new
PyObject* numbers_object(std::span<const int64_t> numbers);  // a tuple; new
extern thread_local PyObject* noted_plans;  // to which plans are added, as (key, where sizes are, words)
// graph_look.cpp
PyObject* listened(const std::function<void()>& run);  // what happened to captured calls meanwhile: a list; new

}  // namespace flambeau
