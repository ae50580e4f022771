// What a step of an optimizer is told: which law, its options, and the numbers of one parameter's update.

enum class OptimKind : uint8_t { SGD, Adam, RMSprop, Adadelta, Adagrad };
inline constexpr int kOptimKinds = 5;

enum OptimFlag : uint32_t {
  kMaximize = 1,    // ascend: the gradient's sign is turned
  kNesterov = 2,    // SGD
  kMomentum = 4,    // SGD, RMSprop: a momentum buffer is kept
  kAmsgrad = 8,     // Adam: divide by the running maximum
  kDecoupled = 16,  // AdamW: decay the weight, not the gradient
  kCentered = 32,   // RMSprop: subtract the squared mean gradient
  kFresh = 64,      // SGD: the buffer has no value yet and becomes the gradient
};

// The numbers of one parameter's update, already combined in double as the update's law says; see the loops.
struct OptimNumbers {
  double weight_decay = 0;
  double k[6] = {};
  uint32_t flags = 0;
};

struct OptimArgs {  // the numbers a parameter group gives
  double lr = 0, weight_decay = 0, eps = 0;
  double beta1 = 0, beta2 = 0;  // Adam's betas; SGD: momentum, dampening; RMSprop: alpha, momentum; Adadelta: rho;
                                // Adagrad: lr_decay
  uint32_t flags = 0;
};

// The law's numbers for one parameter at its step (counted from 1), in double and in PyTorch's order.
FLAMBEAU_INLINE OptimNumbers optim_numbers(OptimKind kind, const OptimArgs& a, double step, bool fresh) {
  OptimNumbers n;
  n.weight_decay = a.weight_decay;
  n.flags = a.flags | (fresh ? uint32_t(kFresh) : 0u);
  auto set = [&n](double a, double b, double c = 0, double d = 0, double e = 0, double f = 0) {
    n.k[0] = a, n.k[1] = b, n.k[2] = c, n.k[3] = d, n.k[4] = e, n.k[5] = f;
  };
  switch (kind) {
    case OptimKind::SGD: set(a.beta1, 1 - a.beta2, -a.lr); break;
    case OptimKind::Adam: {
      double bias1 = 1 - std::pow(a.beta1, step), bias2 = 1 - std::pow(a.beta2, step);
      if ((a.flags & kDecoupled) && a.weight_decay != 0) n.weight_decay = 1 - a.lr * a.weight_decay;
      set(1 - a.beta1, a.beta2, 1 - a.beta2, std::sqrt(bias2), a.eps, -(a.lr / bias1));
      break;
    }
    case OptimKind::RMSprop: set(a.beta1, 1 - a.beta1, a.beta2, a.eps, -a.lr); break;
    case OptimKind::Adadelta: set(a.beta1, 1 - a.beta1, a.eps, -a.lr); break;
    case OptimKind::Adagrad: set(a.eps, -(a.lr / (1 + (step - 1) * a.beta1))); break;
  }
  return n;
}
