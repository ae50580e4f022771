// Convolutions with what follows them by oneDNN: channels last, weights in its own order, which are kept.
#include "conv_tail.h"

#include <bit>

#ifdef FLAMBEAU_ONEDNN
#include "correlate.h"
#include "gemm.h"
#include "onednn.h"

namespace flambeau {
namespace {

using namespace dnnl;
using dims = memory::dims;
constexpr auto kFloat = memory::data_type::f32;

struct Entry {
  memory::desc x, y, plain, own, scratchpad;
  reorder pack;
  convolution_forward run;
};

dims plain_weights(const ConvGeometry& g) {
  if (g.groups > 1) return {g.groups, g.ocg(), g.icg(), g.kernel[1], g.kernel[2]};
  return {g.oc, g.ic, g.kernel[1], g.kernel[2]};
}

post_ops after(const ConvTail& t) {
  post_ops ops;
  if (t.adds) ops.append_sum(1.f);
  switch (t.activation.kind) {
    case Activation::Relu: ops.append_eltwise(algorithm::eltwise_relu, 0.f, 0.f); break;
    case Activation::Clip: ops.append_eltwise(algorithm::eltwise_clip, t.activation.low, t.activation.high); break;
    case Activation::Silu: ops.append_eltwise(algorithm::eltwise_swish, 1.f, 0.f); break;
    case Activation::Hardswish: ops.append_eltwise(algorithm::eltwise_hardswish, 1.f / 6.f, 0.5f); break;
    default: break;
  }
  return ops;
}

Key key_of(const ConvTail& t) {
  const ConvGeometry& g = t.g;
  const Activation& a = t.activation;
  Key key = {g.n, g.ic, g.oc, g.groups, t.bias, t.adds, a.kind, std::bit_cast<int32_t>(a.low),
             std::bit_cast<int32_t>(a.high)};
  for (const auto* three : {&g.in, &g.out, &g.kernel, &g.stride, &g.pad, &g.dilation})
    key.insert(key.end(), three->begin() + 1, three->end());
  return key;
}

std::shared_ptr<Entry> entry_for(const ConvTail& t) {
  static auto* cache = new Recent<Entry>(512);
  return cache->get(key_of(t), [&] {
    const ConvGeometry& g = t.g;
    auto made = std::make_shared<Entry>();
    made->x = memory::desc({g.n, g.ic, g.in[1], g.in[2]}, kFloat, memory::format_tag::nhwc);
    made->y = memory::desc({g.n, g.oc, g.out[1], g.out[2]}, kFloat, memory::format_tag::nhwc);
    const memory::desc any(plain_weights(g), kFloat, memory::format_tag::any);
    const memory::desc bias = t.bias ? memory::desc({g.oc}, kFloat, memory::format_tag::a) : memory::desc();
    dims stride, dilation, pad, end;
    for (int d = 1; d < 3; ++d) {
      stride.push_back(g.stride[d]), dilation.push_back(g.dilation[d] - 1), pad.push_back(g.pad[d]);
      end.push_back(g.pad_end(size_t(d)));
    }
    primitive_attr attr;
    attr.set_post_ops(after(t));
    attr.set_scratchpad_mode(scratchpad_mode::user);
    engine& e = onednn::engine();
    convolution_forward::primitive_desc d(e, prop_kind::forward_inference, algorithm::convolution_direct, made->x, any,
                                          bias, made->y, stride, dilation, pad, end, attr);
    const auto tag = g.groups > 1 ? memory::format_tag::abcde : memory::format_tag::abcd;
    made->plain = memory::desc(plain_weights(g), kFloat, tag);
    made->own = d.weights_desc();
    made->scratchpad = d.scratchpad_desc();
    made->pack = reorder(reorder::primitive_desc(e, made->plain, e, made->own));
    made->run = convolution_forward(d);
    return made;
  });
}

// What tells apart the layouts of weights of one shape.
void add_layout(Key& key, const memory::desc& d) {
  for (const dims& list : {d.get_strides(), d.get_inner_blks(), d.get_inner_idxs()}) {
    key.push_back(int64_t(list.size()));
    key.insert(key.end(), list.begin(), list.end());
  }
}

std::shared_ptr<const PackedWeights> packed_for(const Entry& entry, const TailWeights& weights) {
  Key key;
  add_layout(key, entry.own);
  return weights.in_order(std::move(key), entry.own.get_size(), [&](const float* plain, float* to) {
    engine& e = onednn::engine();
    memory from(entry.plain, e, const_cast<float*>(plain)), own(entry.own, e, to);
    entry.pack.execute(onednn::stream(), from, own);
    onednn::stream().wait();
  });
}

}  // namespace

bool onednn_convolution_with_tail(const ConvTail& t, const float* x, float* y, const TailWeights& weights) {
  try {
    std::shared_ptr<Entry> entry = entry_for(t);
    std::shared_ptr<const PackedWeights> packed = packed_for(*entry, weights);
    engine& e = onednn::engine();
    void* room = scratch_bytes(kScratchA, entry->scratchpad.get_size() + 64);
    std::unordered_map<int, memory> args = {
        {DNNL_ARG_SRC, memory(entry->x, e, const_cast<float*>(x))},
        {DNNL_ARG_WEIGHTS, memory(entry->own, e, packed->weights)},
        {DNNL_ARG_DST, memory(entry->y, e, y)},
        {DNNL_ARG_SCRATCHPAD, memory(entry->scratchpad, e, room)}};
    if (t.bias)
      args[DNNL_ARG_BIAS] = memory(memory::desc({t.g.oc}, kFloat, memory::format_tag::a), e,
                                   const_cast<float*>(packed->bias.data()));
    entry->run.execute(onednn::stream(), args);
    onednn::stream().wait();
    return true;
  } catch (const dnnl::error&) {
    return false;
  }
}

}  // namespace flambeau
#else
namespace flambeau {
bool onednn_convolution_with_tail(const ConvTail&, const float*, float*, const TailWeights&) { return false; }
}  // namespace flambeau
#endif
