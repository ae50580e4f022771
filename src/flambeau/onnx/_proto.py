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
_IR_VERSION = 10


def package():
    """The package `onnx`; ModuleNotFoundError says what to install."""
    try:
        import onnx
    except ModuleNotFoundError:
        raise ModuleNotFoundError("onnx.export writes its files through the package onnx, which is not installed: "
                                  "pip install onnx, or flambeau[onnx]") from None
    return onnx


def _text(size, names):
    """A size that is open as a text: the names that the user gave, in an expression."""
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


def tensor_message(onnx, tensor, name):
    """A tensor with its elements inside."""
    shape = [*tensor.shape, 2] if tensor.dtype in REAL_PARTS else list(tensor.shape)
    return onnx.TensorProto(name=name, data_type=number_of(tensor.dtype), dims=shape, raw_data=raw_bytes(tensor))


def _outside_message(onnx, tensor, name, location, offset, length):
    shape = [*tensor.shape, 2] if tensor.dtype in REAL_PARTS else list(tensor.shape)
    made = onnx.TensorProto(name=name, data_type=number_of(tensor.dtype), dims=shape,
                            data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        made.external_data.add(key=key, value=str(value))
    return made


def _attribute(onnx, value, names):
    if isinstance(value, Graph):
        return graph_message(onnx, value, names, "body", [])
    if isinstance(value, _C.Tensor):
        return tensor_message(onnx, value, "")
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


def graph_message(onnx, graph, names, title, initializers):
    """A graph as a message."""
    return onnx.helper.make_graph([_node(onnx, n, names) for n in graph.nodes], title,
                                  [_info(onnx, v, names) for v in graph.inputs],
                                  [_info(onnx, v, names) for v in graph.outputs], initializers)


def model_message(graph, opset, names, opsets=None, initializers=None, as_inputs=False):
    """The whole model; `initializers` stands for its constants where they are given."""
    onnx = package()
    if initializers is None:
        initializers = [tensor_message(onnx, v.data, v.name) for v in graph.constants.values()]
    domains = {**graph.domains, **(opsets or {})}
    imports = [onnx.helper.make_opsetid("", opset), *(onnx.helper.make_opsetid(d, v) for d, v in domains.items())]
    message = graph_message(onnx, graph, names, "main_graph", initializers)
    if as_inputs:
        message.input.extend(_info(onnx, v, names) for v in graph.constants.values())
    return onnx.helper.make_model(message, opset_imports=imports, ir_version=_ir_version(onnx, opset),
                                  producer_name="flambeau", producer_version=__version__)


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
    """Writes large constants to `path`.data, one after another, and gives the messages that say where each is."""
    onnx, location = package(), os.path.basename(path) + ".data"
    made, offset = [], 0
    with open(path + ".data", "wb") as file:
        for value in graph.constants.values():
            size = value.data.numel() * value.data.element_size()
            if size < _SMALL:
                made.append(tensor_message(onnx, value.data, value.name))
                continue
            padding = -offset % 64  # readers map the file into memory
            file.write(b"\0" * padding)
            offset += padding
            file.write(raw_bytes(value.data))
            made.append(_outside_message(onnx, value.data, value.name, location, offset, size))
            offset += size
    return made if offset else None


