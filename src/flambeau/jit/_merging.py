"""Finished programs (traced, or read from files) as parts of one that is written: their texts get homes of their own.
"""

import re

_PATH = re.compile(r"__torch__(?:\.\w+)+")
_CONSTANT = re.compile(r"CONSTANTS\.c(\d+)")


class Merged:
    """What the definitions of finished programs are called in the program that takes them in."""

    def __init__(self, script):
        self.script, self._names, self._programs = script, {}, []

    def names(self, program):
        """{qualified name in the program: that in the new one}; its texts are added when it is first asked for."""
        if id(program) not in self._names:
            mark = f"___torch_mangle_{1000 + len(self._programs)}"
            self._programs.append(program)  # its id must stay its own
            found = self._names[id(program)] = {
                f"{home}.{name}": f"{home.partition('.___torch_mangle_')[0]}.{mark}{self._number(home)}.{name}"
                for home in program.texts for name in program.names(home)}
            for home, text in program.texts.items():
                name = next(iter(program.names(home)), None)
                if name is not None:
                    new = found[f"{home}.{name}"].rpartition(".")[0]
                    self.script.texts.setdefault(new, []).append(self._renamed(text, found, program))
        return self._names[id(program)]

    @staticmethod
    def _number(home):
        """What tells homes apart that were marked already."""
        return "".join(f"_{mark}" for mark in re.findall(r"___torch_mangle_(\d+)", home))

    def _renamed(self, text, names, program):
        def path(found):
            whole = found[0]
            known = whole
            while known not in names and "." in known:
                known = known.rpartition(".")[0]
            return names[known] + whole[len(known):] if known in names else whole

        text = _PATH.sub(path, text)
        return _CONSTANT.sub(lambda found: self.script.constants.of(program.constants[int(found[1])]), text)


def finished(module):
    """Whether a module has a program already."""
    return getattr(type(module), "_kind", None) is not None


def attributes_of(module):
    """{name: type} of what a finished module has besides tensors and modules."""
    tables = {*module._parameters, *module._buffers, *module._modules, *module._kind.constants, "training",
              "_is_full_backward_hook"}
    return {name: kind for name, kind in module._kind.types.items() if name not in tables}
