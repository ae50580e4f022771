"""What `inspect.signature` and `help` say of an operator: built from its record when somebody asks."""

import ast
import functools
import inspect
import keyword
import re

from .kinds import OPS

_PARAMETER = re.compile(r"(?P<type>\S+) (?P<name>\w+)(?:=(?P<default>.*))?$", re.DOTALL)

_WRITTEN = re.compile(r"(?<=Tensor)\(\w+!\)")  # the mark of what is written to

_WORDS = {  # schema type -> what a reader calls it
    "Tensor": "Tensor", "Scalar": "number", "int": "int", "float": "float", "bool": "bool", "str": "str",
    "dtype": "dtype", "device": "device", "layout": "layout", "memory_format": "memory format",
    "Generator": "Generator", "any": "", "Tensor[]": "tensors", "Tensor?[]": "tensors or None",
    "int[]": "ints", "float[]": "floats", "bool[]": "bools", "Tensor[1]": "tensors",
}

#: what a keyword argument means wherever it occurs
_MEANINGS = {
    "out": "where to write the result",
    "dtype": "of the result",
    "device": "where the result is made",
    "layout": "only strided is available",
    "requires_grad": "whether the result is a leaf that collects gradients",
    "pin_memory": "page-locked memory; needs a GPU",
    "generator": "the random stream; the default one if None",
    "keepdim": "keep reduced dimensions with size 1",
    "inplace": "overwrite the input",
    "memory_format": "order of the result in memory",
    "training": "behave as in training",
}


class Parameter:
    """One argument of a schema: its name, type, default, and how it may be given."""

    def __init__(self, text, keyword_only):
        found = _PARAMETER.match(_WRITTEN.sub("", text))
        self.type, self.name, self.default_text = found["type"], found["name"], found["default"]
        self.keyword_only = keyword_only
        self.required = self.default_text is None and self.type != "Tensor?"

    @property
    def default(self):
        """The default as a Python value."""
        if self.default_text is None:
            return None
        try:
            value = ast.literal_eval(self.default_text)
            return tuple(value) if isinstance(value, list) else value
        except (ValueError, SyntaxError):
            return _Named(self.default_text)

    def words(self, takes_number=False):
        """The type for a reader."""
        plain = self.type.removesuffix("?")
        sized = re.fullmatch(r"(int|float|bool)\[\d+\]", plain)
        words = f"{sized[1]} or {sized[1]}s" if sized else _WORDS[plain]
        if takes_number and plain == "Tensor":
            words = "Tensor or number"
        return words


class _Named:
    """A default that is a name, as contiguous_format or inf: shown without quotes."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return self.name


def split(text):
    """At the commas outside brackets and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for k, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:k].strip())
            start = k + 1
    return [part for part in [*parts, text[start:].strip()] if part]


class Form:
    """One schema, taken apart: `parameters`, the `results` text, and whether sizes may be given one by one."""

    def __init__(self, op):
        self.op = op
        text, results = op.schema.rsplit(") -> ", 1)
        self.results = results.strip()
        self.parameters, keyword_only = [], False
        for part in split(text.partition("(")[2]):
            if part == "*":
                keyword_only = True
            else:
                self.parameters.append(Parameter(part, keyword_only))
        positional = [p for p in self.parameters if not p.keyword_only]
        last = positional[-1] if positional and len(positional) <= 2 else None
        self.apart = last if last and re.fullmatch(r"int\[\d*\]\??", last.type) else None  # x.view(2, 3)
        self.repeated = positional[0] if len(positional) == 1 and positional[0].type == "Tensor[1]" else None

    def takes_number(self, parameter):
        """Whether a Python number may stand for this Tensor."""
        return self.op.kind == "elementwise" and parameter is not self.parameters[0]


def forms(op):
    """The schemas of an operator, one for each overload."""
    return [Form(each) for each in op.alternatives or [op]]


def _method_only(op):
    return op.namespace is None and op.is_method


def _python_name(op, name):
    """What a caller writes: PyTorch's functions say `input` for `self`; a keyword of Python's gets an underscore."""
    if name == "self" and not _method_only(op):
        return "input"
    return name + "_" if keyword.iskeyword(name) else name


@functools.cache
def signature(op):
    """The inspect.Signature of an operator; of overloads, one that every form fits."""
    kinds, order, defaults, gathered = {}, [], {}, ""
    all_forms = forms(op)
    for form in all_forms:
        for p in form.parameters:
            if p.name not in kinds:
                order.append(p.name)
                kinds[p.name] = p.keyword_only
                defaults[p.name] = inspect.Parameter.empty if p.required else p.default
            kinds[p.name] &= p.keyword_only
            if not p.required:
                defaults[p.name] = p.default
        gathered = gathered or ("sizes" if form.apart else "tensors_" if form.repeated else "")
    for name in order:  # what one form lacks cannot be required
        if defaults[name] is inspect.Parameter.empty and not all(
                any(p.name == name for p in form.parameters) for form in all_forms):
            defaults[name] = None
    return inspect.Signature(_parameters(op, order, kinds, defaults, gathered))


def keyword_defaults(op):
    """What a Python function has under this name: the defaults of parameters that are given by name alone, or None."""
    alone = [p for p in signature(op).parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    return {p.name: p.default for p in alone if p.default is not inspect.Parameter.empty} or None


def _parameters(op, order, keyword_only, defaults, gathered):
    positional = [name for name in order if not keyword_only[name]]
    required = [k for k, name in enumerate(positional) if defaults[name] is inspect.Parameter.empty]
    last_required = required[-1] if required else -1
    words = [k for k, name in enumerate(positional) if keyword.iskeyword(name)]
    last_word = words[-1] if words else -1  # cannot be written as a keyword, so nothing before it may be one
    for k, name in enumerate(positional):
        kind = inspect.Parameter.POSITIONAL_ONLY if k <= last_word else inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = inspect.Parameter.empty if k <= last_required else defaults[name]
        yield inspect.Parameter(_python_name(op, name), kind, default=default)
    if gathered:
        yield inspect.Parameter(gathered, inspect.Parameter.VAR_POSITIONAL)
    for name in order:
        if keyword_only[name]:
            yield inspect.Parameter(_python_name(op, name), inspect.Parameter.KEYWORD_ONLY, default=defaults[name])
    if any(each.takes_out for each in op.alternatives or [op]):
        yield inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)


@functools.cache
def document(op):
    """What help() prints: what the operator computes, its arguments and forms, an example."""
    text = inspect.cleandoc(op.summary or "")
    summary, mark, examples = text.partition(">>>")
    base = _in_place_of(op)
    if base is not None:
        summary, mark = f"{base}(…) that writes its result into the tensor itself and returns it.\n\n{summary}", ""
    summary = re.sub(r"\bself\b(?!-)", _python_name(op, "self"), summary)
    parts = [summary.strip(), _arguments(op), _forms(op)]
    parts.append(mark + examples.rstrip() if mark else "")
    return "\n\n".join(part for part in parts if part)


def _in_place_of(op):
    return op.name.removesuffix("_") if op.is_inplace and op.name not in OPS else None


def _arguments(op):
    lines = {}
    for form in forms(op):
        for p in form.parameters:
            lines.setdefault(p.name, _argument(op, form, p))
    if any(each.takes_out for each in op.alternatives or [op]):
        lines["out"] = ("out", f"Tensor, default None: {_MEANINGS['out']}")
    lines = {name: line for name, line in lines.items() if line[1]}
    if not lines:
        return ""
    width = max(len(name) for name, _ in lines.values()) + 2
    return "Arguments\n" + "\n".join(f"    {name:{width}}{words}".rstrip() for name, words in lines.values())


def _argument(op, form, p):
    words = p.words(form.takes_number(p))
    if not p.required:
        words += (", " if words else "") + f"default {p.default!r}"
    if p.name in _MEANINGS:
        words += (": " if words else "") + _MEANINGS[p.name]
    return _python_name(op, p.name), words


def _forms(op):
    lines = []
    for form in forms(op):
        name = op.name
        for apart in [False] * bool(op.alternatives) + [True] * bool(form.apart or form.repeated):
            lines.append(f"{name}({', '.join(_form_parts(op, form, apart))})")
    method = f"Also a method: input.{op.name}(…)" if op.is_method and not _method_only(op) else ""
    if op.inplace_form is not None and method:
        method += f", in place input.{op.inplace_form.name}(…)"
    listed = "Forms\n" + "\n".join("    " + line for line in dict.fromkeys(lines)) if lines else ""
    return "\n\n".join(part for part in (listed, method and method + ".") if part)


def _form_parts(op, form, apart):
    starred = False
    for p in form.parameters:
        name = _python_name(op, p.name)
        if p.keyword_only and not starred:
            starred = True
            if not apart:
                yield "*"
        if apart and p in (form.apart, form.repeated):
            yield "*" + name
        else:
            yield name if p.required else f"{name}={p.default!r}"
