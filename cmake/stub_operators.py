"""Stubs of operators: their records' schemas as Python signatures, an overload for each form."""

import keyword
import re

TYPES = {  # schema type -> annotation
    "Tensor": "Tensor", "Scalar": "Number", "int": "int", "float": "float", "bool": "bool", "str": "str",
    "dtype": "dtype", "device": "device | str | int", "layout": "layout", "memory_format": "memory_format",
    "Generator": "Generator", "any": "Any", "Tensor[]": "Sequence[Tensor]", "Tensor?[]": "Sequence[Tensor | None]",
    "Tensor[1]": "Sequence[Tensor]", "int[]": "int | Sequence[int]", "float[]": "Sequence[float]",
    "bool[]": "Sequence[bool]",
}


def annotation(kind, takes_number=False):
    """The annotation of a schema type."""
    optional = kind.endswith("?")
    kind = kind.removesuffix("?")
    sized = re.fullmatch(r"(int|float|bool)\[\d+\]", kind)
    text = f"{TYPES[sized[1]]} | Sequence[{TYPES[sized[1]]}]" if sized else TYPES[kind]
    if takes_number and kind == "Tensor":
        text += " | Number"
    return f"{text} | None" if optional else text


def shown(default):
    """A default as it stands in a stub."""
    return repr(default) if type(default) in (int, float, bool, str, type(None)) and default == default else "..."


class OperatorStubs:
    """Collects the named tuples that operators of several results return."""

    def __init__(self):
        self.tuples = {}

    def lines(self, name, op, describe, method=False):
        """The definitions of one operator."""
        forms = []
        for form in describe.forms(op):
            forms.append(self._text(name, form, method))
            for apart in (form.apart, form.repeated):
                if apart is not None:
                    forms.append(self._text(name, form, method, apart))
        forms = list(dict.fromkeys(forms))
        return forms if len(forms) == 1 else [line for text in forms for line in ("@overload", text)]

    def _text(self, name, form, method, apart=None):
        op, parts, starred = form.op, [], False
        needed = [k for k, p in enumerate(form.parameters) if p.required and not p.keyword_only] or [-1]
        for k, p in enumerate(form.parameters):
            if p.keyword_only and not starred:
                starred = True
                if apart is None:
                    parts.append("*")
            kind = annotation(p.type, form.takes_number(p))
            if k == 0 and p.name == "self":
                parts.append("self" if method else f"input: {kind}")
            elif p is apart:
                parts.append(f"*{p.name}: {'Tensor' if 'Tensor' in kind else 'int'}")
            else:
                label = p.name + "_" if keyword.iskeyword(p.name) else p.name
                required = p.required or (k < needed[-1] and not p.keyword_only)
                parts.append(f"{label}: {kind}" + ("" if required else f" = {shown(p.default)}"))
        if method and parts and not parts[0].startswith("self"):
            parts[0] = "self"
        if op.takes_out:
            parts += ([] if starred or apart is not None else ["*"]) + ["out: Any = None"]
        return f"def {name}({', '.join(parts)}) -> {self._result(form.results, method and op.is_inplace)}: ..."

    def _result(self, results, inplace):
        if inplace:
            return "Self"
        names = re.findall(r"Tensor (\w+)", results)
        if names:
            self.tuples[named := "_" + "_".join(names)] = names
            return named
        if re.fullmatch(r"\(Tensor(, Tensor)+\)", results):
            return f"tuple[{', '.join(['Tensor'] * results.count('Tensor'))}]"
        if results in ("Tensor[]", "Tensor"):
            return "tuple[Tensor, ...]" if results == "Tensor[]" else "Tensor"
        return "None" if results == "()" else "Any"

    def classes(self):
        """The definitions of the named tuples."""
        for name, fields in sorted(self.tuples.items()):
            yield f"class {name}(NamedTuple):\n" + "\n".join(f"    {field}: Tensor" for field in fields)
