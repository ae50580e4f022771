"""onnx.symbolic_opset9: translations of operators, for the functions that `register_custom_op_symbolic` takes."""

from ._opsets import translations

globals().update(translations("""
    softmax masked_fill add sub mul div relu sigmoid linear log_softmax exp log sqrt tanh neg abs pow where unsqueeze
    squeeze select transpose permute reshape view expand cat stack matmul mm bmm mean sum gelu layer_norm clamp
"""))


def dropout(g, input, p, train):
    """Dropout in training, else the value itself."""
    return translations("dropout_forward")["dropout_forward"](g, input, p)[0] if train else input
