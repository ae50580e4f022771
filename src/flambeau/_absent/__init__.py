"""What PyTorch's names ask for and this build does not have: what each one answers, and what to do instead."""

import re
import warnings

QUANTIZED = "the tensor is not quantized: quantize_per_tensor() and quantize_per_channel() make such tensors"
NESTED = "the tensor is dense; nested.nested_tensor makes a nested one"


def refusal(name, reason, like=None):
    """A function that raises NotImplementedError with the name and the reason; a class where the name is one's.

    The name may be followed by PyTorch's parameters, `name(a, b=0, *c)`, which `inspect.signature` then tells;
    or `like` is a function that has them.
    """
    name, told, parameters = name.removesuffix(")").partition("(")
    parameters = parameters if told else None
    if name.rpartition(".")[2][:1].isupper():
        return refused_class(name, reason, parameters)

    def refuse(*args, **kwargs):
        raise NotImplementedError(f"{name}: {reason}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Not available: {reason}."
    if like is not None:
        refuse.__wrapped__ = like
    return _marked(refuse, reason, parameters)


def refusals(namespace, reason, names):
    """{name: its refusal} for names apart by spaces, each with its parameters or without."""
    return {name.partition("(")[0]: refusal(f"{namespace}.{name}".lstrip("."), reason)
            for name in re.findall(r"\w+(?:\([^)]*\))?", names)}


def refused_class(name, reason, parameters=None):
    """A class for annotations and isinstance, which nothing is one of; making one raises NotImplementedError."""
    def refuse(self, *args, **kwargs):
        raise NotImplementedError(f"{name}: {reason}")

    bases = (Exception,) if name.endswith(("Error", "Exception")) else ()  # `except` takes nothing else
    made = type(name.rpartition(".")[2], bases, {"__init__": refuse, "__doc__": f"Not available: {reason}.",
                                                 "__module__": "flambeau"})
    return _marked(made, reason, parameters)


def _marked(found, reason, parameters):
    """Says of a function or class that it refuses, why, and which parameters PyTorch's has."""
    found._refused = reason
    if parameters is not None:
        found.__signature__ = _signature(re.split(r",\s+", parameters) if parameters else [])
    return found


def _signature(words):
    """The signature of parameters as they are written, `a`, `b=0`, `*c`, `**d`; what comes after `*c` has no place."""
    from ast import literal_eval
    from inspect import Parameter, Signature  # not at the top: `import flambeau` comes here and has no use for it

    kinds, plain = [], Parameter.POSITIONAL_OR_KEYWORD
    words = [(word, *default) for word, *default in (w.split("=", 1) for w in words)]
    for word, *_ in words:
        kinds.append({"*": Parameter.VAR_POSITIONAL, "**": Parameter.VAR_KEYWORD}.get("*" * word.count("*"), plain))
        plain = Parameter.KEYWORD_ONLY if "*" in word else plain
    return Signature([Parameter(word.lstrip("*"), kind, default=literal_eval(given[0]) if given else Parameter.empty)
                      for (word, *given), kind in zip(words, kinds) if word != "*"])


_said = set()


def say_once(text, depth=1):
    """A UserWarning, once in a process, at the line of the program, which is `depth` calls above the caller."""
    if text not in _said:
        _said.add(text)
        warnings.warn(text, UserWarning, stacklevel=depth + 2)
