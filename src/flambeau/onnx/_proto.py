"""From a graph to the messages of the `onnx` package, and to files."""

import os

from .. import _C
from ..version import __version__
from ._dtypes import REAL_PARTS, number_of, raw_bytes
from ._graph import Graph

#: a message holds less than this
_LIMIT = 2 ** 31 - 2 ** 20
#: tensors below stay in the model's own file
_SMALL = 1024
_IR_VERSION = 8


def package():
    """The package `onnx`; ModuleNotFoundError says what to install."""
    try:
        import onnx
    except ModuleNotFoundError:
        raise ModuleNotFoundError("onnx.export writes its files through the package onnx, which is not installed: "
                                  "pip install onnx, or flambeau[onnx]") from None
    return onnx


def _text(size, names):
    """A size that is open as a text: a name, or an expression of the names that the user gave."""
    if isinstance(size, str):
        return size
    text = repr(size)
    for symbol, name in names.items():
        text = text.replace(symbol, name)
    return text.strip("()") if text.count("(") == 1 and text.startswith("(") else text


def _shape(value, names):
    if value.shape is None:
        return None
    shape = [n if isinstance(n, int) else None if n is None else _text(n, names) for n in value.shape]
    return shape + [2] if value.dtype in REAL_PARTS else shape


def _info(onnx, value, names):
    return onnx.helper.make_tensor_value_info(value.name, number_of(value.dtype), _shape(value, names))


def _described(message, tensor, name):
    """Writes a tensor's name, dtype and sizes into its message."""
    message.name, message.data_type = name, number_of(tensor.dtype)
    message.dims.extend([*tensor.shape, 2] if tensor.dtype in REAL_PARTS else tensor.shape)
    return message


def _filled(message, tensor, name):
    """Writes a tensor into its message, elements included."""
    _described(message, tensor, name).raw_data = raw_bytes(tensor)
    return message


def _placed(onnx, message, tensor, name, place):
    """Writes a tensor into its message, elements apart: `place` says where they are."""
    _described(message, tensor, name).data_location = onnx.TensorProto.EXTERNAL
    for key, value in place.items():
        message.external_data.add(key=key, value=str(value))


def _attribute(onnx, value, names):
    if isinstance(value, Graph):
        return graph_message(onnx, value, names, "body")
    if isinstance(value, _C.Tensor):
        return _filled(onnx.TensorProto(), value, "")
    return value


def _node(onnx, node, names):
    given = {k: _attribute(onnx, v, names) for k, v in node.attributes.items()}
    empty = {k: v for k, v in given.items() if isinstance(v, list) and not v}
    made = onnx.helper.make_node(node.kind, [v.name if v is not None else "" for v in node.inputs],
                                 [v.name for v in node.outputs], name=f"node_{node.outputs[0].name}",
                                 domain=node.domain or None, **{k: v for k, v in given.items() if k not in empty})
    for key in empty:
        made.attribute.append(onnx.helper.make_attribute(key, [], attr_type=onnx.AttributeProto.INTS))
    return made


def graph_message(onnx, graph, names, title):
    """A graph as a message, without its constants."""
    return onnx.helper.make_graph([_node(onnx, n, names) for n in graph.nodes], title,
                                  [_info(onnx, v, names) for v in graph.inputs],
                                  [_info(onnx, v, names) for v in graph.outputs])


def model_message(graph, opset, names, opsets=None, places=None, weights=True, as_inputs=False):
    """The whole model. `places` says where the elements of constants are that are not inside; without `weights` there
    are no constants, and with `as_inputs` they are inputs too."""
    onnx = package()
    domains = {**graph.domains, **(opsets or {})}
    imports = [onnx.helper.make_opsetid("", opset), *(onnx.helper.make_opsetid(d, v) for d, v in domains.items())]
    made = onnx.helper.make_model(graph_message(onnx, graph, names, "main_graph"), opset_imports=imports,
                                  ir_version=_ir_version(onnx, opset), producer_name="flambeau",
                                  producer_version=__version__)
    for name, value in graph.constants.items() if weights else ():
        message = made.graph.initializer.add()  # in its place: elements are copied once
        if places and name in places:
            _placed(onnx, message, value.data, name, places[name])
        else:
            _filled(message, value.data, name)
    if as_inputs:
        made.graph.input.extend(_info(onnx, v, names) for v in graph.constants.values())
    return made


def _ir_version(onnx, opset):
    needed = onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset)], ignore_unknown=True)
    return max(_IR_VERSION, needed)


def bytes_of(graph):
    """How many bytes the constants take."""
    return sum(v.data.numel() * v.data.element_size() for v in graph.constants.values())


def fits(graph):
    """Whether the constants go into one message."""
    return bytes_of(graph) < _LIMIT


def write_outside(graph, path):
    """Writes large constants to `path`.data, one after another: {name: where it is}; no file where there are none."""
    location, places, offset = os.path.basename(path) + ".data", {}, 0
    large = [v for v in graph.constants.values() if v.data.numel() * v.data.element_size() >= _SMALL]
    if not large:
        return places
    with open(path + ".data", "wb") as file:
        for value in large:
            padding = -offset % 64  # readers map the file into memory
            file.write(b"\0" * padding)
            content = raw_bytes(value.data)
            places[value.name] = {"location": location, "offset": offset + padding, "length": len(content)}
            file.write(content)
            offset += padding + len(content)
    return places
