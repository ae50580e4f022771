// How results and gradients are laid out: convolutions, norms and pools answer channels_last images with channels_last
// ones, and a gradient that is kept lies as what it belongs to.
#pragma once
#include "channels_last.h"
#include "op.h"

namespace flambeau {

// Memory formats and layouts, as arguments have them (an Int), and how users see them.
struct FormatEntry { int code; const char* name; const char* shown; };
inline constexpr FormatEntry kFormats[] = {
    {0, "contiguous_format", "torch.contiguous_format"}, {1, "channels_last", "torch.channels_last"},
    {2, "channels_last_3d", "torch.channels_last_3d"},   {3, "preserve_format", "torch.preserve_format"},
    {100, "strided", "torch.strided"},                   {101, "sparse_coo", "torch.sparse_coo"},
    {102, "sparse_csr", "torch.sparse_csr"},             {103, "jagged", "torch.jagged"},
    {104, "sparse_csc", "torch.sparse_csc"},             {105, "sparse_bsr", "torch.sparse_bsr"},
    {106, "sparse_bsc", "torch.sparse_bsc"}};

// After a kernel: the results of an operator that keeps the format, laid out as its first argument (or its weight) is.
void take_format(Call& c);
// Whether an argument's layout is one that a result could take; most calls end here.
inline bool formatted(const Value& v) {
  const Tensor* t = v.tag == Tag::Tensor                      ? v.tensor
                    : v.tag == Tag::Tensors && v.tensors.size ? v.tensors.data[0]
                                                              : nullptr;
  return t && t->ndim >= 4 && !t->contiguous();
}
inline void keep_format(Call& c) {
  if (__builtin_expect(c.nargs && (formatted(c.args[0]) || (c.nargs > 1 && formatted(c.args[1]))), 0)) take_format(c);
}

// `grad`, which nobody else holds when `ours`, laid out as `like` is: itself where it may stay as it is, else a copy.
TensorRef laid_out_like(const Tensor& like, TensorRef grad, bool ours, bool any_layout);

}  // namespace flambeau
