// The arithmetic of each optimizer, written once for vectors of float or double and for a thread's one number.
//
// Who includes it has fma, root (the square root), larger (of which a NaN stays), nearer_start(weight): weight < 1/2,
// and Scalar<V>: the type of V's elements.

// The numbers of one update as vectors (or scalars).
template <class V>
struct Numbers {
  using T = typename Scalar<V>::type;
  V weight_decay, k[6];
  uint32_t flags;
  bool decays;
  FLAMBEAU_INLINE explicit Numbers(const OptimNumbers& n)
      : weight_decay(V{} + T(n.weight_decay)), flags(n.flags), decays(n.weight_decay != 0) {
    for (int i = 0; i < 6; ++i) k[i] = V{} + T(n.k[i]);
  }
  FLAMBEAU_INLINE bool has(uint32_t flag) const { return flags & flag; }
  FLAMBEAU_INLINE V gradient(V p, V g) const {  // L2 decay adds weight_decay * p to the gradient
    if (has(kMaximize)) g = -g;
    return decays && !has(kDecoupled) ? fma(weight_decay, p, g) : g;
  }
};

// start + weight (end - start), counted from the nearer end
template <class V>
FLAMBEAU_INLINE V lerp(V start, V end, V weight) {
  V way = end - start;
  return nearer_start(weight) ? fma(weight, way, start) : fma(weight - 1, way, end);
}

// v <- keep v + share g^2, the running mean of squares
template <class V>
FLAMBEAU_INLINE V mean_square(V v, V g, V keep, V share) { return fma(share * g, g, v * keep); }

// m <- momentum m + (1 - dampening) g;  p <- p - lr m
struct SGD {
  template <class V>
  static FLAMBEAU_INLINE void update(const Numbers<V>& n, V& p, V g, V& m, V&, V&) {
    const V &momentum = n.k[0], &share = n.k[1], &minus_lr = n.k[2];
    g = n.gradient(p, g);
    if (n.has(kMomentum)) {
      m = n.has(kFresh) ? g : fma(share, g, m * momentum);
      g = n.has(kNesterov) ? fma(momentum, m, g) : m;
    }
    p = fma(minus_lr, g, p);
  }
};

// m <- m + (1 - beta1)(g - m);  v <- beta2 v + (1 - beta2) g^2;
// p <- p - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
struct Adam {
  template <class V>
  static FLAMBEAU_INLINE void update(const Numbers<V>& n, V& p, V g, V& m, V& v, V& top) {
    const V &share1 = n.k[0], &beta2 = n.k[1], &share2 = n.k[2], &bias = n.k[3], &eps = n.k[4], &minus_step = n.k[5];
    g = n.gradient(p, g);
    if (n.decays && n.has(kDecoupled)) p = p * n.weight_decay;  // here 1 - lr * weight_decay
    m = lerp(m, g, share1);
    v = mean_square(v, g, beta2, share2);
    if (n.has(kAmsgrad)) top = larger(top, v);
    V scale = root(n.has(kAmsgrad) ? top : v) / bias + eps;
    p = p + (minus_step * m) / scale;
  }
};

// v <- alpha v + (1 - alpha) g^2;  p <- p - lr g / (sqrt(v) + eps), centered: v less the squared mean gradient
struct RMSprop {
  template <class V>
  static FLAMBEAU_INLINE void update(const Numbers<V>& n, V& p, V g, V& v, V& m, V& mean) {
    const V &alpha = n.k[0], &share = n.k[1], &momentum = n.k[2], &eps = n.k[3], &minus_lr = n.k[4];
    g = n.gradient(p, g);
    v = mean_square(v, g, alpha, share);
    V square = v;
    if (n.has(kCentered)) {
      mean = lerp(mean, g, share);
      square = fma(-mean, mean, v);
    }
    V scale = root(square) + eps;
    if (n.has(kMomentum)) {
      m = m * momentum + g / scale;
      p = fma(minus_lr, m, p);
    } else {
      p = p + (minus_lr * g) / scale;
    }
  }
};

// v <- rho v + (1 - rho) g^2;  d = sqrt(u + eps) / sqrt(v + eps) g;  u <- rho u + (1 - rho) d^2;  p <- p - lr d
struct Adadelta {
  template <class V>
  static FLAMBEAU_INLINE void update(const Numbers<V>& n, V& p, V g, V& v, V& u, V&) {
    const V &rho = n.k[0], &share = n.k[1], &eps = n.k[2], &minus_lr = n.k[3];
    g = n.gradient(p, g);
    v = mean_square(v, g, rho, share);
    V delta = root(u + eps) / root(v + eps) * g;
    u = mean_square(u, delta, rho, share);
    p = fma(minus_lr, delta, p);
  }
};

// s <- s + g^2;  p <- p - lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps)
struct Adagrad {
  template <class V>
  static FLAMBEAU_INLINE void update(const Numbers<V>& n, V& p, V g, V& sum, V&, V&) {
    const V &eps = n.k[0], &minus_lr = n.k[1];
    g = n.gradient(p, g);
    sum = fma(g, g, sum);
    p = p + (minus_lr * g) / (root(sum) + eps);
  }
};
