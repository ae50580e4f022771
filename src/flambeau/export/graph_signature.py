"""What the inputs and outputs of an exported graph are: parameters, buffers, constants, arguments of the user."""

import enum
from dataclasses import dataclass

InputKind = enum.Enum("InputKind", "USER_INPUT PARAMETER BUFFER CONSTANT_TENSOR CUSTOM_OBJ TOKEN", module=__name__)
OutputKind = enum.Enum("OutputKind", "USER_OUTPUT LOSS_OUTPUT BUFFER_MUTATION PARAMETER_MUTATION GRADIENT_TO_PARAMETER "
                       "GRADIENT_TO_USER_INPUT USER_INPUT_MUTATION TOKEN", module=__name__)


@dataclass
class TensorArgument:
    """A tensor, by the name of its Node."""

    name: str


@dataclass
class SymIntArgument:
    """An int that is open, by the name of its Node."""

    name: str


@dataclass
class SymFloatArgument:
    """A float that is open, by the name of its Node."""

    name: str


@dataclass
class SymBoolArgument:
    """A truth that is open, by the name of its Node."""

    name: str


@dataclass
class TokenArgument:
    """The order of steps that do something besides their results, by the name of its Node."""

    name: str


@dataclass
class ConstantArgument:
    """A value that is part of the program."""

    name: str
    value: object


@dataclass
class InputSpec:
    """An input of the graph: `target` is the name in the module of what is not an argument of the user."""

    kind: InputKind
    arg: object
    target: str | None
    persistent: bool | None = None

    def __str__(self):
        target = "" if self.target is None else f" target='{self.target}'"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


@dataclass
class OutputSpec:
    """An output of the graph."""

    kind: OutputKind
    arg: object
    target: str | None

    def __str__(self):
        target = "" if self.target is None else f" target='{self.target}'"
        return f"{self.arg.name}: {self.kind.name}{target}"


@dataclass
class ExportBackwardSignature:
    """Which outputs of a program are its loss and the gradients: {name of the output: name of the parameter, or of the
    argument}."""

    gradients_to_parameters: dict
    gradients_to_user_inputs: dict
    loss_output: str


@dataclass
class ExportGraphSignature:
    """The inputs and outputs of an exported graph, in order.

    >>> import flambeau
    >>> net = flambeau.nn.Linear(2, 3)
    >>> print(flambeau.export.export(net, (flambeau.ones(4, 2),)).graph_signature)
    # inputs
    p_weight: PARAMETER target='weight'
    p_bias: PARAMETER target='bias'
    input_1: USER_INPUT
    <BLANKLINE>
    # outputs
    linear: USER_OUTPUT
    <BLANKLINE>
    """

    input_specs: list
    output_specs: list

    def _targets(self, kind):
        return {s.arg.name: s.target for s in self.input_specs if s.kind is kind}

    @property
    def inputs_to_parameters(self):
        """{name of the input: name in the module} of the parameters."""
        return self._targets(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self):
        """{name of the input: name in the module} of the buffers."""
        return self._targets(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self):
        """{name of the input: name among the constants} of tensors that are neither."""
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def parameters(self):
        """The names of the parameters in the module."""
        return tuple(self.inputs_to_parameters.values())

    @property
    def buffers(self):
        """The names of the buffers in the module."""
        return tuple(self.inputs_to_buffers.values())

    @property
    def non_persistent_buffers(self):
        """The names of the buffers that are not in the state dict."""
        return tuple(s.target for s in self.input_specs if s.kind is InputKind.BUFFER and s.persistent is False)

    @property
    def lifted_tensor_constants(self):
        """The names of the other tensors among the constants."""
        return tuple(self.inputs_to_lifted_tensor_constants.values())

    @property
    def inputs_to_lifted_custom_objs(self):
        """{name of the input: name among the constants} of objects of classes: there are none."""
        return self._targets(InputKind.CUSTOM_OBJ)

    @property
    def lifted_custom_objs(self):
        """The names of objects of classes among the constants."""
        return tuple(self.inputs_to_lifted_custom_objs.values())

    @property
    def input_tokens(self):
        """The names of inputs that only order steps."""
        return tuple(s.arg.name for s in self.input_specs if s.kind is InputKind.TOKEN)

    @property
    def output_tokens(self):
        """The names of outputs that only order steps."""
        return tuple(s.arg.name for s in self.output_specs if s.kind is OutputKind.TOKEN)

    @property
    def assertion_dep_token(self):
        """What orders assertions: None, since they are steps."""
        return None

    @property
    def user_inputs(self):
        """The names of the user's arguments; the values of those that are part of the program."""
        return tuple(_shown_as(s.arg) for s in self.input_specs if s.kind is InputKind.USER_INPUT)

    @property
    def user_outputs(self):
        """The names of the results; the values of those that are part of the program."""
        return tuple(_shown_as(s.arg) for s in self.output_specs if s.kind is OutputKind.USER_OUTPUT)

    def _mutated(self, kind):
        return {s.arg.name: s.target for s in self.output_specs if s.kind is kind}

    @property
    def buffers_to_mutate(self):
        """{name of the output: name of the buffer} of those that the outputs replace; {} where a program writes to its
        buffers in place."""
        return self._mutated(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self):
        """{name of the output: name of the parameter} of those that the outputs replace."""
        return self._mutated(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self):
        """{name of the output: name of the argument} of those that the outputs replace."""
        return self._mutated(OutputKind.USER_INPUT_MUTATION)

    @property
    def backward_signature(self):
        """An ExportBackwardSignature where the program returns a loss and gradients; None for others."""
        loss = self._mutated(OutputKind.LOSS_OUTPUT)
        return None if not loss else ExportBackwardSignature(self._mutated(OutputKind.GRADIENT_TO_PARAMETER),
                                                             self._mutated(OutputKind.GRADIENT_TO_USER_INPUT),
                                                             next(iter(loss)))

    def __str__(self):
        return "\n".join(["# inputs", *map(str, self.input_specs), "", "# outputs", *map(str, self.output_specs), ""])


def _shown_as(arg):
    return arg.value if isinstance(arg, ConstantArgument) else arg.name
