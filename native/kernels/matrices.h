// Batches of matrices: how decompositions read them from any strides, write column by column, and say what went wrong.
#pragma once
#include "lapack.h"
#include "times.h"

namespace flambeau {

// Elements of scratch for one matrix, which may be an expanded view far larger than memory.
inline size_t area(int64_t rows, int64_t cols) { return size_t(size_product("linalg", {rows, cols})); }

// The last two dimensions of a tensor are matrices; the ones before are the batch.
inline Dims batch_of(const Tensor& t) { return t.shape().first(size_t(t.ndim - 2)); }
inline int64_t rows_of(const Tensor& t) { return t.size(t.ndim - 2); }
inline int64_t cols_of(const Tensor& t) { return t.size(t.ndim - 1); }
inline int64_t batch_count(const Tensor& t) { return count(batch_of(t)); }

inline std::vector<int64_t> with(Dims batch, std::initializer_list<int64_t> last) {
  std::vector<int64_t> shape(batch.begin(), batch.end());
  shape.insert(shape.end(), last);
  return shape;
}

// Result matrices lie column by column, as LAPACK writes them.
inline Tensor& output_columns(Call& c, Dims batch, int64_t rows, int64_t cols, DType dtype, Device device) {
  std::vector<int64_t> shape = with(batch, {rows, cols}), strides = contiguous_strides(shape);
  size_t n = shape.size();
  strides[n - 2] = 1;
  strides[n - 1] = std::max<int64_t>(1, rows);
  return c.output(shape, dtype, device, strides);
}

inline void check_matrix(const Call& c, const Tensor& t, const char* what = "A") {
  if (t.ndim < 2) runtime_error(c.name(), ": ", what, " must be a matrix, or a batch of them, got shape ",
                                shape_text(t.shape()));
  if (!is_differentiable(t.dtype))
    runtime_error(c.name(), ": expected floating-point or complex numbers, got ", dtype_name(t.dtype));
  if (item_size(t.dtype) < 4) runtime_error(c.name(), ": numbers of 32 bits or more are needed, got ",
                                            dtype_name(t.dtype));
  if (rows_of(t) > INT32_MAX || cols_of(t) > INT32_MAX)
    runtime_error(c.name(), ": the matrix is too large, got shape ", shape_text(t.shape()));
}
inline void check_square(const Call& c, const Tensor& t, const char* what = "A") {
  check_matrix(c, t, what);
  if (rows_of(t) != cols_of(t))
    runtime_error(c.name(), ": ", what, " must be a square matrix, or a batch of them, got ", rows_of(t), "x",
                  cols_of(t));
}
inline void check_same_dtype(const Call& c, const Tensor& a, const Tensor& b) {
  if (a.dtype != b.dtype)
    runtime_error(c.name(), ": A and B must have one dtype, got ", dtype_name(a.dtype), " and ", dtype_name(b.dtype));
}

template <class F>
void visit_matrices(const Call& c, DType t, F&& f) {
  switch (t) {
    case DType::Float32: return f.template operator()<float>();
    case DType::Float64: return f.template operator()<double>();
    case DType::Complex64: return f.template operator()<complex64>();
    case DType::Complex128: return f.template operator()<complex128>();
    default: runtime_error(c.name(), ": not implemented for ", dtype_name(t));
  }
}

// The matrices of one operand, broadcast to the batch shape of the result.
template <class T>
struct Matrices {
  const char* data;
  int64_t rs, cs;  // strides of rows and columns, in elements
  int ndim = 0;
  int64_t size[kMaxDims], stride[kMaxDims];
  Matrices(const Tensor& t, Dims batch)
      : data(t.data), rs(t.strides[t.ndim - 2]), cs(t.strides[t.ndim - 1]), ndim(int(batch.size())) {
    int missing = ndim - (t.ndim - 2);
    for (int d = 0; d < ndim; ++d) {
      size[d] = batch[d];
      stride[d] = d < missing || t.sizes[d - missing] == 1 ? 0 : t.strides[d - missing];
    }
  }
  T* at(int64_t b) const {
    if (ndim == 1) return reinterpret_cast<T*>(const_cast<char*>(data)) + b * stride[0];
    int64_t offset = 0;
    for (int d = ndim - 1; d >= 0; --d) {
      offset += b % size[d] * stride[d];
      b /= size[d];
    }
    return reinterpret_cast<T*>(const_cast<char*>(data)) + offset;
  }
  // Matrix b, or its transpose where rs and cs are exchanged, column by column.
  void read(int64_t b, int64_t rows, int64_t cols, T* to, int64_t ld) const { copy(at(b), rs, cs, rows, cols, to, ld); }
  void read_transposed(int64_t b, int64_t rows, int64_t cols, T* to, int64_t ld) const {
    copy(at(b), cs, rs, rows, cols, to, ld);
  }

  static void copy(const T* from, int64_t rs, int64_t cs, int64_t rows, int64_t cols, T* to, int64_t ld) {
    if (rs == 1) {
      for (int64_t j = 0; j < cols; ++j) std::copy_n(from + j * cs, rows, to + j * ld);
      return;
    }
    constexpr int64_t kTile = 16;  // both sides stay in cache
    for (int64_t i0 = 0; i0 < rows; i0 += kTile)
      for (int64_t j0 = 0; j0 < cols; j0 += kTile)
        for (int64_t j = j0; j < std::min(cols, j0 + kTile); ++j)
          for (int64_t i = i0; i < std::min(rows, i0 + kTile); ++i) to[j * ld + i] = from[i * rs + j * cs];
  }
};

// What LAPACK compares to choose a pivot.
template <class T>
inline lapack::real_t<T> magnitude(T a) {
  if constexpr (lapack::kComplex<T>) return std::abs(a.real()) + std::abs(a.imag());
  else return std::abs(a);
}

// f(first, last) over the batch; `cost` in element visits of one matrix.
template <class F>
void each_matrix(int64_t batch, int64_t cost, F&& f) {
  parallel_for(batch, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, cost)), f);
}

// f(first, last) over columns or rows that do not know of each other, in pieces whose number depends on n alone: LAPACK
// rounds the borders of a piece differently.
template <class F>
void each_piece(int64_t n, F&& f) {
  constexpr int64_t kPiece = 128;
  parallel_for((n + kPiece - 1) / kPiece, 1, [&](int64_t first, int64_t last) {
    for (int64_t k = first; k < last; ++k) f(k * kPiece, std::min(n, (k + 1) * kPiece));
  });
}

// Throws LinAlgError for the first matrix whose info is not zero; `say(info)` is the message.
template <class F>
void check_info(const Call& c, const int32_t* info, int64_t n, bool batched, F&& say) {
  for (int64_t k = 0; k < n; ++k)
    if (info[k]) {
      std::string which = batched ? concat(": (Batch element ", k, ")") : std::string();
      fail(ErrorKind::LinAlg, c.name(), which, ": ", say(info[k]));
    }
}

// What a decomposition's number says, by the function that the user has called. Of eigenvalues and singular values,
// kNotFinite: the matrix holds an infinity or NaN.
constexpr int32_t kNotFinite = -1;
std::string failure_text(std::string_view api, int32_t info);
// LinAlgError for one that is not 0; batch: of which matrix, -1 where there is one.
[[noreturn]] void raise_failure(std::string_view api, int64_t batch, int32_t info);
// For the first that is not 0.
void raise_failures(const int32_t* info, int64_t n, std::string_view api, bool batched);

// LAPACK may never return from a matrix with NaN or infinity in it.
template <class T>
bool finite(const T* a, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (!std::isfinite(std::real(a[i])) || !std::isfinite(std::imag(a[i]))) return false;
  return true;
}

}  // namespace flambeau
