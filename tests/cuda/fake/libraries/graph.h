// Graphs of products, pointwise operations, sums and views of cuDNN's backend interface, computed one by one in double
// precision; what lies between two operations is rounded to its dtype.
#pragma once
#include <algorithm>
#include <limits>

#include "backend.h"

namespace graph {

enum { kAdd = 0, kMultiply = 1, kDivide = 6, kSubtract = 9, kExp = 13, kLog = 15, kIdentity = 21, kAtLeast = 303,
       kPosition = 501, kSelect = 601 };
struct Node {
  int kind, mode = -1, computes = 0;
  int64_t axis = -1;
  std::vector<Tensor> in;
  Tensor out;
};
using Program = std::vector<Node>;

inline const char* name_of(const Node& n) {
  static const std::map<int, const char*> pointwise{
      {kAdd, "add"}, {kMultiply, "mul"}, {kDivide, "div"}, {kSubtract, "sub"}, {kExp, "exp"}, {kLog, "log"},
      {kIdentity, "same"}, {kAtLeast, "ge"}, {kPosition, "index"}, {kSelect, "select"}};
  if (n.kind == kProduct) return "matmul";
  if (n.kind == kReshape) return "view";
  if (n.kind == kReduction) return n.mode == 0 ? "sum" : "max";
  return pointwise.at(n.mode);
}

// --- what the descriptors say ----------------------------------------------------------------------------------------

inline int64_t count(const Tensor& t) {
  int64_t n = 1;
  for (int64_t s : t.sizes) n *= s;
  return n;
}
inline bool fits(const Tensor& small, const Tensor& big) {  // repeated where its size is 1
  if (small.sizes.size() != big.sizes.size()) return false;
  for (size_t d = 0; d < big.sizes.size(); ++d)
    if (small.sizes[d] != 1 && small.sizes[d] != big.sizes[d]) return false;
  return true;
}
inline bool is_product(const Node& n) {
  const auto &a = n.in[0].sizes, &b = n.in[1].sizes, &c = n.out.sizes;
  return a.size() == 4 && b.size() == 4 && c.size() == 4 && a[0] == c[0] && b[0] == c[0] && a[1] == c[1] &&
         c[1] % b[1] == 0 && a[2] == c[2] && b[3] == c[3] && a[3] == b[2];
}
inline bool consistent(const Node& n) {
  if (n.kind == kProduct) return is_product(n);
  if (n.kind == kReduction) return fits(n.out, n.in[0]);
  if (n.kind == kReshape) return count(n.out) == count(n.in[0]);
  const size_t wanted = n.mode == kSelect ? 3 : n.mode < kExp || n.mode == kAtLeast ? 2 : 1;
  if (n.in.size() != wanted || (n.mode == kPosition) != (n.axis >= 0) || (n.mode == kAtLeast) != (n.computes == 11))
    return false;
  return std::all_of(n.in.begin(), n.in.end(), [&](const Tensor& t) { return fits(t, n.out); });
}
// Of one operation; false where something is missing or does not fit.
inline bool read(const Desc& d, Node& n) {
  n.kind = d.kind;
  auto finished = [&](int attribute) { return d.has(attribute) && known(d.one<Desc*>(attribute)) &&
                                              d.one<Desc*>(attribute)->finished; };
  auto tensors = [&](std::vector<int> inputs, int output) {
    for (int a : inputs)
      if (finished(a)) n.in.push_back(tensor_of(*d.one<Desc*>(a)));
    if (!finished(output)) return false;
    n.out = tensor_of(*d.one<Desc*>(output));
    return !n.in.empty();
  };
  if (d.kind == kProduct)
    return finished(1523) && tensors({1520, 1521}, 1522) && n.in.size() == 2 && consistent(n);
  if (d.kind == kReshape) return tensors({2200}, 2201) && consistent(n);
  const int how = d.kind == kPointwise ? 750 : 1612;
  if (!finished(how)) return false;
  const Desc& mode = *d.one<Desc*>(how);
  n.mode = mode.one<int>(d.kind == kPointwise ? 0 : 1600);
  n.computes = mode.one<int>(d.kind == kPointwise ? 1 : 1601);
  if (mode.has(9)) n.axis = mode.one<int64_t>(9);
  return (d.kind == kPointwise ? tensors({751, 752, 758}, 753) : tensors({1610}, 1611)) && consistent(n);
}
// Whether what lies between operations is written once, before it is read.
inline bool ordered(const Program& p) {
  std::set<int64_t> made;
  for (const Node& n : p) {
    for (const Tensor& t : n.in)
      if (t.between && !made.contains(t.id)) return false;
    if (n.out.is_number || !made.insert(n.out.id).second) return false;
  }
  return true;
}
inline std::string text(const Program& p) {
  std::string s;
  for (const Node& n : p) s += (s.empty() ? "" : " ") + std::string(name_of(n));
  return s;
}

// --- computing -------------------------------------------------------------------------------------------------------

inline double rounded(int type, double v) {
  alignas(16) char room[16];
  if (type != 0 && type != 2 && type != 14) return v;
  store(type, room, 0, v);
  return load(type, room, 0).real();
}
struct Memory {
  std::map<int64_t, void*> places;                 // of operands
  std::map<int64_t, double> numbers;               // read when the run begins
  std::map<int64_t, std::vector<double>> between;  // by their strides

  double get(const Tensor& t, int64_t at) const {
    if (t.is_number) return numbers.at(t.id);
    return t.between ? between.at(t.id)[size_t(at)] : load(t.type, places.at(t.id), at).real();
  }
  void put(const Tensor& t, int64_t at, double v) {
    if (!t.between) return store(t.type, places.at(t.id), at, v);
    auto& values = between[t.id];
    if (values.size() <= size_t(at)) values.resize(t.bytes() / bytes_of(t.type));
    values[size_t(at)] = rounded(t.type, v);
  }
};
// f(coordinates) in row-major order
template <class F>
void each(const std::vector<int64_t>& sizes, F f) {
  std::vector<int64_t> at(sizes.size());
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  for (int64_t e = 0; e < n; ++e) {
    int64_t rest = e;
    for (size_t d = sizes.size(); d-- > 0; rest /= sizes[d]) at[d] = rest % sizes[d];
    f(at);
  }
}
inline int64_t place(const Tensor& t, const std::vector<int64_t>& at) {
  int64_t sum = 0;
  for (size_t d = 0; d < at.size(); ++d) sum += t.sizes[d] == 1 ? 0 : at[d] * t.strides[d];
  return sum;
}
inline double formula(const Node& n, const double* v, const std::vector<int64_t>& at) {
  switch (n.mode) {
    case kAdd: return v[0] + v[1];
    case kMultiply: return v[0] * v[1];
    case kDivide: return v[0] / v[1];
    case kSubtract: return v[0] - v[1];
    case kExp: return std::exp(v[0]);
    case kLog: return std::log(v[0]);
    case kAtLeast: return v[0] >= v[1];
    case kPosition: return double(at[size_t(n.axis)]);
    case kSelect: return v[2] ? v[0] : v[1];
    default: return v[0];
  }
}
inline void compute(const Node& n, Memory& m) {
  if (n.kind == kReshape) {
    const int64_t far = int64_t(n.in[0].bytes() / bytes_of(n.in[0].type));
    for (int64_t at = 0; at < far; ++at) m.put(n.out, at, m.get(n.in[0], at));
  } else if (n.kind == kReduction) {
    each(n.out.sizes, [&](const auto& at) { m.put(n.out, place(n.out, at), n.mode ? -INFINITY : 0.); });
    each(n.in[0].sizes, [&](const auto& at) {
      const double v = m.get(n.in[0], place(n.in[0], at));
      const int64_t to = place(n.out, at);
      const double old = m.get(n.out, to);
      m.put(n.out, to, n.mode ? std::max(old, v) : old + v);
    });
  } else if (n.kind == kProduct) {
    const Tensor &a = n.in[0], &b = n.in[1];
    const int64_t share = n.out.sizes[1] / b.sizes[1];
    each(n.out.sizes, [&](const auto& at) {
      double sum = 0;
      for (int64_t k = 0; k < a.sizes[3]; ++k)
        sum += m.get(a, place(a, {at[0], at[1], at[2], k})) * m.get(b, place(b, {at[0], at[1] / share, k, at[3]}));
      m.put(n.out, place(n.out, at), sum);
    });
  } else {
    each(n.out.sizes, [&](const auto& at) {
      double v[3] = {};
      for (size_t k = 0; k < n.in.size(); ++k) v[k] = m.get(n.in[k], place(n.in[k], at));
      m.put(n.out, place(n.out, at), formula(n, v, at));
    });
  }
}
// Puts a run's operands and numbers where they belong; false where one is missing or is no memory.
inline bool bind(const Program& p, const std::vector<int64_t>& ids, const std::vector<void*>& places, Memory& m) {
  for (size_t k = 0; k < ids.size(); ++k) m.places[ids[k]] = places[k];
  for (const Node& n : p) {
    std::vector<Tensor> tensors = n.in;
    tensors.push_back(n.out);
    for (const Tensor& t : tensors) {
      if (t.between) continue;
      auto found = m.places.find(t.id);
      if (found == m.places.end()) return false;
      if (t.is_number) m.numbers[t.id] = load(t.type, found->second, 0).real();
      else if (!valid(found->second, t.bytes()) || reinterpret_cast<uintptr_t>(found->second) % size_t(t.alignment))
        return false;
    }
  }
  return true;
}
inline void compute(const Program& p, Memory& m) {
  for (const Node& n : p) compute(n, m);
}

}  // namespace graph
