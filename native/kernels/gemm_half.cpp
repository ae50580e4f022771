// Products of halves: bfloat16 by oneDNN where the processor multiplies it, a few rows as the matrix lies, others in
// float32.
#include <algorithm>
#include <bit>
#include <memory>
#include <optional>

#include "half_rows.h"
#include "onednn.h"
#include "simd_casts.h"

namespace flambeau {

#ifdef FLAMBEAU_ONEDNN
static bool processor_has(dnnl::cpu_isa isa) { return (int(dnnl::get_effective_cpu_isa()) & int(isa)) == int(isa); }
#endif

bool multiplies_bfloat16() {
#ifdef FLAMBEAU_ONEDNN
  static const bool fast = processor_has(dnnl::cpu_isa::avx512_core_bf16);
  return fast;
#else
  return false;
#endif
}

void half_to_float(DType dtype, const void* src, int64_t stride, float* dst, int64_t n) {
  auto convert = [&]<class H>() {
    const H* p = static_cast<const H*>(src);
    if (stride == 1) cast_run(dst, p, n);
    else for (int64_t i = 0; i < n; ++i) dst[i] = float(p[i * stride]);
  };
  if (dtype == DType::Float16) convert.operator()<float16>();
  else convert.operator()<bfloat16>();
}

void float_to_half(DType dtype, const float* src, void* dst, int64_t n) {
  if (dtype == DType::Float16) cast_run(static_cast<float16*>(dst), src, n);
  else cast_run(static_cast<bfloat16*>(dst), src, n);
}

namespace {

constexpr int64_t kFewWork = 1 << 10;  // halves of a matrix from which on they are read as they lie by a few rows
constexpr int64_t kKeptFloats = 1 << 24;  // of matrices in float32, up to which a thread keeps their memory
constexpr int64_t kPackedHalfRows = 512, kPackedHalfWork = 1 << 29;  // of a product of halves that repays packing B

const char* at(const void* p, int64_t elements, int64_t size) { return static_cast<const char*>(p) + elements * size; }

#ifdef FLAMBEAU_ONEDNN
struct Halves {  // a product of bfloat16; where `packs`, B is first brought into the order that the product likes best
  bool slow;
  dnnl::matmul::primitive_desc desc;
  dnnl::matmul run;
  std::optional<dnnl::reorder> packs;
};

// On processors with matrix tiles, oneDNN brings rows of B into their order again for each part of A; a large product
// repays doing it once.
bool repays_packing(int64_t m, int64_t n, int64_t k, MatrixView b) {
  return processor_has(dnnl::cpu_isa::avx512_core_amx) && b.cs == 1 && m >= kPackedHalfRows &&
         m * n * k >= kPackedHalfWork;
}

// Whether no two elements share a place, in an order of dimensions: oneDNN takes no others.
bool apart(std::initializer_list<std::pair<int64_t, int64_t>> dims) {  // strides and sizes
  std::vector<std::pair<int64_t, int64_t>> order(dims);
  std::erase_if(order, [](const auto& d) { return d.second == 1; });
  std::ranges::sort(order);
  int64_t next = 1;
  for (const auto& [stride, size] : order) {
    if (stride < next) return false;
    next = stride * size;
  }
  return true;
}

// How `count` matrices lie, `step` elements apart; one that all share counts once.
dnnl::memory::desc bf16_matrices(int64_t count, int64_t step, int64_t rows, int64_t cols, int64_t rs, int64_t cs) {
  using dnnl::memory;
  const auto bf16 = memory::data_type::bf16;
  if (count == 1) return memory::desc({rows, cols}, bf16, memory::dims{rs, cs});
  return memory::desc({step ? count : 1, rows, cols}, bf16, memory::dims{step ? step : rows * cols, rs, cs});
}

// C = alpha A B + beta C, in float32 until it is rounded; `bias` only where alpha is 1.
dnnl::primitive_attr scaled(float alpha, float beta) {
  dnnl::post_ops after;
  if (alpha != 1) after.append_eltwise(dnnl::algorithm::eltwise_linear, alpha, 0);
  if (beta != 0) after.append_sum(beta);
  dnnl::primitive_attr attr;
  attr.set_post_ops(after);
  return attr;
}

std::shared_ptr<Halves> halves_product(const HalfBatch& all, int64_t m, int64_t n, int64_t k, MatrixView a,
                                       MatrixView b, int64_t crs, float alpha, float beta, bool bias) {
  using namespace dnnl;
  static auto* cache = new Recent<Halves>(128);
  const int64_t scales = int64_t(std::bit_cast<uint32_t>(alpha)) << 32 | std::bit_cast<uint32_t>(beta);
  return cache->get({m, n, k, a.rs, a.cs, b.rs, b.cs, crs, bias, scales, all.count, all.a, all.b, all.c}, [&] {
    engine& e = onednn::engine();
    const bool packs = all.count == 1 && repays_packing(m, n, k, b);
    memory::desc da = bf16_matrices(all.count, all.a, m, k, a.rs, a.cs),
                 lies = bf16_matrices(all.count, all.b, k, n, b.rs, b.cs),
                 dc = bf16_matrices(all.count, all.c, m, n, crs, 1), row = bf16_matrices(1, 0, 1, n, n, 1),
                 db = packs ? memory::desc({k, n}, memory::data_type::bf16, memory::format_tag::any) : lies;
    const primitive_attr attr = scaled(alpha, beta);
    auto desc = bias ? matmul::primitive_desc(e, da, db, row, dc, attr) : matmul::primitive_desc(e, da, db, dc, attr);
    std::optional<reorder> first;
    if (packs && desc.weights_desc() != lies) first = reorder(reorder::primitive_desc(e, lies, e, desc.weights_desc()));
    return std::make_shared<Halves>(Halves{onednn::only_reference(desc), desc, matmul(desc), first});
  });
}

// bfloat16 with float32 sums on processors that multiply bfloat16.
bool onednn_bf16(const HalfBatch& all, int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, void* c,
                 int64_t crs, float alpha, float beta, const void* bias) {
  using namespace dnnl;
  if (!multiplies_bfloat16() || alpha == 0 || (alpha != 1 && bias)) return false;
  if ((a.rs != 1 && a.cs != 1) || (b.rs != 1 && b.cs != 1)) return false;
  if (!apart({{a.rs, m}, {a.cs, k}, {all.a, all.a ? all.count : 1}}) ||
      !apart({{b.rs, k}, {b.cs, n}, {all.b, all.b ? all.count : 1}}))
    return false;
  const auto entry = halves_product(all, m, n, k, a, b, crs, alpha, beta, bias != nullptr);
  if (entry->slow) return false;
  auto held = [&](const memory::desc& d, const void* p) { return memory(d, onednn::engine(), const_cast<void*>(p)); };
  memory weights;
  if (entry->packs) {
    memory as_it_lies = held({{k, n}, memory::data_type::bf16, memory::dims{b.rs, b.cs}}, b.data);
    const memory::desc packed = entry->desc.weights_desc();
    weights = held(packed, scratch<char>(kScratchB, int64_t(packed.get_size())));
    entry->packs->execute(onednn::stream(), as_it_lies, weights);
  } else {
    weights = held(entry->desc.weights_desc(), b.data);
  }
  std::unordered_map<int, memory> args = {{DNNL_ARG_SRC, held(entry->desc.src_desc(), a.data)},
                                          {DNNL_ARG_WEIGHTS, weights},
                                          {DNNL_ARG_DST, held(entry->desc.dst_desc(), c)}};
  if (bias) args[DNNL_ARG_BIAS] = held(entry->desc.bias_desc(), bias);
  entry->run.execute(onednn::stream(), args);
  onednn::stream().wait();
  return true;
}
#endif

// A few rows with a matrix as it lies, by its columns (weights of a linear layer) or by its rows, or a matrix with a
// vector.
bool few_rows(DType dtype, int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, void* c, int64_t crs,
              float alpha, float beta, const void* bias, bool threads) {
  const bool turned = n == 1 && m > kFewRows && crs == 1 && !bias;  // C' = B' A'
  if (turned) {
    std::swap(m, n);
    std::swap(a, b);
    std::swap(a.rs, a.cs), std::swap(b.rs, b.cs);
    crs = n;
  }
  const bool columns = b.rs == 1 && b.cs >= k, lines = b.cs == 1 && b.rs >= n;
  if (m > kFewRows || !(columns || lines) || n * k < kFewWork) return false;
  std::unique_ptr<float[]> rows(new float[product_area(m, k)]), sums(new float[product_area(m, n)]), wide;
  for (int64_t i = 0; i < m; ++i) half_to_float(dtype, at(a.data, i * a.rs, 2), a.cs, rows.get() + i * k, k);
  for (int64_t i = 0; beta != 0 && i < m; ++i) half_to_float(dtype, at(c, i * crs, 2), 1, sums.get() + i * n, n);
  Epilogue<float> e{alpha, beta};
  if (bias) {
    wide.reset(new float[size_t(n)]);
    half_to_float(dtype, bias, 1, wide.get(), n);
    e.bias_col = wide.get();
  }
  if (columns) half_rows(dtype, m, n, k, rows.get(), k, b.data, b.cs, sums.get(), n, e, threads);
  else half_columns(dtype, m, n, k, rows.get(), k, b.data, b.rs, sums.get(), n, e, threads);
  for (int64_t i = 0; i < m; ++i) float_to_half(dtype, sums.get() + i * n, const_cast<char*>(at(c, i * crs, 2)), n);
  return true;
}

// A matrix that has a unit stride, which products of halves ask for: itself or a copy.
MatrixView with_unit_stride(MatrixView v, int64_t rows, int64_t cols, std::unique_ptr<uint16_t[]>& memory) {
  if (v.rs == 1 || v.cs == 1) return v;
  memory.reset(new uint16_t[product_area(rows, cols)]);
  parallel_for(rows, std::max<int64_t>(1, 32768 / cols), [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      const auto* from = reinterpret_cast<const uint16_t*>(at(v.data, i * v.rs, 2));
      for (int64_t j = 0; j < cols; ++j) memory[size_t(i * cols + j)] = from[j * v.cs];
    }
  });
  return {memory.get(), cols, 1};
}

// Both operands widened, and the result rounded.
void product_in_floats(DType dtype, int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, void* c, int64_t crs,
                       float alpha, float beta, const void* bias, bool threads) {
  auto each_row = [&](int64_t rows, int64_t cols, auto&& convert) {
    parallel_for(rows, threads ? std::max<int64_t>(1, 32768 / std::max<int64_t>(cols, 1)) : kSerial,
                 [&](int64_t i, int64_t end) { for (; i < end; ++i) convert(i); });
  };
  const size_t sizes[] = {product_area(m, k), product_area(k, n), product_area(m, n)};
  const int64_t need = int64_t(sizes[0] + sizes[1] + sizes[2]) + n;
  std::unique_ptr<float[]> large(need > kKeptFloats ? new float[size_t(need)] : nullptr);
  float *const fa = large ? large.get() : scratch<float>(kScratchE, need), *const fb = fa + sizes[0],
        *const fc = fb + sizes[1], *const fbias = fc + sizes[2];
  auto unpack = [&](MatrixView v, int64_t rows, int64_t cols, float* to) {
    each_row(rows, cols, [&](int64_t i) { half_to_float(dtype, at(v.data, i * v.rs, 2), v.cs, to + i * cols, cols); });
  };
  // a transposed operand is read along its contiguous direction and stays transposed
  bool ta = a.cs != 1 && a.rs == 1, tb = b.cs != 1 && b.rs == 1;
  unpack(ta ? MatrixView{a.data, a.cs, a.rs} : a, ta ? k : m, ta ? m : k, fa);
  unpack(tb ? MatrixView{b.data, b.cs, b.rs} : b, tb ? n : k, tb ? k : n, fb);
  if (beta != 0)
    each_row(m, n, [&](int64_t i) { half_to_float(dtype, at(c, i * crs, 2), 1, fc + i * n, n); });
  Epilogue<float> e{alpha, beta};
  if (bias) {
    half_to_float(dtype, bias, 1, fbias, n);
    e.bias_col = fbias;
  }
  gemm<float>(m, n, k, fa, ta ? 1 : k, ta ? m : 1, fb, tb ? 1 : n, tb ? k : 1, fc, n, e, threads);
  each_row(m, n, [&](int64_t i) {
    float_to_half(dtype, fc + i * n, const_cast<char*>(at(c, i * crs, 2)), n);
  });
}

}  // namespace

bool batch_of_halves([[maybe_unused]] const HalfBatch& batch, int64_t m, int64_t n, int64_t k, MatrixView a,
                     MatrixView b, void* c, int64_t crs, float alpha, float beta) {
#ifdef FLAMBEAU_ONEDNN
  const bool differ = batch.a || batch.b;  // oneDNN does not repeat one product
  if (differ && !in_parallel() && m > 1 && n > 1 && k > 0)
    return onednn_bf16(batch, m, n, k, a, b, c, crs, alpha, beta, nullptr);
#endif
  return false;
}

void gemm_half(DType dtype, int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, void* c, int64_t crs,
               float alpha, float beta, const void* bias, bool threads) {
  std::unique_ptr<uint16_t[]> left, right;
  if (dtype == DType::BFloat16 && multiplies_bfloat16() && m > 1 && n > 1 && m * n * k > kParallelWork) {
    a = with_unit_stride(a, m, k, left);
    b = with_unit_stride(b, k, n, right);
  }
  const bool by_matrices = dtype == DType::BFloat16 && alpha != 0 && gemm_by_matrices_pays(m, n, k, a, b);
  const auto run_by_matrices = [&] { gemm_by_matrices(m, n, k, a, b, c, crs, alpha, beta, bias, threads); };
  if (by_matrices && gemm_by_matrices_leads(m, n, k, a)) return run_by_matrices();
#ifdef FLAMBEAU_ONEDNN
  if (dtype == DType::BFloat16 && threads && !in_parallel() && m * n * k > kParallelWork && m > 1 && n > 1 &&
      onednn_bf16({}, m, n, k, a, b, c, crs, alpha, beta, bias))
    return;
#endif
  if (by_matrices) return run_by_matrices();
  if (few_rows(dtype, m, n, k, a, b, c, crs, alpha, beta, bias, threads)) return;
  product_in_floats(dtype, m, n, k, a, b, c, crs, alpha, beta, bias, threads);
}

}  // namespace flambeau
