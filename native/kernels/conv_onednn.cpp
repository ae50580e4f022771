// Convolutions by oneDNN, in the layouts it likes best: operands are reordered on the way in and out.
#include "conv.h"

#ifdef FLAMBEAU_ONEDNN
#include "../core/channels_last.h"
#include "../core/machine.h"
#include "gemm.h"
#include "onednn.h"

namespace flambeau {
namespace {

using namespace dnnl;
using dims = memory::dims;

// One cached convolution: source, weights and destination in the caller's plain layout and in the primitive's own.
struct Entry {
  memory::desc plain[3], own[3];
  reorder in[3], out;  // made only where the layouts differ
  primitive run;
  memory::desc scratchpad;
  bool slow;
  template <class Description>
  void take(const Description& d) { scratchpad = d.scratchpad_desc(), slow = onednn::only_reference(d); }
};

enum { kSource, kWeights, kResult };

struct Shapes {
  memory::desc plain[3], any[3];
  dims stride, dilation, pad, pad_end;
};

// With the channels last; of weights in groups without their first dimension.
dims strides_last(const dims& shape, bool groups) {
  if (!groups) return channels_last_strides(shape);
  dims strides = channels_last_strides(Dims(shape).subspan(1));
  strides.insert(strides.begin(), strides[0] * shape[1]);
  return strides;
}

Shapes shapes_of(const ConvGeometry& g, memory::data_type type, memory::data_type computed, ChannelsLast last) {
  const int first = g.in[0] == 1 && g.out[0] == 1 && g.kernel[0] == 1 ? 1
      : 0;  // two dimensions when the first is trivial
  Shapes s;
  dims x = {g.n, g.ic}, y = {g.n, g.oc}, w;
  if (g.groups > 1) w = {g.groups, g.oc / g.groups, g.ic / g.groups};
  else w = {g.oc, g.ic};
  for (int d = first; d < 3; ++d) {
    x.push_back(g.in[d]), y.push_back(g.out[d]), w.push_back(g.kernel[d]);
    s.stride.push_back(g.stride[d]), s.dilation.push_back(g.dilation[d] - 1), s.pad.push_back(g.pad[d]);
    s.pad_end.push_back(g.pad_end(size_t(d)));
  }
  auto strides = [](const dims& shape) {
    dims st(shape.size(), 1);
    for (size_t d = shape.size() - 1; d-- > 0;) st[d] = st[d + 1] * shape[d + 1];
    return st;
  };
  const dims* all[] = {&x, &w, &y};
  for (int k = 0; k < 3; ++k) {
    const bool image = k != 1;
    const bool lies_last = image ? last.images : last.weights;
    const bool in_groups = !image && g.groups > 1;
    s.plain[k] = memory::desc(*all[k], type, lies_last ? strides_last(*all[k], in_groups) : strides(*all[k]));
    s.any[k] = lies_last && image ? memory::desc(*all[k], computed, strides_last(*all[k], false))
                                  : memory::desc(*all[k], computed, memory::format_tag::any);
  }
  return s;
}

// `result`: which of the three the primitive writes. Numbers of `type` are computed with as `computed`.
// long because: the three primitives of oneDNN differ in types alone
std::shared_ptr<Entry> made_for(const ConvGeometry& g, memory::data_type type, memory::data_type computed, bool bias,
                                int result, ChannelsLast last) {
  engine& e = onednn::engine();
  Shapes s = shapes_of(g, type, computed, last);
  primitive_attr attr;
  attr.set_scratchpad_mode(scratchpad_mode::user);
  auto made = std::make_shared<Entry>();
  auto algorithm = algorithm::convolution_direct;
  auto forward = [&](prop_kind kind, bool with_bias) {
    memory::desc b(dims{g.oc}, type, memory::format_tag::a);
    if (with_bias)
      return convolution_forward::primitive_desc(e, kind, algorithm, s.any[0], s.any[1], b, s.any[2], s.stride,
          s.dilation, s.pad, s.pad_end, attr);
    return convolution_forward::primitive_desc(e, kind, algorithm, s.any[0], s.any[1], s.any[2], s.stride,
        s.dilation, s.pad, s.pad_end, attr);
  };
  if (result == kResult) {
    auto d = forward(prop_kind::forward_training, bias);
    made->own[0] = d.src_desc(), made->own[1] = d.weights_desc(), made->own[2] = d.dst_desc();
    made->take(d), made->run = convolution_forward(d);
  } else if (result == kSource) {
    convolution_backward_data::primitive_desc d(e, algorithm, s.any[0], s.any[1], s.any[2], s.stride, s.dilation,
        s.pad, s.pad_end, forward(prop_kind::forward_training, false), attr);
    made->own[0] = d.diff_src_desc(), made->own[1] = d.weights_desc(), made->own[2] = d.diff_dst_desc();
    made->take(d), made->run = convolution_backward_data(d);
  } else {
    convolution_backward_weights::primitive_desc d(e, algorithm, s.any[0], s.any[1], s.any[2], s.stride, s.dilation,
        s.pad, s.pad_end, forward(prop_kind::forward_training, false), attr);
    made->own[0] = d.src_desc(), made->own[1] = d.diff_weights_desc(), made->own[2] = d.diff_dst_desc();
    made->take(d), made->run = convolution_backward_weights(d);
  }
  for (int k = 0; k < 3; ++k) {
    made->plain[k] = s.plain[k];
    if (made->own[k] == s.plain[k]) continue;
    if (k == result) made->out = reorder(reorder::primitive_desc(e, made->own[k], e, s.plain[k]));
    else made->in[k] = reorder(reorder::primitive_desc(e, s.plain[k], e, made->own[k]));
  }
  return made;
}

std::shared_ptr<Entry> entry_for(const ConvGeometry& g, memory::data_type type, bool bias, int result,
                                 ChannelsLast last) {
  static auto* cache = new Recent<Entry>(256);
  Key key = {g.n, g.ic, g.oc, g.groups, bias, result, int64_t(type), last.images, last.weights};
  for (const auto* t : {&g.in, &g.out, &g.kernel, &g.stride, &g.pad, &g.dilation})
    key.insert(key.end(), t->begin(), t->end());
  // As halves, the gradient of a depthwise convolution with a stride takes twenty times as long.
  const bool widens = result == kSource && g.groups > 1 && g.icg() == 1 && volume(g.stride) > 1;
  return cache->get(key, [&] {
    return made_for(g, type, widens ? memory::data_type::f32 : type, bias, result, last);
  });
}

void run(const Entry* entry, memory::data_type type, int64_t channels, void* x, void* w, const void* bias, void* y,
         int result) {
  engine& e = onednn::engine();
  stream& s = onednn::stream();
  void* data[] = {x, w, y};
  memory own[3];
  size_t offset[4] = {}, total = 0;
  for (int k = 0; k < 3; ++k) {
    offset[k] = total;
    if (entry->own[k] != entry->plain[k]) total += (entry->own[k].get_size() + 63) / 64 * 64;
  }
  offset[3] = total;
  char* room = static_cast<char*>(scratch_bytes(kScratchA, total + entry->scratchpad.get_size() + 64));
  for (int k = 0; k < 3; ++k) {
    if (entry->own[k] == entry->plain[k]) {
      own[k] = memory(entry->own[k], e, data[k]);
      continue;
    }
    own[k] = memory(entry->own[k], e, room + offset[k]);
    if (k == result) continue;
    memory from(entry->plain[k], e, data[k]);
    entry->in[k].execute(s, from, own[k]);
  }
  static const int roles[3][3] = {{DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                                  {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST},
                                  {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}};
  std::unordered_map<int, memory> args;
  for (int k = 0; k < 3; ++k) args[roles[result][k]] = own[k];
  if (bias)
    args[DNNL_ARG_BIAS] = memory(memory::desc(dims{channels}, type, memory::format_tag::a), e, const_cast<void*>(bias));
  args[DNNL_ARG_SCRATCHPAD] = memory(entry->scratchpad, e, room + offset[3]);
  entry->run.execute(s, args);
  if (entry->own[result] != entry->plain[result]) {
    memory to(entry->plain[result], e, data[result]);
    entry->out.execute(s, own[result], to);
  }
  s.wait();
}

}  // namespace

bool onednn_convolution(const ConvGeometry& g, DType dtype, void* x, void* w, const void* bias, void* y,
                        ConvResult which, ChannelsLast last) {
  try {
    const memory::data_type type = onednn::data_type(dtype);
    const int result = which == ConvResult::Output ? kResult : which == ConvResult::Input ? kSource : kWeights;
    const std::shared_ptr<Entry> entry = entry_for(g, type, bias, result, last);
    if (!entry->slow) run(entry.get(), type, g.oc, x, w, bias, y, result);
    return !entry->slow;
  } catch (const dnnl::error&) {
    return false;
  }
}

namespace {
bool has(cpu_isa isa) { return (int(get_effective_cpu_isa()) & int(isa)) == int(isa); }
}  // namespace

bool multiplies_halves(DType dtype) {
  static const bool fast[] = {has(cpu_isa::avx512_core_bf16), has(cpu_isa::avx512_core_fp16)};
  return is_half(dtype) && fast[dtype == DType::Float16];
}
bool multiplies_more_halves(DType dtype) {
  static const bool more = has(cpu_isa::avx512_core_amx) || !is_intel();
  return multiplies_halves(dtype) && (more || dtype == DType::Float16);
}

}  // namespace flambeau
#else
namespace flambeau {
bool multiplies_halves(DType) { return false; }
bool multiplies_more_halves(DType) { return false; }
bool onednn_convolution(const ConvGeometry&, DType, void*, void*, const void*, void*, ConvResult, ChannelsLast) {
  return false;
}
}  // namespace flambeau
#endif
