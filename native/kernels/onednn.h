// oneDNN behind small things: the engine and stream, and its names of dtypes.
//
// Creating a primitive costs up to milliseconds (it compiles code), running it microseconds, so every primitive is kept
// (recent.h) under a key that spells out shapes, formats and dtypes.
#pragma once
#ifdef FLAMBEAU_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>

#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../core/call.h"
#include "recent.h"

namespace flambeau::onednn {

inline dnnl::engine& engine() {
  static auto* e = new dnnl::engine(dnnl::engine::kind::cpu, 0);  // never destroyed: outlives static destructors
  return *e;
}
inline dnnl::stream& stream() {
  static thread_local dnnl::stream s(engine());
  return s;
}
inline dnnl::memory::data_type data_type(DType t) {
  using D = dnnl::memory::data_type;
  return t == DType::BFloat16 ? D::bf16 : t == DType::Float16 ? D::f16 : D::f32;
}

// Whether it has only its loops of reference for this, which are hundreds of times slower than any other.
template <class Description>
bool only_reference(const Description& d) { return std::string_view(d.impl_info_str()).starts_with("ref"); }

}  // namespace flambeau::onednn
#endif
