"""Nested containers as trees: what is a container, how it comes apart into leaves, and how it is put together again.

Containers are tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque, the results of operators with several
outputs, and every class that is registered. Anything else is a leaf, subclasses of list and dict too.
"""

from ._maps import arg_tree_leaves as arg_tree_leaves
from ._maps import map_only as map_only
from ._maps import tree_all as tree_all
from ._maps import tree_all_only as tree_all_only
from ._maps import tree_any as tree_any
from ._maps import tree_any_only as tree_any_only
from ._maps import tree_map as tree_map
from ._maps import tree_map_ as tree_map_
from ._maps import tree_map_only as tree_map_only
from ._maps import tree_map_only_ as tree_map_only_
from ._maps import tree_map_with_path as tree_map_with_path
from ._nodes import SUPPORTED_NODES as SUPPORTED_NODES
from ._nodes import GetAttrKey as GetAttrKey
from ._nodes import MappingKey as MappingKey
from ._nodes import NodeDef as NodeDef
from ._nodes import SequenceKey as SequenceKey
from ._nodes import _get_node_type as _get_node_type
from ._nodes import is_constant_class as is_constant_class
from ._nodes import is_namedtuple as is_namedtuple
from ._nodes import is_namedtuple_class as is_namedtuple_class
from ._nodes import is_namedtuple_instance as is_namedtuple_instance
from ._nodes import is_structseq as is_structseq
from ._nodes import is_structseq_class as is_structseq_class
from ._nodes import is_structseq_instance as is_structseq_instance
from ._nodes import key_get as key_get
from ._nodes import keystr as keystr
from ._register import _deregister_pytree_node as _deregister_pytree_node
from ._register import _register_namedtuple as _register_namedtuple
from ._register import _register_pytree_node as _register_pytree_node
from ._register import register_constant as register_constant
from ._register import register_dataclass as register_dataclass
from ._register import register_pytree_node as register_pytree_node
from ._spec import LeafSpec as LeafSpec
from ._spec import TreeSpec as TreeSpec
from ._spec import broadcast_prefix as broadcast_prefix
from ._spec import tree_flatten as tree_flatten
from ._spec import tree_flatten_with_path as tree_flatten_with_path
from ._spec import tree_is_leaf as _is_leaf
from ._spec import tree_is_leaf as tree_is_leaf
from ._spec import tree_iter as tree_iter
from ._spec import tree_leaves as tree_leaves
from ._spec import tree_leaves_with_path as tree_leaves_with_path
from ._spec import tree_structure as tree_structure
from ._spec import tree_unflatten as tree_unflatten
from ._spec import treespec_dict as treespec_dict
from ._spec import treespec_leaf as treespec_leaf
from ._spec import treespec_tuple as treespec_tuple
from ._text import treespec_dumps as treespec_dumps
from ._text import treespec_loads as treespec_loads
from ._text import treespec_pprint as treespec_pprint

#: for annotations
PyTree = Context = DumpableContext = FlattenFn = UnflattenFn = ToDumpableContextFn = FromDumpableContextFn = object
PyTreeSpec = TreeSpec
_broadcast_to_and_flatten = broadcast_prefix

# by the names under which packages register containers of their own that behave as these
_dict_flatten, _dict_unflatten, _dict_flatten_with_keys = (
    SUPPORTED_NODES[dict].flatten_fn, SUPPORTED_NODES[dict].unflatten_fn, SUPPORTED_NODES[dict].flatten_with_keys_fn)
_list_flatten, _list_unflatten, _list_flatten_with_keys = (
    SUPPORTED_NODES[list].flatten_fn, SUPPORTED_NODES[list].unflatten_fn, SUPPORTED_NODES[list].flatten_with_keys_fn)
