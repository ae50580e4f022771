"""Fused groups of compiled programs as kernels: the formulas that single calls have, one after the other in registers.

A group comes as words (native/cuda/groups.cpp writes them): whether rows are reduced, bits of offsets, how each operand
in memory lies (s: by strides, u: end to end, p: so from an address of whole accesses of 16 bytes on, z: one element);
cells (inputs, registers, numbers); instructions. A value is rounded to its dtype between two formulas, as it would be
in memory, so that a group gives what its calls give one by one. Rows that are summed have a block each: before every
sum the elements are computed again from memory, which is cheaper than to keep them.
"""

from typing import NamedTuple

from .launches import FILES
from .pointwise import files_of, formula_of, function_of, names_of, text, type_of

_FOLDS = {"sum": "Sum", "mean": "Mean", "amax": "Max", "amin": "Min"}
_PASSED = {"int": "int64_t", "float": "double", "complex": "complex128"}
_EACH = 4  # elements of a thread


class Cell(NamedTuple):
    """kind: "I" input, "R" register, "N" number, "A" absent. memory: of an input, or where a register is written (-1:
    nowhere). extra: whether there is one number for each row; of a number, the cell it is converted from (or -1)."""
    kind: str
    dtype: str
    memory: int
    extra: int


class Instruction(NamedTuple):
    """what: "L" formula, "C" conversion, "F" reduction of a row, "S" a row's number for each element."""
    what: str
    to: int
    per_row: bool
    sources: tuple
    op: str = ""
    compute: str = ""
    scalars: tuple = ()


class Group:
    """The words of a key, read."""

    def __init__(self, key):
        self.words = iter(key.split())
        self.rows = next(self.words) == "rows"
        self.index = f"int{next(self.words)}_t"
        self.letters = next(self.words)
        self.cells = [Cell(next(self.words), next(self.words), int(next(self.words)), int(next(self.words)))
                      for _ in range(int(next(self.words)))]
        self.code = []
        for what in self.words:
            self.code.append(self._instruction(what))
        self.made_by = {i.to: i for i in self.code}

    def _instruction(self, what):
        to, per_row = int(next(self.words)), next(self.words) == "1"
        sources = tuple(int(next(self.words)) for _ in range(int(next(self.words))))
        if what in "CS":
            return Instruction(what, to, per_row, sources)
        op = next(self.words)
        if what == "F":
            return Instruction(what, to, per_row, sources, op)
        return Instruction(what, to, per_row, sources, op, next(self.words),
                           tuple(next(self.words) for _ in range(int(next(self.words)))))

    def storage(self, cell):
        return type_of(self.cells[cell].dtype, "a fused group")[0]

    def one_per_row(self, cell):
        return self.cells[cell].kind != "N" and bool(self.cells[cell].extra)

    def files(self):
        """The files that the formulas stand on, in the order they need."""
        wanted = {f for i in self.code if i.op and i.what == "L" for f in files_of(i.op)}
        special = ("special.cuh",) if "special.cuh" in wanted else ()
        return (*FILES, *special, "pointwise.cuh", "reduce.cuh", "group.cuh")

    # --- parameters

    def parameters(self):
        """(declarations, lines that come first): memory, the walk, the number of elements, numbers, scalars."""
        of = {c.memory: (self.storage(k), c.kind) for k, c in enumerate(self.cells) if c.memory >= 0}
        found = [f"{'const ' if of[m][1] == 'I' else ''}{of[m][0]}* m{m}" for m in sorted(of)]
        found += ["const Walk walk", "int64_t count_"]
        before = []
        for k, cell in enumerate(self.cells):
            if cell.kind == "N" and cell.extra < 0:
                found.append(f"{self.storage(k)} v{k}")
            elif cell.kind == "N":
                source = self.cells[cell.extra]
                given = f"*m{source.memory}" if source.kind == "I" else f"v{cell.extra}"
                before.append(f"const {self.storage(k)} v{k} = cast<{self.storage(k)}>({given});")
        for n, i in enumerate(self.code):
            found += [f"{_PASSED[kind]} s{n}_{k}" for k, kind in enumerate(i.scalars) if kind in _PASSED]
        return found, before

    # --- instructions

    def needed(self, cells):
        """The instructions that compute these cells element by element, in order; what rows have is known already."""
        wanted, left = set(), list(cells)
        while left:
            made = self.made_by.get(left.pop())
            if made is None or made.per_row or made.to in wanted:
                continue
            wanted.add(made.to)
            left += made.sources
        return [(n, i) for n, i in enumerate(self.code) if i.to in wanted]

    def read(self, cell, at):
        """A cell's value at one element; at(memory, whether one stands for a row) is its place there."""
        c = self.cells[cell]
        return at(c.memory, bool(c.extra)) if c.kind == "I" else f"v{cell}"

    def statement(self, n, i, at):
        """One instruction for one element."""
        to, storage = f"v{i.to}", self.storage(i.to)
        values = [self.read(s, at) if self.cells[s].kind != "A" else None for s in i.sources]
        if i.what in "CS":
            return f"const {storage} {to} = cast<{storage}>({values[0]});"
        names, wide = names_of(i.op), type_of(i.compute, i.op)[1]
        lines = [f"typedef {wide} T;", f"typedef {type_of(i.compute, i.op)[0]} S;"]
        for name, value, source in zip(names, values, i.sources, strict=False):
            kind = "bool" if self.cells[source].dtype == "bool" else wide
            lines.append(f"const Absent {name};" if value is None else f"const {kind} {name} = cast<{kind}>({value});")
        lines += [self._scalar(n, k, name, kind, wide, i.op)
                  for k, (name, kind) in enumerate(zip(names[len(values):], i.scalars, strict=False))]
        lines.append(f"return cast<{storage}>(settle<T>({formula_of(i.op)}));")
        return f"const {storage} {to} = [&]() {{ {' '.join(lines)} }}();"

    def _scalar(self, n, k, name, kind, wide, op):
        if kind in _PASSED:
            return f"const {wide} {name} = cast<{wide}>(s{n}_{k});"
        if kind in ("true", "false"):
            return f"constexpr bool {name} = {kind};"
        if kind == "absent":
            letter = f"<{name}>" in formula_of(op)
            return f"constexpr char {name} = 0;" if letter else f"const Absent {name};"
        return f"constexpr char {name} = '{kind.removeprefix('text:')}';"

    def results(self, per_row):
        """(cell, memory) of what is written."""
        return [(k, c.memory) for k, c in enumerate(self.cells)
                if c.kind == "R" and c.memory >= 0 and bool(c.extra) == per_row]


_KERNEL = """extern "C" __global__ void __launch_bounds__(256) {name}(
    {declarations}) {{
  typedef {index} Index;
{body}}}
"""


def _by_elements(group):
    """Every thread computes four elements, a block's width apart."""
    strided = "s" in group.letters
    place = {"u": "i_", "p": "i_", "z": "0"}

    def at(memory, _):
        return f"m{memory}[{f'at_[{memory}]' if strided else place[group.letters[memory]]}]"
    made = group.results(False)
    lines = [group.statement(n, i, at) for n, i in group.needed([cell for cell, _ in made])]
    lines += [f"{at(memory, False)} = v{cell};" for cell, memory in made]
    walk = f"Index at_[{len(group.letters)}];\n    offsets_of<Index, {len(group.letters)}>(walk, i_, at_);\n    "
    return f"""  const Index n_ = Index(count_), first_ = Index(blockIdx.x) * {256 * _EACH} + threadIdx.x;
#pragma unroll
  for (int k_ = 0; k_ < {_EACH}; ++k_) {{
    const Index i_ = first_ + k_ * 256;
    if (i_ >= n_) break;
    {walk if strided else ''}{(chr(10) + "    ").join(lines)}
  }}
"""


def _packed(group):
    """How many elements are read at once, or None: all memory must lie end to end from whole addresses on."""
    if group.rows or set(group.letters) - set("pz") or "p" not in group.letters:
        return None
    sizes = [type_of(c.dtype, "a fused group")[2] for c in group.cells
             if c.memory >= 0 and group.letters[c.memory] == "p"]
    return max(1, 16 // max(sizes))


def _by_packs(group, wide):
    """Every thread reads and writes two packs of `wide` elements, a block's width apart; all are read first."""
    made, packs = group.results(False), [k for k, letter in enumerate(group.letters) if letter == "p"]
    written = {memory: cell for cell, memory in made}
    read = [k for k in packs if k not in written]
    kind = {c.memory: group.storage(k) for k, c in enumerate(group.cells) if c.memory >= 0}

    def at(memory, _):
        return f"p{memory}[t_].v[j_]" if memory in read else f"m{memory}[0]"
    lines = [group.statement(n, i, at) for n, i in group.needed([cell for cell, _ in made])]
    lines += [f"q{memory}.v[j_] = v{cell};" if memory in packs else f"m{memory}[0] = v{cell};" for cell, memory in made]
    to = [memory for memory in written if memory in packs]

    def each(memories, text):
        return " ".join(text.format(m=m, wide=wide) for m in memories)
    body = "\n      ".join(lines)
    return f"""  const Index n_ = Index(count_), first_ = (Index(blockIdx.x) * 512 + threadIdx.x) * {wide};
  {" ".join(f"Pack<{kind[m]}, {wide}> p{m}[2];" for m in read)}
#pragma unroll
  for (int t_ = 0; t_ < 2; ++t_) {{
    const Index i_ = first_ + t_ * {256 * wide};
    if (i_ + {wide} <= n_) {{ {each(read, "p{m}[t_] = load<{wide}>(m{m} + i_);")} }}
    else
      for (int j_ = 0; j_ < {wide}; ++j_)
        if (i_ + j_ < n_) {{ {each(read, "p{m}[t_].v[j_] = m{m}[i_ + j_];")} }}
  }}
#pragma unroll
  for (int t_ = 0; t_ < 2; ++t_) {{
    const Index i_ = first_ + t_ * {256 * wide};
    if (i_ >= n_) break;
    {" ".join(f"Pack<{kind[m]}, {wide}> q{m};" for m in to)}
#pragma unroll
    for (int j_ = 0; j_ < {wide}; ++j_) {{
      {body}
    }}
    if (i_ + {wide} <= n_) {{ {each(to, "store<{wide}>(m{m} + i_, q{m});")} }}
    else
      for (int j_ = 0; j_ < {wide}; ++j_)
        if (i_ + j_ < n_) {{ {each(to, "m{m}[i_ + j_] = q{m}.v[j_];")} }}
  }}
"""


def _by_rows(group):
    """A block for each row: reductions one after the other, then the elements."""
    many = len(group.letters)

    def at(memory, per_row):
        return f"m{memory}[{'blockIdx.x' if per_row else f'at_[{memory}] + i_ * step_[{memory}]'}]"
    lines = [f"Index at_[{many}], step_[{many}];", f"offsets_of<Index, {many}, 1>(walk, Index(blockIdx.x), at_);",
             "#pragma unroll", f"for (int k_ = 0; k_ < {many}; ++k_) step_[k_] = Index(walk.strides[k_][0]);",
             "const Index n_ = Index(count_);"]
    loop = "for (Index i_ = threadIdx.x; i_ < n_; i_ += blockDim.x) {"
    for n, i in enumerate(group.code):
        if not i.per_row:
            continue
        if i.what != "F":
            lines.append(group.statement(n, i, at))
            continue
        storage = group.storage(i.to)
        lines += [f"typedef Lanes<{_FOLDS[i.op]}<{storage}, {storage}>> Op{n};", f"__shared__ Op{n}::Acc room{n}[32];",
                  f"Op{n}::Acc acc{n} = Op{n}().init();", loop]
        lines += ["  " + group.statement(*each, at) for each in group.needed(i.sources)]
        lines += [f"  acc{n} = Op{n}().add(acc{n}, {group.read(i.sources[0], at)}, i_);", "}",
                  f"acc{n} = combine_block(Op{n}(), acc{n}, room{n});",
                  f"const {storage} v{i.to} = Op{n}().finish(acc{n}, n_);"]
    lines += [f"if (threadIdx.x == 0) m{memory}[blockIdx.x] = v{cell};" for cell, memory in group.results(True)]
    made = group.results(False)
    if made:
        lines += [loop, *("  " + group.statement(*each, at) for each in group.needed([cell for cell, _ in made])),
                  *(f"  {at(memory, False)} = v{cell};" for cell, memory in made), "}"]
    return "".join(f"  {line}\n" for line in lines)


def source(key):
    """(name, text) of a group's kernel; it is called by its operators, as many as 80 letters hold."""
    group = Group(key)
    name = function_of("_".join(i.op for i in group.code if i.op)[:80])
    declarations, before = group.parameters()
    wide = _packed(group)
    loop = _by_packs(group, wide) if wide else (_by_rows if group.rows else _by_elements)(group)
    body = "".join(f"  {line}\n" for line in before) + loop
    kernel = _KERNEL.format(name=name, declarations=",\n    ".join(declarations), index=group.index, body=body)
    return name, text(*group.files()) + kernel
