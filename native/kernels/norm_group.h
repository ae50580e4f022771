// What both ways of group_norm share: images whose planes lie together, and images whose channels lie last.
#pragma once
#include "norm_columns.h"

namespace flambeau::norm {

struct Groups {
  int64_t batch, channels, groups, per, spatial, row;
  Groups(const Tensor& x, int64_t groups) : batch(x.size(0)), channels(x.size(1)), groups(groups) {
    per = channels / groups;
    spatial = 1;
    for (int d = 2; d < x.ndim; ++d) spatial *= x.size(d);
    row = per * spatial;
  }
};
inline void sum_over_batch(const Groups& s, const std::vector<double>& of_samples, Tensor& sums) {
  for (int64_t j = 0; j < s.channels; ++j) {
    double sum = 0;
    for (int64_t b = 0; b < s.batch; ++b) sum += of_samples[size_t(b * s.channels + j)];
    put<double>(sums.data, sums.dtype, j, sum);
  }
}
// norm_group_last.cpp: both operators for images whose channels lie last
template <class T> void group_norm_last(Call& c, const Groups& s, double eps);
template <class T> void group_norm_backward_last(Call& c, const Groups& s, double eps);

}  // namespace flambeau::norm
