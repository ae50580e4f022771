// Non-maximum suppression: of boxes that overlap more than a threshold, only the one with the highest score stays.
//
// Boxes are taken best first. One that is still there marks every later one that it overlaps too much, in one vector
// loop; the marked ones are dropped from time to time, so the loops get shorter as boxes go.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "widened.h"

namespace flambeau {
namespace {

template <class T>
struct Boxes {
  std::vector<T> x1, y1, x2, y2, area;
  std::vector<int64_t> index;
  std::vector<uint8_t> gone;

  explicit Boxes(size_t n) : x1(n), y1(n), x2(n), y2(n), area(n), index(n), gone(n) {}

  void put(size_t k, T left, T top, T right, T bottom, int64_t from) {
    x1[k] = left, y1[k] = top, x2[k] = right, y2[k] = bottom;
    area[k] = (right - left) * (bottom - top);
    index[k] = from;
  }
  // Drops those that are gone, from `begin` on; the new number of boxes.
  size_t compact(size_t begin, size_t n) {
    size_t to = begin;
    for (size_t k = begin; k < n; ++k) {
      if (gone[k]) continue;
      x1[to] = x1[k], y1[to] = y1[k], x2[to] = x2[k], y2[to] = y2[k], area[to] = area[k], index[to] = index[k];
      ++to;
    }
    std::fill(gone.begin() + begin, gone.begin() + to, 0);
    return to;
  }
};

// The order of falling scores; equal ones stay as they came, and NaN counts as the highest, as in sort.
template <class T>
std::vector<int64_t> best_first(const T* scores, int64_t n) {
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), int64_t(0));
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const T x = scores[a], y = scores[b];
    return x > y || (std::isnan(x) && !std::isnan(y));
  });
  return order;
}

template <class T>
void mark(Boxes<T>& b, size_t i, size_t begin, size_t end, T threshold) {
  const T left = b.x1[i], top = b.y1[i], right = b.x2[i], bottom = b.y2[i], own = b.area[i];
  const T *__restrict x1 = b.x1.data(), *__restrict y1 = b.y1.data(), *__restrict x2 = b.x2.data(),
          *__restrict y2 = b.y2.data(), *__restrict area = b.area.data();
  uint8_t* __restrict gone = b.gone.data();
  for (size_t j = begin; j < end; ++j) {
    const T l = left > x1[j] ? left : x1[j], t = top > y1[j] ? top : y1[j];
    const T r = right < x2[j] ? right : x2[j], s = bottom < y2[j] ? bottom : y2[j];
    const T w = r - l > 0 ? r - l : T(0), h = s - t > 0 ? s - t : T(0), both = w * h;
    gone[j] |= uint8_t(both / (own + area[j] - both) > threshold);
  }
}

constexpr size_t kBetween = 128;  // boxes looked at between two compactions

template <class T>
std::vector<int64_t> kept_of(const Tensor& boxes, const Tensor& scores, double threshold) {
  constexpr DType type = std::is_same_v<T, double> ? DType::Float64 : DType::Float32;
  TensorRef dense = contiguous(*to_dtype(boxes, type)), values = contiguous(*to_dtype(scores, type));
  size_t n = size_t(boxes.size(0));
  LockRelease lock(int64_t(n) * 32);
  // the values once more in memory that no other thread writes to: sorting needs them to hold still
  const std::vector<T> own(values->ptr<T>(), values->ptr<T>() + n);
  const std::vector<int64_t> order = best_first(own.data(), int64_t(n));
  Boxes<T> b(n);
  for (size_t k = 0; k < n; ++k) {
    const T* box = dense->ptr<T>() + order[k] * 4;
    b.put(k, box[0], box[1], box[2], box[3], order[k]);
  }
  // an overlap, rounded to T, exceeds the threshold just when it exceeds the largest T that is not above it
  T limit = T(threshold);
  if (double(limit) > threshold) limit = std::nextafter(limit, -std::numeric_limits<T>::infinity());
  std::vector<int64_t> kept;
  for (size_t i = 0; i < n; ++i) {
    if (i % kBetween == 0) {
      interruption_point();
      n = b.compact(i, n);
      if (i == n) break;
    }
    if (b.gone[i]) continue;
    kept.push_back(b.index[i]);
    parallel_for(int64_t(n - i - 1), 32768, [&](int64_t begin, int64_t end) {
      mark(b, i, i + 1 + size_t(begin), i + 1 + size_t(end), limit);
    });
  }
  return kept;
}

void infer_nms(Call& c) {
  const Tensor &boxes = c.tensor(0), &scores = c.tensor(1);
  if (boxes.ndim != 2 || boxes.size(1) != 4)
    runtime_error(c.name(), ": boxes must have shape [N, 4], got ", shape_text(boxes.shape()));
  if (scores.ndim != 1 || scores.size(0) != boxes.size(0))
    runtime_error(c.name(), ": one score per box is needed, got scores of shape ", shape_text(scores.shape()), " for ",
                  boxes.size(0), " boxes");
  if (boxes.dtype != scores.dtype || !is_floating(boxes.dtype))
    runtime_error(c.name(), ": boxes and scores must be of one floating-point dtype, got ", dtype_name(boxes.dtype),
                  " and ", dtype_name(scores.dtype));
  if (boxes.is_meta())
    not_implemented(c.name(), ": how many boxes stay depends on their values, which tensors on 'meta' do not have");
  const bool wide = boxes.dtype == DType::Float64;
  auto& kept = c.hand_over(wide ? kept_of<double>(boxes, scores, c.real(2)) : kept_of<float>(boxes, scores, c.real(2)));
  const int64_t n = int64_t(kept.size());
  c.output(Dims(&n, 1), DType::Int64, boxes.device);
}

void cpu_nms(Call& c) {
  const auto& kept = c.handed<std::vector<int64_t>>();
  std::copy(kept.begin(), kept.end(), c.out().ptr<int64_t>());
}

const Primitives rows{
    {"nms", infer_nms, cpu_nms, Infer::ReadsValues},
};

}  // namespace
}  // namespace flambeau
