"""The linear layer for training a model that gets dynamic quantization afterwards."""

from ...modules.linear import Linear as _Linear


class Linear(_Linear):
    """A Linear layer whose weight passes through its codes; the activation's codes are chosen in each call."""

    def __init__(self, in_features, out_features, bias=True, qconfig=None, device=None, dtype=None):
        super().__init__(in_features, out_features, bias, qconfig, device, dtype)
        seen = qconfig.activation()
        if getattr(getattr(seen, "activation_post_process", seen), "averaging_constant", None) != 1:
            raise ValueError("qat.dynamic.Linear: the activation's observer must forget earlier calls "
                             "(averaging_constant=1), as in default_dynamic_qat_qconfig")
