// cuBLASLt: matrix products, with what follows them where it can do that on the way (bias, relu, gelu).
//
// A product is described once: layouts, what is computed in, and the algorithm that the library's heuristic chooses
// under the limit of working memory. A call then passes addresses. Matrices are column-major here, as everywhere in
// cuBLAS; whoever has rows asks for the transposed product.
#include <array>
#include <cstring>
#include <tuple>

#include "calls.h"
#include "handles.h"

namespace flambeau::cuda {
namespace {

constexpr const char* kName = "cuBLASLt";
using Status = int;
struct Handle;
struct Desc;
struct Layout;
struct Preference;
struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace;
  Status state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Heuristic) == 96);

enum { kInvalidValue = 7, kNotSupported = 15 };
enum { kLayoutBatch = 5, kLayoutStep = 6 };
enum { kDescTransposeA = 3, kDescTransposeB = 4, kDescEpilogue = 7, kDescBias = 8, kDescScaleA = 17, kDescScaleB = 18,
       kDescScaleD = 20, kDescFastSums = 25, kDescBiasType = 26, kDescScaleModeA = 31, kDescScaleModeB = 32 };
// One number for all; for each row of op(A) or column of op(B); for blocks of so many numbers of these; for squares.
enum { kScaleOne = 0, kScaleBy16 = 1, kScaleBy32 = 2, kScaleByRow = 3, kScaleBy128 = 4, kScaleSquare = 5 };
enum { kPreferWorkspace = 1, kPreferReduction = 3, kPreferAlignment = 5 };  // of A; B, C and D follow
enum { kEpilogueNone = 1, kEpilogueRelu = 2, kEpilogueBias = 4, kEpilogueGelu = 32, kEpilogueBiasGradient = 512 };

// clang-format off
#define FUNCTIONS(X)                                                                                                   \
  X(create, Status, "cublasLtCreate", (Handle**))                                                                      \
  X(status_name, const char*, "cublasLtGetStatusName", (Status))                                                       \
  X(desc_create, Status, "cublasLtMatmulDescCreate", (Desc**, int compute, int scale))                                 \
  X(desc_destroy, Status, "cublasLtMatmulDescDestroy", (Desc*))                                                        \
  X(desc_set, Status, "cublasLtMatmulDescSetAttribute", (Desc*, int attribute, const void*, size_t))                   \
  X(layout_create, Status, "cublasLtMatrixLayoutCreate",                                                               \
    (Layout**, int type, uint64_t rows, uint64_t columns, int64_t step))                                               \
  X(layout_destroy, Status, "cublasLtMatrixLayoutDestroy", (Layout*))                                                  \
  X(layout_set, Status, "cublasLtMatrixLayoutSetAttribute", (Layout*, int attribute, const void*, size_t))             \
  X(preference_create, Status, "cublasLtMatmulPreferenceCreate", (Preference**))                                       \
  X(preference_destroy, Status, "cublasLtMatmulPreferenceDestroy", (Preference*))                                      \
  X(preference_set, Status, "cublasLtMatmulPreferenceSetAttribute", (Preference*, int attribute, const void*, size_t)) \
  X(heuristic, Status, "cublasLtMatmulAlgoGetHeuristic",                                                               \
    (Handle*, Desc*, Layout* a, Layout* b, Layout* c, Layout* d, Preference*, int asked, Heuristic*, int* found))      \
  X(matmul, Status, "cublasLtMatmul",                                                                                  \
    (Handle*, Desc*, const void* alpha, const void* a, Layout*, const void* b, Layout*, const void* beta,              \
     const void* c, Layout*, void* d, Layout*, const Algorithm*, void* workspace, size_t, Stream))
// clang-format on

struct Library {
  FLAMBEAU_LIBRARY(FUNCTIONS)
  Handles<Handle> handles;
};
Library& library_of(const Constants& constants) {
  static Library* opened = open_table<Library>(kName, constants);
  return *opened;
}

// A number in the type that the product is scaled in.
struct Scale {
  alignas(16) char bytes[16] = {};
  template <class T>
  void put(T v) { std::memcpy(bytes, &v, sizeof v); }
  Scale(int type, double real, double imaginary) {
    switch (type) {
      case 0: put(float(real)); break;
      case 1: put(real); break;
      case 2: put(_Float16(real)); break;
      case 4: put(std::array{float(real), float(imaginary)}); break;
      case 5: put(std::array{real, imaginary}); break;
      case 10: put(int32_t(real)); break;
      default: value_error("cuBLASLt does not scale by numbers of type ", type);
    }
  }
};

struct Problem {
  int types[4], compute, scale;
  std::vector<int64_t> matrices[4];  // rows, columns, step between columns, step between matrices
  int64_t batch;
  bool transposed[2], bias;
  int epilogue;  // without the bias
  bool scaled, scaled_result = false, fast_sums = false;  // operands of 8 bits come with scales
  int scales[2] = {kScaleOne, kScaleOne}, bias_type = -1;
  double alpha[2], beta[2];
};

// The library's numbers of what is computed in, and of what alpha and beta are.
std::pair<int, int> computing(const Constants& c) {
  struct Way {
    std::string_view name;
    int compute, scale;
  };
  constexpr Way ways[] = {{"float32", 68, 0}, {"tf32", 77, 0},       {"float64", 70, 1},        {"float16", 64, 2},
                          {"int32", 72, 10},  {"complex64", 68, 4}, {"complex64_tf32", 77, 4}, {"complex128", 70, 5}};
  for (const Way& way : ways)
    if (way.name == c.word("compute")) return {way.compute, way.scale};
  value_error(c.op, ": cuBLASLt does not compute in ", c.word("compute"));
}

// What is done with a product on the way out. The library's gelu is the one with tanh; "bias_gradient" stores the sums
// of op(B)'s columns where a bias would lie.
int epilogue_of(const Constants& c) {
  constexpr std::pair<std::string_view, int> known[] = {
      {"none", 0}, {"relu", kEpilogueRelu}, {"gelu_tanh", kEpilogueGelu}, {"bias_gradient", kEpilogueBiasGradient}};
  for (const auto& [name, number] : known)
    if (name == c.word("activation")) return number;
  value_error(c.op, ": cuBLASLt computes no ", c.word("activation"), " after a product");
}

int scale_mode(const Constants& c, std::string_view name) {
  constexpr std::pair<std::string_view, int> known[] = {{"one", kScaleOne},     {"row", kScaleByRow},
                                                        {"by_16", kScaleBy16},  {"by_32", kScaleBy32},
                                                        {"by_128", kScaleBy128}, {"square", kScaleSquare}};
  for (const auto& [word, number] : known)
    if (word == c.word(name)) return number;
  value_error(c.op, ": cuBLASLt knows no scales ", c.word(name));
}

Problem problem_of(const Constants& c) {
  Problem p;
  const std::string names[] = {"a", "b", "c", "d"};
  for (int k = 0; k < 4; ++k) {
    p.types[k] = cuda_type(c.word(names[k] + "_type"), c);
    p.matrices[k] = c.list(names[k]);
  }
  std::tie(p.compute, p.scale) = computing(c);
  p.batch = c.integer("batch");
  p.transposed[0] = c.integer("a_transposed"), p.transposed[1] = c.integer("b_transposed");
  p.bias = c.integer("bias");
  p.epilogue = epilogue_of(c);
  p.scaled = c.has("a_scales");
  if (p.scaled) {
    p.scales[0] = scale_mode(c, "a_scales"), p.scales[1] = scale_mode(c, "b_scales");
    p.scaled_result = c.integer("scaled_result");
    p.fast_sums = c.integer("fast_sums"), p.bias_type = cuda_type(c.word("bias_type"), c);
  }
  p.alpha[0] = c.number("alpha"), p.alpha[1] = c.number("alpha_imaginary");
  p.beta[0] = c.number("beta"), p.beta[1] = c.number("beta_imaginary");
  return p;
}

class Matmul final : public LibraryCall {
 public:
  Matmul(int device, const Constants& c)
      : l_(library_of(c)), p_(problem_of(c)), alpha_(p_.scale, p_.alpha[0], p_.alpha[1]),
        beta_(p_.scale, p_.beta[0], p_.beta[1]), with_sum_(p_.beta[0] != 0 || p_.beta[1] != 0) {
    const char* op = c.op;
    handle_ = l_.handles.of_device(device, [&](Handle** made) { check(l_.create(made), op, "cublasLtCreate"); });
    try {
      describe(op);
      choose(c, op);
    } catch (...) {
      drop();
      throw;
    }
  }
  ~Matmul() override { drop(); }

  void run(const LibrarySite& at) override {
    if (p_.bias) {
      const void* bias = at.pointer(4);
      check(l_.desc_set(desc_, kDescBias, &bias, sizeof bias), at.op, "cublasLtMatmulDescSetAttribute");
    }
    if (p_.scaled) point_at_scales(at.pointer(5), at.pointer(6), at.pointer(7), at.op);
    const void* itself = p_.types[2] == p_.types[3] ? at.pointer(3) : nullptr;
    const void* added = with_sum_ && at.operands[2] ? at.pointer(2) : itself;
    const Status status =
        l_.matmul(handle_, desc_, alpha_.bytes, at.pointer(0), layouts_[0], at.pointer(1), layouts_[1], beta_.bytes,
                  added, layouts_[2], at.pointer(3), layouts_[3], &algorithm_, at.room(), workspace, at.stream);
    if (__builtin_expect(status == kNotSupported, 0)) refuse(at.op);
    check(status, at.op, "cublasLtMatmul");
  }

 private:
  Library& l_;
  const Problem p_;
  const Scale alpha_, beta_;
  const bool with_sum_;
  Handle* handle_ = nullptr;
  Desc* desc_ = nullptr;
  Layout* layouts_[4] = {};
  Algorithm algorithm_{};

  void check(Status status, const char* op, const char* where) const {
    if (__builtin_expect(status != 0, 0)) library_failed(op, kName, l_.status_name(status), status, where);
  }
  [[noreturn]] void refuse(const char* op) const {
    throw Unsupported(concat(op, ": cuBLASLt has no algorithm for a product of these types and layouts"),
                      p_.epilogue || p_.scaled ? LibraryUse::Plain : LibraryUse::None);
  }
  void drop() {
    if (desc_) l_.desc_destroy(desc_);
    for (Layout* layout : layouts_)
      if (layout) l_.layout_destroy(layout);
  }
  template <class T>
  void set(int attribute, T value, const char* op) {
    check(l_.desc_set(desc_, attribute, &value, sizeof value), op, "cublasLtMatmulDescSetAttribute");
  }
  void point_at_scales(const void* a, const void* b, const void* d, const char* op) {
    set(kDescScaleA, a, op);
    set(kDescScaleB, b, op);
    if (p_.scaled_result) set(kDescScaleD, d, op);
  }
  // An old library knows no scales by row or block, and refuses the attribute.
  void describe_scales(const char* op) {
    for (int side : {0, 1}) {
      const int32_t mode = p_.scales[side];
      if (mode != kScaleOne && l_.desc_set(desc_, side ? kDescScaleModeB : kDescScaleModeA, &mode, sizeof mode) != 0)
        refuse(op);
    }
    const auto* somewhere = reinterpret_cast<const void*>(uintptr_t(256));  // they are there; where, it hears later
    point_at_scales(somewhere, somewhere, somewhere, op);
    set(kDescFastSums, int8_t(p_.fast_sums), op);
    if (p_.bias) set(kDescBiasType, int32_t(p_.bias_type), op);
  }
  void describe(const char* op) {
    check(l_.desc_create(&desc_, p_.compute, p_.scale), op, "cublasLtMatmulDescCreate");
    set(kDescTransposeA, int32_t(p_.transposed[0]), op);
    set(kDescTransposeB, int32_t(p_.transposed[1]), op);
    const int epilogue = p_.epilogue | (p_.bias && p_.epilogue != kEpilogueBiasGradient ? kEpilogueBias : 0);
    set(kDescEpilogue, uint32_t(epilogue ? epilogue : kEpilogueNone), op);
    if (p_.scaled) describe_scales(op);
    for (int k = 0; k < 4; ++k) {
      const auto& m = p_.matrices[k];
      check(l_.layout_create(&layouts_[k], p_.types[k], uint64_t(m[0]), uint64_t(m[1]), m[2]), op,
            "cublasLtMatrixLayoutCreate");
      if (p_.batch == 1) continue;
      const int32_t count = int32_t(p_.batch);
      check(l_.layout_set(layouts_[k], kLayoutBatch, &count, sizeof count), op, "cublasLtMatrixLayoutSetAttribute");
      check(l_.layout_set(layouts_[k], kLayoutStep, &m[3], sizeof m[3]), op, "cublasLtMatrixLayoutSetAttribute");
    }
  }
  // The algorithm the library thinks fastest; Unsupported where it has none.
  void choose(const Constants& c, const char* op) {
    Preference* preference = nullptr;
    check(l_.preference_create(&preference), op, "cublasLtMatmulPreferenceCreate");
    std::unique_ptr<Preference, Status (*)(Preference*)> held(preference, l_.preference_destroy);
    auto prefer = [&](int attribute, auto value) {
      check(l_.preference_set(preference, attribute, &value, sizeof value), op, "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(kPreferWorkspace, uint64_t(c.integer("most_workspace")));
    if (c.integer("whole_sums")) prefer(kPreferReduction, uint32_t(2));  // partial sums keep the computing type
    for (int k = 0; k < 4; ++k) prefer(kPreferAlignment + k, uint32_t(c.list("alignment").at(size_t(k))));
    Heuristic best{};
    int found = 0;
    const auto& l = layouts_;
    const Status status = l_.heuristic(handle_, desc_, l[0], l[1], l[2], l[3], preference, 1, &best, &found);
    // Scales that do not go with the result's type are an invalid value to it.
    const bool rescaled = p_.scales[0] != kScaleOne || p_.scales[1] != kScaleOne;
    if (status == kNotSupported || (status == kInvalidValue && rescaled) ||
        (status == 0 && (found == 0 || best.state != 0)))
      refuse(op);
    check(status, op, "cublasLtMatmulAlgoGetHeuristic");
    algorithm_ = best.algorithm;
    workspace = best.workspace;
  }
};

}  // namespace

// Operands: A, B, C, D, bias. D = activation(alpha op(A) op(B) + beta C + bias); without C, D is added to itself.
// Then, of operands of 8 bits, the addresses of their scales and of that of the result.
std::unique_ptr<LibraryCall> make_cublaslt_matmul(int device, const Constants& constants) {
  return std::make_unique<Matmul>(device, constants);
}

}  // namespace flambeau::cuda
