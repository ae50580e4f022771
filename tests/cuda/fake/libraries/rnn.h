// Recurrent layers of the fake cuDNN: packed rows, in double. Weights lie layer by layer, side by side, gate by gate with
// gaps between the blocks; what the way back needs of its first half lies in the reserve.
#pragma once
#include <numeric>

namespace rnn {

struct Dropout {
  bool set = false;
};
struct Desc {
  int mode = -1, bias = 0, sides = 1, type = 0, precision = 0, math = 0;
  int64_t inputs = 0, hidden = 0, layers = 1;
  int64_t gates() const { return mode == 2 ? 4 : mode == 3 ? 3 : 1; }
  static constexpr int64_t kGap = 8;
  int64_t block(bool recurrent) const { return gates() * hidden * (recurrent ? hidden : inputs) + kGap; }
  int64_t per_side() const { return block(false) + block(true) + 2 * gates() * hidden + kGap; }
  int64_t matrix(int64_t side, int64_t which) const {  // which: the input's gates, then the state's
    const bool recurrent = which >= gates();
    return side * per_side() + (recurrent ? block(false) : 0) + which % gates() * hidden * (recurrent ? hidden : inputs);
  }
  int64_t vector(int64_t side, int64_t which) const {
    return side * per_side() + block(false) + block(true) + which * hidden;
  }
  // Layers above the first read what the one below has made.
  Desc layer(int64_t l) const {
    Desc d = *this;
    d.layers = 1;
    if (l) d.inputs = sides * hidden;
    return d;
  }
  int64_t before(int64_t l) const { return l ? sides * (per_side() + (l - 1) * layer(1).per_side()) : 0; }
  int64_t count() const { return before(layers); }
};
struct Data {
  int type = -1, layout = -1, width = 0;
  std::vector<int> lengths;
  int64_t rows() const { return std::accumulate(lengths.begin(), lengths.end(), int64_t(0)); }
  int64_t row(int64_t t, int64_t b) const {  // rows of step 0, then of step 1, …
    int64_t at = b;
    for (int n : lengths) at += std::min<int64_t>(n, t);
    return at;
  }
  size_t bytes() const { return made(width); }
  size_t made(int64_t wide) const { return size_t(rows() * wide) * bytes_of(type); }  // rows of that width
};

inline double sigmoid(double v) { return 1 / (1 + std::exp(-v)); }

// One step of one sequence: what its gates get from the input and from the state, and what comes out.
struct Step {
  std::vector<double> x, r, h, c;
};

struct Walk {
  Desc d;
  Data in;
  const void *x, *hx, *cx, *w;
  double number(const void* p, int64_t at) const { return p ? load(d.type, p, at).real() : 0; }
  int64_t state(int64_t side, int64_t b, int64_t j) const {
    return (side * int64_t(in.lengths.size()) + b) * d.hidden + j;
  }
  std::vector<double> start(const void* p, int64_t side, int64_t b) const {
    std::vector<double> v(size_t(d.hidden));
    for (int64_t j = 0; j < d.hidden; ++j) v[size_t(j)] = number(p, state(side, b, j));
    return v;
  }
  Step step(int64_t side, int64_t row, const std::vector<double>& h, const std::vector<double>& c) const {
    const int64_t n = d.hidden, g = d.gates();
    Step s{std::vector<double>(size_t(g * n)), std::vector<double>(size_t(g * n)), h, c};
    for (int64_t k = 0; k < g; ++k)
      for (int64_t j = 0; j < n; ++j) {
        double &a = s.x[size_t(k * n + j)], &b = s.r[size_t(k * n + j)];
        if (d.bias) a = number(w, d.vector(side, k) + j), b = number(w, d.vector(side, g + k) + j);
        for (int64_t i = 0; i < d.inputs; ++i)
          a += number(w, d.matrix(side, k) + j * d.inputs + i) * number(x, row * d.inputs + i);
        for (int64_t i = 0; i < n; ++i) b += number(w, d.matrix(side, g + k) + j * n + i) * h[size_t(i)];
      }
    for (int64_t j = 0; j < n; ++j) {
      auto sum = [&](int64_t k) { return s.x[size_t(k * n + j)] + s.r[size_t(k * n + j)]; };
      double &out = s.h[size_t(j)], old = h[size_t(j)];
      if (d.mode == 0) out = std::max(sum(0), 0.0);
      if (d.mode == 1) out = std::tanh(sum(0));
      if (d.mode == 2) {
        s.c[size_t(j)] = sigmoid(sum(1)) * c[size_t(j)] + sigmoid(sum(0)) * std::tanh(sum(2));
        out = sigmoid(sum(3)) * std::tanh(s.c[size_t(j)]);
      }
      if (d.mode == 3) {
        const double z = sigmoid(sum(1)), m = std::tanh(s.x[size_t(2 * n + j)] + sigmoid(sum(0)) * s.r[size_t(2 * n + j)]);
        out = (1 - z) * m + z * old;
      }
    }
    return s;
  }
  const void* moved(const void* p, int64_t numbers) const {
    return p ? static_cast<const char*>(p) + numbers * int64_t(bytes_of(d.type)) : nullptr;
  }
  void* moved(void* p, int64_t numbers) const { return const_cast<void*>(moved(static_cast<const void*>(p), numbers)); }
  int64_t states() const { return d.sides * int64_t(in.lengths.size()) * d.hidden; }  // of one layer
  size_t between() const { return in.made(d.sides * d.hidden); }                    // bytes that a layer makes
  int64_t gates() const { return in.rows() * d.sides * 2 * d.gates() * d.hidden; }  // of one layer, there and of states
  // The layer l, which reads `from`.
  Walk layer(int64_t l, const void* from) const {
    return {d.layer(l), in, from, moved(hx, l * states()), moved(cx, l * states()), moved(w, d.before(l))};
  }
  // The steps of a sequence in a direction's order.
  int64_t time(int64_t side, int64_t b, int64_t k) const { return side ? in.lengths[size_t(b)] - 1 - k : k; }
};

inline void forward(const Walk& k, void* y, void* hy, void* cy) {
  const int64_t n = k.d.hidden;
  for (int64_t side = 0; side < k.d.sides; ++side)
    for (int64_t b = 0; b < int64_t(k.in.lengths.size()); ++b) {
      auto h = k.start(k.hx, side, b), c = k.start(k.cx, side, b);
      for (int64_t t = 0; t < k.in.lengths[size_t(b)]; ++t) {
        const int64_t row = k.in.row(k.time(side, b, t), b);
        const Step s = k.step(side, row, h, c);
        h = s.h, c = s.c;
        for (int64_t j = 0; j < n; ++j) store(k.d.type, y, (row * k.d.sides + side) * n + j, h[size_t(j)]);
      }
      for (int64_t j = 0; j < n; ++j) {
        if (hy) store(k.d.type, hy, k.state(side, b, j), h[size_t(j)]);
        if (cy) store(k.d.type, cy, k.state(side, b, j), c[size_t(j)]);
      }
    }
}

// Gradients of what a step's gates got: of x in `a`, of r in `b`; dh and dc become those of the state before.
inline void step_back(const Walk& k, int64_t side, const Step& s, const std::vector<double>& old_h,
                      const std::vector<double>& old_c, std::vector<double>& dh, std::vector<double>& dc, double* a,
                      double* b) {
  const int64_t n = k.d.hidden, g = k.d.gates();
  std::vector<double> before(size_t(n), 0.0);
  for (int64_t j = 0; j < n; ++j) {
    auto sum = [&](int64_t q) { return s.x[size_t(q * n + j)] + s.r[size_t(q * n + j)]; };
    auto both = [&](int64_t q, double v) { a[q * n + j] = b[q * n + j] = v; };
    const double up = dh[size_t(j)];
    if (k.d.mode == 0) both(0, sum(0) > 0 ? up : 0);
    if (k.d.mode == 1) both(0, up * (1 - s.h[size_t(j)] * s.h[size_t(j)]));
    if (k.d.mode == 2) {
      const double i = sigmoid(sum(0)), f = sigmoid(sum(1)), m = std::tanh(sum(2)), o = sigmoid(sum(3));
      const double tc = std::tanh(s.c[size_t(j)]), to_c = dc[size_t(j)] + up * o * (1 - tc * tc);
      both(0, to_c * m * i * (1 - i)), both(1, to_c * old_c[size_t(j)] * f * (1 - f));
      both(2, to_c * i * (1 - m * m)), both(3, up * tc * o * (1 - o));
      dc[size_t(j)] = to_c * f;
    }
    if (k.d.mode == 3) {
      const double r = sigmoid(sum(0)), z = sigmoid(sum(1)), rn = s.r[size_t(2 * n + j)];
      const double m = std::tanh(s.x[size_t(2 * n + j)] + r * rn), to_m = up * (1 - z) * (1 - m * m);
      both(0, to_m * rn * r * (1 - r)), both(1, up * (old_h[size_t(j)] - m) * z * (1 - z));
      a[2 * n + j] = to_m, b[2 * n + j] = to_m * r;
      before[size_t(j)] = up * z;
    }
  }
  for (int64_t q = 0; q < g; ++q)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = 0; i < n; ++i)
        before[size_t(i)] += b[q * n + j] * k.number(k.w, k.d.matrix(side, g + q) + j * n + i);
  dh = before;
}

inline void data_backward(const Walk& k, const void* dy, const void* dhy, const void* dcy, void* dx, void* dhx,
                          void* dcx, double* reserve) {
  const int64_t n = k.d.hidden, g = k.d.gates(), wide = 2 * g * n;
  for (int64_t side = 0; side < k.d.sides; ++side)
    for (int64_t b = 0; b < int64_t(k.in.lengths.size()); ++b) {
      std::vector<Step> steps;
      auto h = k.start(k.hx, side, b), c = k.start(k.cx, side, b);
      for (int64_t t = 0; t < k.in.lengths[size_t(b)]; ++t) {
        steps.push_back(k.step(side, k.in.row(k.time(side, b, t), b), t ? steps.back().h : h, t ? steps.back().c : c));
      }
      auto dh = k.start(dhy, side, b), dc = k.start(dcy, side, b);
      for (int64_t t = int64_t(steps.size()); t-- > 0;) {
        const int64_t row = k.in.row(k.time(side, b, t), b);
        for (int64_t j = 0; j < n; ++j) dh[size_t(j)] += k.number(dy, (row * k.d.sides + side) * n + j);
        double* a = reserve + (row * k.d.sides + side) * wide;
        step_back(k, side, steps[size_t(t)], t ? steps[size_t(t - 1)].h : h, t ? steps[size_t(t - 1)].c : c, dh, dc, a,
                  a + g * n);
      }
      for (int64_t j = 0; j < n; ++j) {
        store(k.d.type, dhx, k.state(side, b, j), dh[size_t(j)]);
        if (dcx) store(k.d.type, dcx, k.state(side, b, j), dc[size_t(j)]);
      }
    }
  for (int64_t row = 0; row < k.in.rows(); ++row)
    for (int64_t i = 0; i < k.d.inputs; ++i) {
      double sum = 0;
      for (int64_t side = 0; side < k.d.sides; ++side)
        for (int64_t q = 0; q < g * n; ++q)
          sum += reserve[(row * k.d.sides + side) * wide + q] *
                 k.number(k.w, k.d.matrix(side, q / n) + q % n * k.d.inputs + i);
      store(k.d.type, dx, row * k.d.inputs + i, sum);
    }
}

inline void weights_backward(const Walk& k, const void* y, void* dw, const double* reserve) {
  const int64_t n = k.d.hidden, g = k.d.gates(), wide = 2 * g * n;
  std::vector<double> sums(size_t(k.d.count()));
  for (int64_t side = 0; side < k.d.sides; ++side)
    for (int64_t b = 0; b < int64_t(k.in.lengths.size()); ++b)
      for (int64_t t = 0; t < k.in.lengths[size_t(b)]; ++t) {
        const int64_t row = k.in.row(k.time(side, b, t), b);
        const int64_t last = t ? k.in.row(k.time(side, b, t - 1), b) : -1;
        const double* a = reserve + (row * k.d.sides + side) * wide;
        for (int64_t q = 0; q < g * n; ++q) {
          const int64_t gate = q / n, j = q % n;
          for (int64_t i = 0; i < k.d.inputs; ++i)
            sums[size_t(k.d.matrix(side, gate) + j * k.d.inputs + i)] += a[q] * k.number(k.x, row * k.d.inputs + i);
          for (int64_t i = 0; i < n; ++i) {
            const double h = last < 0 ? k.number(k.hx, k.state(side, b, i)) : k.number(y, (last * k.d.sides + side) * n + i);
            sums[size_t(k.d.matrix(side, g + gate) + j * n + i)] += a[g * n + q] * h;
          }
          if (!k.d.bias) continue;
          sums[size_t(k.d.vector(side, gate) + j)] += a[q];
          sums[size_t(k.d.vector(side, g + gate) + j)] += a[g * n + q];
        }
      }
  for (int64_t at = 0; at < k.d.count(); ++at) store(k.d.type, dw, at, k.number(dw, at) + sums[size_t(at)]);
}

// All layers; what those below the last make lies in `between`.
inline void forward_all(const Walk& k, void* y, void* hy, void* cy, char* between) {
  const void* from = k.x;
  for (int64_t l = 0; l < k.d.layers; ++l) {
    void* to = l + 1 == k.d.layers ? y : between + size_t(l) * k.between();
    forward(k.layer(l, from), to, k.moved(hy, l * k.states()), k.moved(cy, l * k.states()));
    from = to;
  }
}

inline void data_backward_all(const Walk& k, const void* dy, const void* dhy, const void* dcy, void* dx, void* dhx,
                              void* dcx, double* gates, const char* between) {
  std::vector<char> up, down;
  for (int64_t l = k.d.layers; l-- > 0;) {
    down.assign(l ? k.between() : 0, 0);
    const void* from = l ? between + size_t(l - 1) * k.between() : k.x;
    data_backward(k.layer(l, from), l + 1 == k.d.layers ? dy : up.data(), k.moved(dhy, l * k.states()),
                  k.moved(dcy, l * k.states()), l ? down.data() : dx, k.moved(dhx, l * k.states()),
                  k.moved(dcx, l * k.states()), gates + l * k.gates());
    up.swap(down);
  }
}

inline void weights_backward_all(const Walk& k, const void* y, void* dw, const double* gates, const char* between) {
  const void* from = k.x;
  for (int64_t l = 0; l < k.d.layers; ++l) {
    const void* made = l + 1 == k.d.layers ? y : between + size_t(l) * k.between();
    weights_backward(k.layer(l, from), made, k.moved(dw, k.d.before(l)), gates + l * k.gates());
    from = made;
  }
}

}  // namespace rnn
