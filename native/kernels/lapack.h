// LAPACK as the package scipy-openblas32 brings it: loaded when first asked for, called by name with the types deduced.
//
// Every routine stays in the calling thread (OpenBLAS is told to use one): batches are divided among threads here, and
// a result never depends on how many there are.
#pragma once
#include <algorithm>
#include <string>

#include "../core/call.h"

namespace flambeau {

namespace lapack {

void load();  // makes the routines available; call it with the interpreter lock held, before any of them
void* symbol(char letter, const char* name);

template <class T> struct Real { using type = T; };
template <class R> struct Real<std::complex<R>> { using type = R; };
template <class T> using real_t = typename Real<T>::type;
template <class T> inline constexpr bool kComplex = !std::is_same_v<T, real_t<T>>;
template <class T> inline constexpr char kLetter =
    std::is_same_v<T, float> ? 's' : std::is_same_v<T, double> ? 'd' : std::is_same_v<T, complex64> ? 'c' : 'z';

template <class T>
void* routine(const char* name) { return symbol(kLetter<T>, name); }
// Orthogonal for real numbers, unitary for complex ones: the routines have two names.
template <class T>
void* routine(const char* real, const char* complex) { return symbol(kLetter<T>, kComplex<T> ? complex : real); }

template <class... Args>
inline void call(void* f, Args... args) { reinterpret_cast<void (*)(Args...)>(f)(args...); }

inline constexpr size_t kOne = 1;  // Fortran passes the length of every character argument at the end

template <class T>
int size_of_work(T query) { return std::max(1, int(std::real(query))); }

// Memory that a routine works in, grown when a larger one is asked for.
template <class T>
struct Work {
  std::vector<T> memory;
  int known = 0;  // what the routine asked for, of the first matrix of a batch
  T* at_least(int64_t n) {
    if (int64_t(memory.size()) < n) memory.resize(size_t(n));
    return memory.data();
  }
};

template <class T>
int getrf(int m, int n, T* a, int lda, int* pivots) {
  static void* const f = routine<T>("getrf");
  int info = 0;
  call(f, &m, &n, a, &lda, pivots, &info);
  return info;
}
template <class T>
void getrs(char trans, int n, int nrhs, const T* a, int lda, const int* pivots, T* b, int ldb) {
  static void* const f = routine<T>("getrs");
  int info = 0;
  call(f, &trans, &n, &nrhs, a, &lda, pivots, b, &ldb, &info, kOne);
}
template <class T>
int getri(int n, T* a, int lda, const int* pivots, Work<T>& work) {
  static void* const f = routine<T>("getri");
  int info = 0, lwork = -1;
  T query{};
  call(f, &n, a, &lda, pivots, &query, &lwork, &info);
  lwork = size_of_work(query);
  call(f, &n, a, &lda, pivots, work.at_least(lwork), &lwork, &info);
  return info;
}
template <class T>
int potrf(char uplo, int n, T* a, int lda) {
  static void* const f = routine<T>("potrf");
  int info = 0;
  call(f, &uplo, &n, a, &lda, &info, kOne);
  return info;
}
template <class T>
void trsm(char side, char uplo, char trans, char diag, int m, int n, const T* a, int lda, T* b, int ldb) {
  static void* const f = routine<T>("trsm");
  T one = 1;
  call(f, &side, &uplo, &trans, &diag, &m, &n, &one, a, &lda, b, &ldb, kOne, kOne, kOne, kOne);
}
template <class T>
void trsv(char uplo, char trans, char diag, int n, const T* a, int lda, T* x, int step) {
  static void* const f = routine<T>("trsv");
  call(f, &uplo, &trans, &diag, &n, a, &lda, x, &step, kOne, kOne, kOne);
}
template <class T>
int sytrf(bool hermitian, int n, T* a, int lda, int* pivots, Work<T>& work) {
  static void* const symmetric = routine<T>("sytrf");
  static void* const adjoint = routine<T>("sytrf", "hetrf");
  void* f = hermitian ? adjoint : symmetric;
  char uplo = 'L';
  int info = 0, lwork = -1;
  T query{};
  call(f, &uplo, &n, a, &lda, pivots, &query, &lwork, &info, kOne);
  lwork = size_of_work(query);
  call(f, &uplo, &n, a, &lda, pivots, work.at_least(lwork), &lwork, &info, kOne);
  return info;
}
template <class T>
void sytrs(bool hermitian, int n, int nrhs, const T* a, int lda, const int* pivots, T* b, int ldb) {
  static void* const symmetric = routine<T>("sytrs");
  static void* const adjoint = routine<T>("sytrs", "hetrs");
  char uplo = 'L';
  int info = 0;
  call(hermitian ? adjoint : symmetric, &uplo, &n, &nrhs, a, &lda, pivots, b, &ldb, &info, kOne);
}
inline constexpr int kBlocks = 64;  // columns that reflections are applied to together, at most

template <class T>
void geqrf(int m, int n, T* a, int lda, T* tau, Work<T>& work) {
  static void* const f = routine<T>("geqrf");
  int info = 0, lwork = kBlocks * std::max(1, n);
  call(f, &m, &n, a, &lda, tau, work.at_least(lwork), &lwork, &info);
}
template <class T>
void orgqr(int m, int n, int k, T* a, int lda, const T* tau, Work<T>& work) {
  static void* const f = routine<T>("orgqr", "ungqr");
  int info = 0, lwork = kBlocks * std::max(1, n);
  call(f, &m, &n, &k, a, &lda, tau, work.at_least(lwork), &lwork, &info);
}
template <class T>
void ormqr(char side, bool transpose, int m, int n, int k, const T* a, int lda, const T* tau, T* c, int ldc,
           Work<T>& work) {
  static void* const f = routine<T>("ormqr", "unmqr");
  char trans = !transpose ? 'N' : kComplex<T> ? 'C' : 'T';
  int info = 0, lwork = -1;
  T query{};
  call(f, &side, &trans, &m, &n, &k, a, &lda, tau, c, &ldc, &query, &lwork, &info, kOne, kOne);
  lwork = size_of_work(query);
  call(f, &side, &trans, &m, &n, &k, a, &lda, tau, c, &ldc, work.at_least(lwork), &lwork, &info, kOne, kOne);
}

// Eigenvalues (and, unless `vectors` is false, eigenvectors in place of a) of a Hermitian matrix.
template <class T>
int heevd(bool vectors, char uplo, int n, T* a, int lda, real_t<T>* w, Work<T>& work, Work<real_t<T>>& rwork,
          Work<int>& iwork) {
  static void* const f = routine<T>("syevd", "heevd");
  using R = real_t<T>;
  char job = vectors ? 'V' : 'N';
  int info = 0, lwork = -1, lrwork = -1, liwork = -1, iquery = 0;
  T query{};
  R rquery{};
  if constexpr (kComplex<T>) {
    if (!work.known) {
      call(f, &job, &uplo, &n, a, &lda, w, &query, &lwork, &rquery, &lrwork, &iquery, &liwork, &info, kOne, kOne);
      work.known = size_of_work(query), rwork.known = size_of_work(rquery), iwork.known = std::max(1, iquery);
    }
    lwork = work.known, lrwork = rwork.known, liwork = iwork.known;
    call(f, &job, &uplo, &n, a, &lda, w, work.at_least(lwork), &lwork, rwork.at_least(lrwork), &lrwork,
         iwork.at_least(liwork), &liwork, &info, kOne, kOne);
  } else {
    if (!work.known) {
      call(f, &job, &uplo, &n, a, &lda, w, &query, &lwork, &iquery, &liwork, &info, kOne, kOne);
      work.known = size_of_work(query), iwork.known = std::max(1, iquery);
    }
    lwork = work.known, liwork = iwork.known;
    call(f, &job, &uplo, &n, a, &lda, w, work.at_least(lwork), &lwork, iwork.at_least(liwork), &liwork, &info, kOne,
         kOne);
  }
  return info;
}

// Eigenvalues of any square matrix: complex w; of real matrices, `v` holds LAPACK's packed pairs.
template <class T>
int geev(bool vectors, int n, T* a, int lda, std::complex<real_t<T>>* w, T* v, int ldv, Work<T>& work,
         Work<real_t<T>>& rwork) {
  static void* const f = routine<T>("geev");
  char no = 'N', job = vectors ? 'V' : 'N';
  int info = 0, lwork = -1, one = 1;
  T query{};
  if constexpr (kComplex<T>) {
    real_t<T>* r = rwork.at_least(2 * std::max(1, n));
    if (!work.known) {
      call(f, &no, &job, &n, a, &lda, w, static_cast<T*>(nullptr), &one, v, &ldv, &query, &lwork, r, &info, kOne, kOne);
      work.known = size_of_work(query);
    }
    lwork = work.known;
    call(f, &no, &job, &n, a, &lda, w, static_cast<T*>(nullptr), &one, v, &ldv, work.at_least(lwork), &lwork, r, &info,
         kOne, kOne);
  } else {
    T* re = rwork.at_least(2 * std::max(1, n));
    T* im = re + n;
    if (!work.known) {
      call(f, &no, &job, &n, a, &lda, re, im, static_cast<T*>(nullptr), &one, v, &ldv, &query, &lwork, &info, kOne,
           kOne);
      work.known = size_of_work(query);
    }
    lwork = work.known;
    call(f, &no, &job, &n, a, &lda, re, im, static_cast<T*>(nullptr), &one, v, &ldv, work.at_least(lwork), &lwork,
         &info, kOne, kOne);
    for (int k = 0; k < n; ++k) w[k] = {re[k], im[k]};
  }
  return info;
}

// job: 'A' all vectors, 'S' the first min(m, n), 'N' none.
template <class T>
int gesdd(char job, int m, int n, T* a, int lda, real_t<T>* s, T* u, int ldu, T* vt, int ldvt, Work<T>& work,
          Work<real_t<T>>& rwork, Work<int>& iwork) {
  static void* const f = routine<T>("gesdd");
  int info = 0, lwork = -1;
  int64_t few = std::min(m, n), most = std::max(m, n);
  int* i = iwork.at_least(8 * std::max<int64_t>(1, few));
  T query{};
  if constexpr (kComplex<T>) {
    int64_t size = job == 'N' ? 7 * few : few * std::max(5 * few + 7, 2 * most + 2 * few + 1);
    real_t<T>* r = rwork.at_least(std::max<int64_t>(1, size));
    if (!work.known) {
      call(f, &job, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, &query, &lwork, r, i, &info, kOne);
      work.known = size_of_work(query);
    }
    lwork = work.known;
    call(f, &job, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, work.at_least(lwork), &lwork, r, i, &info, kOne);
  } else {
    if (!work.known) {
      call(f, &job, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, &query, &lwork, i, &info, kOne);
      work.known = size_of_work(query);
    }
    lwork = work.known;
    call(f, &job, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, work.at_least(lwork), &lwork, i, &info, kOne);
  }
  return info;
}

}  // namespace lapack
}  // namespace flambeau
