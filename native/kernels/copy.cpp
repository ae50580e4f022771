// Copies elements between tensors of any strides and dtypes: copy_into, contiguous, to_dtype.
//
// Same dtype: bytes move by element size; whole runs are memcpy, transposes go tile by tile through a small buffer.
// Different dtypes: block by block, through the loops of cast.h.
#include "../core/lazy.h"
#include "../core/recording.h"
#include "cast.h"
#include "simd/blocks.h"
#include "strided.h"

namespace flambeau {

namespace {

constexpr int64_t kCastBlock = 512;
constexpr int64_t kGrain = 32768;
constexpr int64_t kCastRow = 64;  // elements of a row from which on it is converted where it lies

using Space = Strided<2>;

Space copy_space(const Tensor& dst, const Tensor& src) {
  Space s;
  s.operands = 2;
  for (int d = dst.ndim - 1, k = src.ndim - 1; d >= 0; --d, --k) {
    if (k >= 0 && src.sizes[k] != dst.sizes[d] && src.sizes[k] != 1)
      runtime_error("copy: a source of shape ", shape_text(src.shape()), " cannot be expanded to ",
                    shape_text(dst.shape()), ": dimension ", d, " has size ", src.sizes[k], ", which is neither ",
                    dst.sizes[d], " nor 1");
    if (dst.sizes[d] == 1 || dst.numel == 0) continue;  // the strides of nothing may be any numbers
    s.stride[0][s.ndim] = dst.strides[d] * dst.itemsize();
    s.stride[1][s.ndim] = k < 0 || src.sizes[k] == 1 ? 0 : src.strides[k] * src.itemsize();
    s.add_dim(dst.sizes[d]);
  }
  for (int k = 0; k < src.ndim - dst.ndim; ++k)
    if (src.sizes[k] != 1)
      runtime_error("copy: expected a tensor that broadcasts to ", shape_text(dst.shape()), " but got ",
                    shape_text(src.shape()));
  s.sort();
  s.merge();
  if (s.ndim == 0) {
    s.stride[0][0] = dst.itemsize(), s.stride[1][0] = src.itemsize();
    s.add_dim(1);
  }
  return s;
}

// dst[j][i] = src[i][j] for a plane whose source runs along the destination's outer dimension: 64-byte squares are read
// whole into a buffer and written whole, so that no cache line is touched twice. `height` and `width` end at the edges.
template <class U, int64_t kTile>
void transpose_square(char* dst, int64_t dst_step, const char* src, int64_t src_step, int64_t height, int64_t width) {
  U tile[kTile][kTile];
  for (int64_t y = 0; y < height; ++y) std::memcpy(tile[y], src + y * src_step, width * sizeof(U));
  if constexpr (kTransposes && sizeof(U) <= 4) {
    if (width == kTile && height == kTile) {
      for (int64_t x = 0; x < kTile; x += 8)
        for (int64_t y = 0; y < kTile; y += 8)
          transpose_8x8(&tile[y][x], kTile, dst + x * dst_step + y * int64_t(sizeof(U)), dst_step);
      return;
    }
  }
  for (int64_t x = 0; x < width; ++x) {
    U* out = reinterpret_cast<U*>(dst + x * dst_step);
    if (height == kTile)
      for (int64_t y = 0; y < kTile; ++y) out[y] = tile[y][x];
    else
      for (int64_t y = 0; y < height; ++y) out[y] = tile[y][x];
  }
}

// Some rows of the source at a time, so that what lies beside a square is still in a cache when it is its turn.
template <class U>
void transpose_plane(char* dst, int64_t dst_step, const char* src, int64_t src_step, int64_t n, int64_t first,
                     int64_t last) {
  constexpr int64_t kTile = std::max<int64_t>(64 / sizeof(U), 8), kRows = 16 * kTile;
  for (int64_t begin = 0; begin < n; begin += kRows)
    for (int64_t j = first; j < last; j += kTile)
      for (int64_t i = begin; i < std::min(begin + kRows, n); i += kTile)
        transpose_square<U, kTile>(dst + j * dst_step + i * int64_t(sizeof(U)), dst_step,
                                   src + i * src_step + j * int64_t(sizeof(U)), src_step, std::min(kTile, n - i),
                                   std::min(kTile, last - j));
}

// True when the plane form fits: the destination runs along dimension 0, the source along another one, moved to 1 here.
bool arrange_transpose(Space& s, int64_t item) {
  if (s.ndim < 2 || s.stride[0][0] != item || s.stride[1][0] == 0 || s.size[0] < 8) return false;
  for (int d = 1; d < s.ndim; ++d) {
    if (s.stride[1][d] != item || s.size[d] < 4) continue;
    s.swap_dims(1, d);
    return true;
  }
  return false;
}

template <class U> void copy_transposed(const Space& s, char* dst, const char* src) {
  constexpr int64_t kTile = std::max<int64_t>(64 / sizeof(U), 8);
  const int64_t strips = (s.size[1] + kTile - 1) / kTile;
  int64_t planes = 1;
  for (int d = 2; d < s.ndim; ++d) planes *= s.size[d];
  parallel_for(planes * strips, std::max<int64_t>(1, kGrain / (s.size[0] * kTile)), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end;) {
      int64_t plane = at / strips, first = at % strips, last = std::min(strips, first + end - at);
      char* d = dst;
      const char* p = src;
      for (int k = 2; k < s.ndim; ++k) {
        int64_t index = plane % s.size[k];
        plane /= s.size[k];
        d += index * s.stride[0][k];
        p += index * s.stride[1][k];
      }
      transpose_plane<U>(d, s.stride[0][1], p, s.stride[1][0], s.size[0], first * kTile,
                         std::min(last * kTile, s.size[1]));
      at += last - first;
    }
  });
}

template <class U> void copy_runs(const Space& s, char* dst, const char* src, int64_t begin, int64_t end) {
  int64_t index[kMaxDims], rest = begin;
  for (int d = 0; d < s.ndim; ++d) {
    index[d] = rest % s.size[d];
    rest /= s.size[d];
    dst += index[d] * s.stride[0][d];
    src += index[d] * s.stride[1][d];
  }
  while (begin < end) {
    int64_t n = std::min(end - begin, s.size[0] - index[0]);
    if (const int64_t whole = index[0] ? 0 : (end - begin) / s.size[0]; whole > 1 && s.ndim > 1) {
      const int64_t rows = std::min(whole, s.size[1] - index[1]);
      move_rows<U>(dst, s.stride[0][0], s.stride[0][1], src, s.stride[1][0], s.stride[1][1], s.size[0], rows);
      n = s.size[0];
      begin += (rows - 1) * n;
      index[1] += rows - 1;
      dst += (rows - 1) * s.stride[0][1];
      src += (rows - 1) * s.stride[1][1];
    } else {
      move_run<U>(dst, s.stride[0][0], src, s.stride[1][0], n);
    }
    begin += n;
    index[0] += n;
    dst += n * s.stride[0][0];
    src += n * s.stride[1][0];
    for (int d = 0; d + 1 < s.ndim && index[d] == s.size[d]; ++d) {
      dst += s.stride[0][d + 1] - index[d] * s.stride[0][d];
      src += s.stride[1][d + 1] - index[d] * s.stride[1][d];
      index[d] = 0;
      ++index[d + 1];
    }
  }
}

// Several runs of the source dealt out in turn: to[k G + g] = the kth element of run g.
template <class U, int G> void deal(U* __restrict to, const char* from, int64_t step, int64_t n) {
  const U* run[G];
  for (int g = 0; g < G; ++g) run[g] = reinterpret_cast<const U*>(from + g * step);
  for (int64_t k = 0; k < n; ++k)
    for (int g = 0; g < G; ++g) to[k * G + g] = run[g][k];
}
template <class U> void deal(U* to, const char* from, int64_t step, int64_t n, int64_t runs) {
  if (runs == 2) deal<U, 2>(to, from, step, n);
  else if (runs == 3) deal<U, 3>(to, from, step, n);
  else if (runs == 4) deal<U, 4>(to, from, step, n);
  else deal<U, 8>(to, from, step, n);
}

// Short rows of the source taken up and down, as when channels that lie last are dealt out: the inner dimensions that
// are one run of the destination, each element of which comes from a place of its own in the source, always the same.
struct Scattered {
  static constexpr int64_t kMost = 1024;
  int inner = 0;  // dimensions; 0: it is not such a copy
  bool dealt = false;
  int64_t length = 1;
  int32_t place[kMost];

  Scattered(const Space& s, int64_t item) {
    constexpr int64_t kLongRow = 32, kLeast = 16;
    const int64_t n = s.size[0];
    if (s.ndim < 2 || n >= kLongRow || s.stride[1][0] == item || s.stride[0][0] != item || s.stride[0][1] != n * item)
      return;
    dealt = (n == 2 || n == 3 || n == 4 || n == 8) && s.stride[1][1] == item && s.size[1] >= 8;
    if (dealt) inner = 2;
    else find_places(s, item, kLeast);
  }
  void find_places(const Space& s, int64_t item, int64_t least) {
    int n = 0;
    while (n < s.ndim && s.stride[0][n] == length * item && length * s.size[n] <= kMost) length *= s.size[n++];
    if (n < 2 || n == s.ndim || length < least) return;
    inner = n;
    int64_t made = 1;
    place[0] = 0;
    for (int d = 0; d < n; made *= s.size[d++])
      for (int64_t k = 1; k < s.size[d]; ++k)
        for (int64_t j = 0; j < made; ++j) {
          const int64_t at = place[j] + k * s.stride[1][d];
          if (at != int32_t(at)) inner = 0;
          place[k * made + j] = int32_t(at);
        }
  }
  template <class U> void row(const Space& s, char* dst, const char* src) const {
    U* __restrict to = reinterpret_cast<U*>(dst);
    if (dealt) return deal<U>(to, src, s.stride[1][0], s.size[1], s.size[0]);
    const int32_t* __restrict at = place;
    for (int64_t j = 0, n = length; j < n; ++j) to[j] = *reinterpret_cast<const U*>(src + at[j]);
  }
  template <class U> void copy(const Space& s, char* dst, const char* src) const {
    int64_t rows = 1, each = 1;
    for (int d = 0; d < s.ndim; ++d) (d < inner ? each : rows) *= s.size[d];
    parallel_for(rows, std::max<int64_t>(1, kGrain / each), [&](int64_t at, int64_t end) {
      int64_t index[kMaxDims], rest = at;
      char* to = dst;
      const char* from = src;
      for (int d = inner; d < s.ndim; rest /= s.size[d++]) {
        index[d] = rest % s.size[d];
        to += index[d] * s.stride[0][d];
        from += index[d] * s.stride[1][d];
      }
      for (; at < end; ++at) {
        row<U>(s, to, from);
        for (int d = inner; d < s.ndim; ++d) {
          to += s.stride[0][d];
          from += s.stride[1][d];
          if (++index[d] < s.size[d]) break;
          to -= index[d] * s.stride[0][d];
          from -= index[d] * s.stride[1][d];
          index[d] = 0;
        }
      }
    });
  }
};

// One run of the source whose elements go to several runs of the destination in turn, as when a picture's channels
// become its pixels: the kth element of run g comes from place k G + g.
struct Collected {
  int groups = 1, dims = 0;  // the dimensions beside the inner one that the runs differ in; 0: it is not such a copy
  int at[3];

  Collected(const Space& s, int64_t item) {
    constexpr int64_t kShort = 16;
    const int64_t step = s.stride[1][0];
    if (s.ndim < 2 || s.stride[0][0] != item || s.size[0] < kShort) return;
    while (dims < 3 && groups * item < step) {
      int d = 1;
      while (d < s.ndim && s.stride[1][d] != groups * item) ++d;
      if (d == s.ndim || s.size[d] > 8) break;
      at[dims++] = d;
      groups *= int(s.size[d]);
    }
    if (groups * item != step || (groups != 2 && groups != 3 && groups != 4 && groups != 8)) dims = 0;
  }
  template <class U, int G> static void collect(char* const* to, const char* from, int64_t n) {
    U* run[G];
    for (int g = 0; g < G; ++g) run[g] = reinterpret_cast<U*>(to[g]);
    const U* p = reinterpret_cast<const U*>(from);
#pragma GCC ivdep
    for (int64_t k = 0; k < n; ++k)
      for (int g = 0; g < G; ++g) run[g][k] = p[k * G + g];
  }
  template <class U> void copy(const Space& s, char* dst, const char* src) const {
    int outer[kMaxDims], n = 0;
    int64_t runs = 1, place[8];
    for (int d = 1; d < s.ndim; ++d)
      if (std::find(at, at + dims, d) == at + dims) outer[n++] = d, runs *= s.size[d];
    for (int g = 0; g < groups; ++g) {
      place[g] = 0;
      for (int k = 0, rest = g; k < dims; rest /= int(s.size[at[k++]]))
        place[g] += rest % s.size[at[k]] * s.stride[0][at[k]];
    }
    parallel_for(runs, std::max<int64_t>(1, kGrain / (s.size[0] * groups)), [&](int64_t run, int64_t end) {
      for (; run < end; ++run) {
        char *to = dst, *all[8] = {};
        const char* from = src;
        int64_t rest = run;
        for (int k = 0; k < n; rest /= s.size[outer[k++]]) {
          to += rest % s.size[outer[k]] * s.stride[0][outer[k]];
          from += rest % s.size[outer[k]] * s.stride[1][outer[k]];
        }
        for (int g = 0; g < groups; ++g) all[g] = to + place[g];
        if (groups == 2) collect<U, 2>(all, from, s.size[0]);
        else if (groups == 3) collect<U, 3>(all, from, s.size[0]);
        else if (groups == 4) collect<U, 4>(all, from, s.size[0]);
        else collect<U, 8>(all, from, s.size[0]);
      }
    });
  }
};

template <class U> void copy_bits(Space& s, char* dst, const char* src, int64_t n) {
  if (const Collected collected(s, sizeof(U)); collected.dims) return collected.copy<U>(s, dst, src);
  if (arrange_transpose(s, sizeof(U))) return copy_transposed<U>(s, dst, src);
  if (const Scattered scattered(s, sizeof(U)); scattered.inner) return scattered.copy<U>(s, dst, src);
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) { copy_runs<U>(s, dst, src, begin, end); });
}

// Long rows without gaps on both sides are converted where they lie.
void convert_rows(const Space& s, char* dst, const char* src, int64_t in, int64_t out, const Cast& cast) {
  const int64_t length = s.size[0], cuts = (length + kGrain - 1) / kGrain;
  parallel_for(s.numel() / length * cuts, std::max<int64_t>(1, kGrain / length), [&](int64_t t, int64_t end) {
    for (; t < end; ++t) {
      const int64_t first = t % cuts * kGrain;
      int64_t row = t / cuts, to = first * out, from = first * in;
      for (int d = 1; d < s.ndim; row /= s.size[d++]) {
        to += row % s.size[d] * s.stride[0][d];
        from += row % s.size[d] * s.stride[1][d];
      }
      cast.apply(dst + to, src + from, std::min(kGrain, length - first));
    }
  });
}

void copy_converted(const Space& s, const Tensor& dst, const Tensor& src, const Cast& cast) {
  const int64_t n = dst.numel, in = src.itemsize(), out = dst.itemsize();
  if (s.ndim > 1 && s.size[0] >= kCastRow && s.stride[0][0] == out && s.stride[1][0] == in)
    return convert_rows(s, dst.data, src.data, in, out, cast);
  const bool direct_in = s.linear(1, in), direct_out = s.linear(0, out);
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    alignas(64) char raw[kCastBlock * 16], made[kCastBlock * 16];
    for (int64_t at = begin; at < end; at += kCastBlock) {
      const int64_t m = std::min(kCastBlock, end - at);
      const char* p = src.data + at * in;
      if (!direct_in) {
        visit_size(in, [&]<class U>() { block_move<true, U>(s, 1, src.data, at, m, raw); });
        p = raw;
      }
      cast.apply(direct_out ? dst.data + at * out : made, p, m);
      if (!direct_out) visit_size(out, [&]<class U>() { block_move<false, U>(s, 0, dst.data, at, m, made); });
    }
  });
}

bool same_place(const Tensor& a, const Tensor& b) {
  if (a.data != b.data || a.dtype != b.dtype || a.ndim != b.ndim) return false;
  for (int d = 0; d < a.ndim; ++d)
    if (a.sizes[d] != b.sizes[d] || (a.sizes[d] != 1 && a.strides[d] != b.strides[d])) return false;
  return true;
}

}  // namespace

void copy_into(Tensor& dst, const Tensor& src) {
  if (__builtin_expect((dst.flags | src.flags) & kLazy, 0))
    return is_lazy(dst) ? write_lazy(dst, src) : copy_into(dst, *resolved(src));
  need_memory(dst), need_values(src);
  if (__builtin_expect(tls.dispatch_modes != 0, 0)) about_to_write(dst);
  if (dst.device.type != DeviceType::CPU || src.device.type != DeviceType::CPU) return copy_by_table(dst, src);
  copy_on_cpu(dst, src);
}

// The memory of both is this process's own.
void copy_on_cpu(Tensor& dst, const Tensor& src) {
  if (dst.dtype == src.dtype && dst.contiguous() && src.contiguous() && dst.ndim == src.ndim &&
      std::equal(dst.sizes, dst.sizes + dst.ndim, src.sizes) && dst.storage != src.storage) {
    if (dst.numel == 0) return;
    const int64_t n = dst.nbytes();
    if (n <= 4 * kGrain) {
      std::memcpy(dst.data, src.data, n);
      return;
    }
    LockRelease lock(dst.numel, {&dst, &src});
    return parallel_for(n, 4 * kGrain, [&](int64_t begin, int64_t end) {
      move_bytes(dst.data + begin, src.data + begin, end - begin);
    });
  }
  if (dst.dtype != src.dtype && dst.numel <= kCastBlock && dst.contiguous() && src.contiguous() &&
      dst.storage != src.storage && std::ranges::equal(dst.shape(), src.shape()))
    return make_cast(src.dtype, dst.dtype).apply(dst.data, src.data, dst.numel);
  Space s = copy_space(dst, src);
  if (dst.numel == 0 || same_place(dst, src)) return;
  TensorRef apart;  // the source shares memory with the destination: read it before anything is written
  const Tensor* from = &src;
  if (ranges_meet(dst, src)) {
    apart = empty(src.shape(), src.dtype, src.device);
    copy_on_cpu(*apart, src);
    from = apart.get();
    s = copy_space(dst, *from);
  }
  LockRelease lock(dst.numel, {&dst, from});
  if (dst.dtype != from->dtype) return copy_converted(s, dst, *from, make_cast(from->dtype, dst.dtype));
  visit_size(dst.itemsize(), [&]<class U>() { copy_bits<U>(s, dst.data, from->data, dst.numel); });
}

TensorRef contiguous(const Tensor& t) {
  if (t.contiguous()) return TensorRef::borrow(const_cast<Tensor*>(&t));
  TensorRef copy = empty(t.shape(), t.dtype, t.device);
  copy_into(*copy, t);
  return copy;
}

TensorRef to_dtype(const Tensor& t, DType dtype) {
  if (t.dtype == dtype) return TensorRef::borrow(const_cast<Tensor*>(&t));
  bool dense = !t.contiguous() && t.numel > 0 && !may_overlap(t);
  if (dense) {
    auto [low, high] = address_range(t);
    dense = high - low == t.nbytes() && low == t.data;
  }
  TensorRef copy = dense ? empty_strided(t.shape(), t.stride(), dtype, t.device) : empty(t.shape(), dtype, t.device);
  copy_into(*copy, t);
  return copy;
}

}  // namespace flambeau
