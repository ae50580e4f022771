// The operators that programs can call: those whose kernels are native.
#pragma once
namespace flambeau::standalone {

void define_operators();  // once

}  // namespace flambeau::standalone
