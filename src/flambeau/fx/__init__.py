"""fx: programs as graphs that can be looked at, changed and run. A graph is the one representation of a program here.

`symbolic_trace` makes one of a function or Module, `experimental.proxy_tensor.make_fx` of the operators that a call
really runs; `GraphModule` runs it as generated Python, `Interpreter` step by step; passes change it.

The target of a call_function Node is what the program called: a Python function, or an operator. An operator is one
object wherever it is named (`flambeau.add`, `Tensor.add` and `flambeau.ops.aten.add.Tensor` are the same), so every
producer of graphs writes the same target, calling it runs it at once, and its record (schema, derivative, kind) is at
hand for passes. Forms of one operator (`max.dim`) are told apart by their arguments, as in a call.
"""

from . import annotate as annotate
from . import config as config
from . import experimental as experimental
from . import immutable_collections as immutable_collections
from . import node as node
from . import passes as passes
from . import proxy as proxy
from . import subgraph_rewriter as subgraph_rewriter
from . import tensor_type as tensor_type
from . import traceback as traceback
from ._symbolic_trace import PH as PH
from ._symbolic_trace import PHBase as PHBase
from ._symbolic_trace import PHWithMeta as PHWithMeta
from ._symbolic_trace import ProxyableClassMeta as ProxyableClassMeta
from ._symbolic_trace import Tracer as Tracer
from ._symbolic_trace import symbolic_trace as symbolic_trace
from ._symbolic_trace import wrap as wrap
from .graph import CodeGen as CodeGen
from .graph import Graph as Graph
from .graph_module import GraphModule as GraphModule
from .interpreter import Interpreter as Interpreter
from .interpreter import Transformer as Transformer
from .node import Node as Node
from .node import has_side_effect as has_side_effect
from .node import map_arg as map_arg
from .proxy import Attribute as Attribute
from .proxy import ParameterProxy as ParameterProxy
from .proxy import Proxy as Proxy
from .subgraph_rewriter import replace_pattern as replace_pattern
