"""Writes `src/flambeau/library/overloads.txt` anew: the overloads of those of aten's operators that this library has.

`python -m tests.parity.aten_overloads --torch PYTHON` asks a Python with PyTorch for the schemas; the comment at the
beginning of the file stays.
"""

import argparse
import json
import re
import subprocess
from pathlib import Path

import flambeau
from flambeau._aten.lookup import aten

TABLE = Path(flambeau.__file__).parent / "library" / "overloads.txt"
#: asks the dispatcher's own operators for their schemas: [name, overload, schema, whether it writes to `out`]
ASK = """
import json, torch
known = set(torch._C._dispatch_get_all_op_names())
print(json.dumps([[s.name[6:], s.overload_name, str(s), any(a.is_out for a in s.arguments)]
                  for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::")
                  and s.name + (f".{s.overload_name}" if s.overload_name else "") in known]))
"""
KINDS = {"Tensor": "T", "SymInt": "i", "int": "i", "bool": "b", "Scalar": "N", "float": "f", "str": "s", "complex": "c",
         "ScalarType": "d", "Device": "v", "Layout": "l", "MemoryFormat": "m"}
#: names that exported programs do not call: lists of tensors at once, layouts of libraries, parts of other operators
ELSEWHERE = ("_foreach", "_fused", "_test", "_convert_indices", "_cudnn", "_sparse", "sparse", "_cslt", "mkldnn",
             "_mkldnn", "miopen", "_thnn", "quantized_", "_transformer", "_native_multi", "_spdiags", "_jagged",
             "_padded", "_cufft", "_validate", "_nested", "_cast_")
_ALIAS = re.compile(r"\(\w!?( -> \*)?\)")


def kind_of(text):
    """The letter of a type, with its marks; None for one that programs do not have."""
    found = re.fullmatch(r"(\w+)(\?)?(\[\d*\])?(\?)?", _ALIAS.sub("", text))
    if found is None or found[1] not in KINDS:
        return None
    return KINDS[found[1]] + "".join(part or "" for part in found.groups()[1:])


def parts_of(text):
    """The arguments of a schema, apart by commas that are in no brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([") - (c in ")]")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def form_of(schema):
    """The arguments of an overload as the table has them, or None where programs cannot call it."""
    head, _, result = schema.partition("(")[2].rpartition(") -> ")
    found = []
    for part in parts_of(head):
        if part == "*":
            found.append(part)
            continue
        declared, given, _ = part.partition("=")
        kind, _, name = declared.rpartition(" ")
        if kind.startswith("Generator"):
            continue
        if kind_of(kind) is None:
            return None
        found.append(f"{kind_of(kind)} {name}{given}")
    if found and found[-1] == "*":
        found.pop()
    result = _ALIAS.sub("", result)
    if "Tensor" not in result and not any(part.startswith("T") for part in found) and "::sym_" not in schema:
        return None
    return f"({', '.join(found)}){'[]' * (result == 'Tensor[]')}"


def rows(schemas):
    """{name: {overload: arguments}}; what in-place forms share with the others is left out."""
    found = {}
    for name, overload, schema, out in schemas:
        if out or "Dimname" in schema or "hacked_twin" in overload or name.startswith(ELSEWHERE):
            continue
        if aten(name, overload or "default", None) is None and not name.startswith("sym_"):
            continue
        form = form_of(schema)
        forms = found.setdefault(name, {})
        if form is not None and form not in forms.values():
            forms[overload] = form
    plain = {name: forms for name, forms in found.items() if forms}
    return {name: kept for name, forms in sorted(plain.items()) if (kept := {
        overload: form for overload, form in forms.items()
        if not name.endswith("_") or plain.get(name[:-1], {}).get(overload) != form})}


def table(torch):
    """The lines of the table, by what this interpreter's PyTorch has."""
    answer = subprocess.run([torch, "-c", ASK], check=True, capture_output=True, text=True).stdout
    return [f"{name} {' '.join(overload + form for overload, form in forms.items())}"
            for name, forms in rows(json.loads(answer)).items()]


def main():
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--torch", required=True, help="a Python that has PyTorch")
    head = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    TABLE.write_text("\n".join([*head, *table(parser.parse_args().torch)]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
