// A cuFFT for tests: transforms by their definition, on the fake driver's memory.
#include <cmath>
#include <numbers>

#include "common.h"

namespace {

enum { kAllocFailed = 2, kInvalidType = 3, kInvalidValue = 4 };
struct Plan : OfDevice {
  std::vector<long long> n;
  int type = 0;
  long long batch = 0;
  void *stream = nullptr, *workspace = nullptr;
  bool automatic = true;
};
constexpr size_t kWorkspace = 1024;
std::map<int, Plan*>& plans() {
  static auto* p = new std::map<int, Plan*>;
  return *p;
}
Plan* plan_of(int id) {
  auto found = plans().find(id);
  return found == plans().end() ? nullptr : found->second;
}
long long count(const std::vector<long long>& n, bool half) {
  long long c = 1;
  for (size_t d = 0; d < n.size(); ++d) c *= half && d + 1 == n.size() ? n[d] / 2 + 1 : n[d];
  return c;
}

// The full transform of one grid of complex numbers.
void transform(const std::vector<long long>& n, std::vector<Number>& x, int direction) {
  long long inner = 1;
  for (int d = int(n.size()) - 1; d >= 0; inner *= n[size_t(d--)]) {
    const long long size = n[size_t(d)], outer = (long long)x.size() / size / inner;
    std::vector<Number> line(static_cast<size_t>(size));
    for (long long o = 0; o < outer; ++o)
      for (long long i = 0; i < inner; ++i) {
        auto at = [&](long long k) -> Number& { return x[size_t((o * size + k) * inner + i)]; };
        for (long long k = 0; k < size; ++k) {
          Number sum = 0;
          for (long long j = 0; j < size; ++j)
            sum += at(j) * std::polar(1.0, direction * 2 * std::numbers::pi * double(j * k % size) / double(size));
          line[size_t(k)] = sum;
        }
        for (long long k = 0; k < size; ++k) at(k) = line[size_t(k)];
      }
  }
}

int execute(int id, void* x, void* out, int type, int direction) {
  Plan* p = plan_of(id);
  if (!p || p->type != type || p->automatic || !valid(p->workspace, kWorkspace)) return kInvalidValue;
  const bool wide = type & 0x40, from_real = (type & ~0x40) == 0x2a, to_real = (type & ~0x40) == 0x2c;
  const int real = wide ? 1 : 0, complex = wide ? 5 : 4;
  const auto n = p->n;
  const long long in = count(n, to_real), made = count(n, from_real), batch = p->batch;
  if (!valid(x, size_t(in * batch) * bytes_of(from_real ? real : complex)) ||
      !valid(out, size_t(made * batch) * bytes_of(to_real ? real : complex)))
    return kInvalidValue;
  return submit(p, p->stream, [=] {
    const long long all = count(n, false), last = n.back(), half = last / 2 + 1;
    for (long long b = 0; b < batch; ++b) {
      std::vector<Number> grid(static_cast<size_t>(all));
      for (long long e = 0; e < all; ++e) {
        if (!to_real) {
          grid[size_t(e)] = load(from_real ? real : complex, x, b * in + e);
          continue;
        }
        // what is left out is the conjugate of the opposite element
        std::vector<long long> at(n.size());
        long long rest = e, source = 0;
        for (int d = int(n.size()) - 1; d >= 0; rest /= n[size_t(d--)]) at[size_t(d)] = rest % n[size_t(d)];
        const bool mirrored = at.back() >= half;
        for (size_t d = 0; d < n.size(); ++d)
          source = source * (d + 1 == n.size() ? half : n[d]) + (mirrored ? (n[d] - at[d]) % n[d] : at[d]);
        const Number v = load(complex, x, b * in + source);
        grid[size_t(e)] = mirrored ? std::conj(v) : v;
      }
      transform(n, grid, from_real ? -1 : to_real ? 1 : direction);
      for (long long e = 0; e < made; ++e)
        store(to_real ? real : complex, out, b * made + e, grid[size_t(from_real ? e / half * last + e % half : e)]);
    }
    if (to_real)  // as the library may: what was read is lost
      for (long long e = 0; e < in * batch; ++e) store(complex, x, e, Number(NAN, NAN));
  });
}

}  // namespace

API int cufftCreate(int* id) {
  ENTER("create");
  static int next = 0;
  plans()[*id = ++next] = make(new Plan);
  return 0;
}
API int cufftDestroy(int id) {
  Plan* p = plan_of(id);
  plans().erase(id);
  return p && drop(p) ? 0 : 1;
}
API int cufftSetAutoAllocation(int id, int on) { ENTER("allocation"); plan_of(id)->automatic = on; return 0; }
API int cufftMakePlanMany64(int id, int rank, long long* n, long long* inside, long long, long long, long long* outside,
                            long long, long long, int type, long long batch, size_t* workspace) {
  ENTER("make");
  Plan* p = plan_of(id);
  if (!p || rank < 1 || rank > 3 || inside || outside || batch < 1) return kInvalidValue;
  p->n.assign(n, n + rank);
  p->type = type;
  p->batch = batch;
  *workspace = kWorkspace;
  return 0;
}
API int cufftSetStream(int id, void* s) { ENTER("set_stream"); plan_of(id)->stream = s; return 0; }
API int cufftSetWorkArea(int id, void* p) { ENTER("set_workspace"); plan_of(id)->workspace = p; return 0; }
#define EXECUTE(NAME, TYPE)                                                         \
  API int cufftExec##NAME(int id, void* x, void* out) { ENTER("execute"); return execute(id, x, out, TYPE, 0); }
EXECUTE(R2C, 0x2a)
EXECUTE(D2Z, 0x6a)
EXECUTE(C2R, 0x2c)
EXECUTE(Z2D, 0x6c)
API int cufftExecC2C(int id, void* x, void* out, int way) { ENTER("execute"); return execute(id, x, out, 0x29, way); }
API int cufftExecZ2Z(int id, void* x, void* out, int way) { ENTER("execute"); return execute(id, x, out, 0x69, way); }
