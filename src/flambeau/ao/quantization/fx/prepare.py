"""Observers into a graph: patterns that the backend computes on codes get them for what goes in and what comes out."""

import operator
from warnings import warn

import flambeau

from ....fx import Node
from ..backend_config import ObservationType
from ..observer import ReuseInputObserver
from ..quant_type import QuantType
from .fuse import put
from .matching import find_matches, head_of
from .qconfigs import node_qconfigs, observes

ATTRIBUTES = "_observed_graph_module_attrs"
_NO_TENSORS = ("size", "dim", "numel", "shape", "ndim", "dtype", "device")


def prepare(model, mapping, is_qat, scopes, custom, backend_config):
    """Puts observers into the graph of a fused model; returns what `convert` has to know."""
    qconfigs = node_qconfigs(model, mapping, scopes)
    if is_qat:
        _swap_for_training(model, qconfigs, backend_config)
    observed = _Observers(model, qconfigs, custom, backend_config)
    observed.insert()
    model.graph.lint()
    model.recompile()
    return {"qconfigs": qconfigs, "scopes": scopes, "is_qat": is_qat, "custom": custom,
            "observed": observed.names}


def _swap_for_training(model, qconfigs, backend_config):
    kinds = {pattern: config.qat_module for pattern, config in backend_config._pattern_complex_format_to_config.items()
             if config.qat_module is not None}
    for node in model.graph.nodes:
        if node.op == "call_module" and qconfigs[node.name] is not None:
            module = model.get_submodule(node.target)
            if type(module) in kinds and supported(qconfigs[node.name], backend_config, type(module)):
                put(model, node.target, kinds[type(module)].from_float(module))


def supported(qconfig, backend_config, pattern):
    """Whether the backend computes a pattern with the dtypes and ranges that a QConfig asks for."""
    config = backend_config._pattern_complex_format_to_config.get(pattern)
    return config is not None and any(_suits(qconfig, dtypes, config) for dtypes in config.dtype_configs)


def _suits(qconfig, dtypes, config, roles=None):
    activation, weight = qconfig.activation(), qconfig.weight()
    dynamic = getattr(activation, "is_dynamic", False)
    result = flambeau.float32 if dynamic else activation.dtype
    weighted = config.root_module is not None or "weight" in (roles or config._input_type_to_index)
    return (dtypes.input_dtype in (None, activation.dtype) and bool(dtypes.is_dynamic) == bool(dynamic)
            and dtypes.output_dtype in (None, result)
            and (not weighted or dtypes.weight_dtype in (None, weight.dtype))
            and _within(activation, dtypes.input_dtype_with_constraints)
            and (not weighted or _within(weight, dtypes.weight_dtype_with_constraints)))


def _within(observer, bounds):
    """Whether an observer keeps to the ranges and the fixed scale that a backend demands."""
    seen = getattr(observer, "activation_post_process", observer)
    low, high = getattr(observer, "quant_min", None), getattr(observer, "quant_max", None)
    if bounds.quant_min_lower_bound is not None and low is not None and low < bounds.quant_min_lower_bound:
        return False
    if bounds.quant_max_upper_bound is not None and high is not None and high > bounds.quant_max_upper_bound:
        return False
    if bounds.scale_min_lower_bound is not None and float(getattr(seen, "eps", 0)) < bounds.scale_min_lower_bound:
        return False
    if bounds.scale_exact_match is None:
        return True
    fixed = hasattr(seen, "scale") and float(seen.scale) == bounds.scale_exact_match \
        and int(seen.zero_point) == bounds.zero_point_exact_match
    if not fixed:
        warn("prepare_fx: an operator with a fixed range (sigmoid, tanh …) is not quantized, since its qconfig has no "
             "FixedQParamsObserver; use get_default_qconfig_mapping()", stacklevel=2)
    return fixed


def holds_no_tensor(node):
    """Whether a node's value is a number or a shape: what asks for sizes, and arithmetic of such values."""
    if node.op == "call_method":
        return node.target in _NO_TENSORS
    if node.op != "call_function":
        return False
    if node.target is getattr:
        return node.args[1] in _NO_TENSORS
    inputs = node.all_input_nodes
    return (getattr(node.target, "__module__", None) == operator.add.__module__ and bool(inputs)
            and all(map(holds_no_tensor, inputs)))


class _Observers:
    """The insertion: walks the graph once, and keeps which nodes are patterns and which are observers."""

    def __init__(self, model, qconfigs, custom, backend_config):
        self.model, self.qconfigs, self.custom = model, qconfigs, custom
        self.modules = dict(model.named_modules(remove_duplicate=False))
        self.matches = find_matches(model.graph, self.modules, backend_config)
        self.backend_config, self.names, self.count = backend_config, set(), 0
        places = [node for node in model.graph.nodes if node.op == "placeholder"]
        self.codes = {places[k] for k in custom.input_quantized_indexes}
        self.classes = custom.float_to_observed_mapping.get(QuantType.STATIC, {})

    def insert(self):
        for node in list(self.model.graph.nodes):
            if node.op == "call_module" and type(self.modules[node.target]) in self.classes:
                self._custom(node)
            elif node in self.matches:
                self._pattern(node, self.matches[node])

    def _custom(self, node):
        qconfig = self.qconfigs[node.name]
        if qconfig is None:
            return
        module = self.modules[node.target]
        made = self.classes[type(module)].from_float(module)
        made.qconfig = qconfig
        put(self.model, node.target, made)
        node.args = tuple(self._observed(arg, qconfig.activation, k == 0) for k, arg in enumerate(node.args))
        self._output(node, qconfig.activation())
        self.names.add(node.name)

    def _pattern(self, node, match):
        qconfig, config = self.qconfigs[match.root.name], match.config
        kind = config.observation_type
        tensors = self._tensors(match.root)
        kind = config._num_tensor_args_to_observation_type.get(len(tensors), kind)
        if qconfig is None or kind is ObservationType.INPUT_OUTPUT_NOT_OBSERVED or holds_no_tensor(node) \
                or not any(_suits(qconfig, dtypes, config, self._roles(match.root)) for dtypes in config.dtype_configs):
            return
        if config._num_tensor_args_to_observation_type and not tensors:
            return
        self.names.update(each.name for each in match.nodes)
        activation = qconfig.activation()
        if isinstance(activation, ReuseInputObserver):
            self._reuse(node)
            return
        self._inputs(node, match, qconfig)
        if node is match.last and self._is_static(activation):
            shared = kind is ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT and self._observers_of(match.root)
            self._output(node, shared[0] if shared else activation)
            if shared:
                for target in self._targets_of(match.root):
                    setattr(self.model, target, shared[0])
                    self.modules[target] = shared[0]

    def _roles(self, node):
        """{"weight": the place of the weight among a function's arguments, "bias": …}."""
        config = self.backend_config._pattern_complex_format_to_config.get(head_of(node, self.modules))
        return {} if config is None else config._input_type_to_index

    def _tensors(self, node):
        return [arg for arg in node.args if isinstance(arg, (Node, list, tuple))
                and not (isinstance(arg, Node) and holds_no_tensor(arg))]

    @staticmethod
    def _is_static(activation):
        return not getattr(activation, "is_dynamic", False) and activation.dtype is not flambeau.float32

    def _inputs(self, node, match, qconfig):
        special = {index: name for name, index in self._roles(node).items()}
        names = {name: name for name in ("weight", "bias")} if special else {}
        makers = {"weight": qconfig.weight, "bias": None}
        own = set(match.nodes)

        def changed(key, arg):
            role = special.get(key, names.get(key))
            maker = makers[role] if role else qconfig.activation
            return arg if maker is None or arg in own_list(arg) else self._observed(arg, maker, key == 0)

        def own_list(arg):
            return own if isinstance(arg, Node) else ()

        node.args = tuple(changed(k, arg) for k, arg in enumerate(node.args))
        node.kwargs = {name: changed(name, arg) for name, arg in node.kwargs.items()}

    def _observed(self, arg, maker, first):
        """An argument behind an observer; numbers, sizes and what is observed already stay."""
        if isinstance(arg, (list, tuple)):
            return type(arg)(self._observed(part, maker, first) for part in arg)
        if not isinstance(arg, Node) or holds_no_tensor(arg) or arg in self.codes:
            return arg
        made = maker()
        dynamic = getattr(made, "is_dynamic", False)
        if made.dtype is flambeau.float32 or (dynamic and not first):
            return arg
        if not dynamic and self._observer(arg) is not None and self._observer(arg).dtype == made.dtype:
            return arg
        for user in arg.users:
            seen = self._observer(user)
            if seen is not None and type(seen) is type(made) and seen.dtype == made.dtype \
                    and getattr(seen, "is_dynamic", False) == dynamic:
                return user
        return self._insert(arg, made)

    def _observer(self, node):
        module = self.modules.get(node.target) if node.op == "call_module" else None
        return module if observes(module) else None

    def _targets_of(self, node):
        flat = [part for arg in (*node.args, *node.kwargs.values())
                for part in (arg if isinstance(arg, (list, tuple)) else [arg])]
        return [part.target for part in flat if isinstance(part, Node) and self._observer(part) is not None]

    def _observers_of(self, node):
        return [self.modules[target] for target in self._targets_of(node)]

    def _reuse(self, node):
        found = self._observers_of(node)
        if found and self._is_static(found[0]):
            self._output(node, found[0])

    def _output(self, node, observer):
        if not self._is_static(observer):
            return
        users = list(node.users)
        seen = self._insert(node, observer)
        for user in users:
            user.replace_input_with(node, seen)

    def _insert(self, node, observer):
        while hasattr(self.model, f"activation_post_process_{self.count}"):
            self.count += 1
        name = f"activation_post_process_{self.count}"
        self.model.add_submodule(name, observer)
        self.modules[name] = observer
        with self.model.graph.inserting_after(node):
            return self.model.graph.create_node("call_module", name, (node,), {}, name)
