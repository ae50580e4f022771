"""Checks a model on named dimensions: runs it without data at several sizes and expresses output sizes by the names."""

from dataclasses import dataclass, field
from itertools import pairwise

from .. import _C, empty
from . import _dims
from ._trace import on_meta, tensors_in, trace

_PRIMES = (11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)
#: sizes that each name is tried with, besides those of the first run
_SCAN = (*range(1, 34), 48, 64, 65, 96)


@dataclass
class Check:
    """What `check` found. True where the model holds for all sizes of its names (but for `requirements`)."""

    model: str
    inputs: list
    outputs: list = field(default_factory=list)
    problems: list = field(default_factory=list)
    requirements: dict = field(default_factory=dict)

    @property
    def ok(self):
        return not self.problems

    def __bool__(self):
        return self.ok

    def __str__(self):
        given = "; ".join(map(str, self.inputs))
        lines = [f"{self.model}({given})" + (f" -> {'; '.join(self.outputs)}" if self.outputs else "")]
        lines += [f"  {name} must be {text}" for name, text in self.requirements.items()]
        lines += [f"  problem: {problem}" for problem in self.problems]
        return "\n".join(lines)

    __repr__ = __str__


class _Run:
    """One pass at given sizes."""

    def __init__(self, model, specs, keywords, sizes, dtype):
        def make(spec):
            return empty(spec.shape(sizes), dtype=getattr(_C, spec.dtype) if spec.dtype else dtype, device="meta")

        self.sizes = sizes
        self.record, result, self.error = trace(model, [make(s) for s in specs],
                                                {k: make(s) for k, s in keywords.items()})
        self.outputs = [tuple(t.shape) for t in tensors_in(result)] if self.error is None else None

    @property
    def reached(self):
        """How far it came: comparable."""
        return self.error is None, self.record.operators


class _Checker:
    def __init__(self, model, specs, keywords):
        self.model, self.specs, self.keywords = model, specs, keywords
        parameters = [*model.parameters(), *model.buffers()]
        self.dtype = next((p.dtype for p in parameters if p.is_floating_point()), _C.float32)
        self.constants = {n for p in parameters for n in p.shape}
        self.constants |= {d for s in (*specs, *keywords.values()) for d in s.dims if not isinstance(d, str)}
        self.names = list(dict.fromkeys(n for s in (*specs, *keywords.values()) for n in s.names()))
        self.report = Check(type(model).__name__, [*specs, *(f"{k}={s}" for k, s in keywords.items())])

    def run(self, sizes):
        return _Run(self.model, self.specs, self.keywords, sizes, self.dtype)

    def sizes(self, factor):
        """A size for each name, all different and none of them the model's own."""
        found = {}
        free = (factor * p for p in (*_PRIMES, *range(59, 10_000)) if factor * p not in self.constants)
        for name in self.names:
            found[name] = next(free)
        return found

    def first_run(self):
        """A run that passes, or the one that came furthest: large even sizes, smaller ones, odd ones."""
        runs = []
        for factor in (64, 8, 2, 1):
            runs.append(self.run(self.sizes(factor)))
            if runs[-1].error is None:
                return runs[-1]
        small = dict(zip(self.names, (2, 3, 5, 7, 11, 13, 17, 19), strict=False))
        if len(small) == len(self.names):
            runs.append(self.run(small))
        return max(runs, key=lambda r: r.reached)

    def repaired(self, run):
        """Sizes under which the model holds after all, name by name: (run, {name: what it must be})."""
        fixed = {}
        for _ in self.names:
            best, change = run, None
            constants = sorted(self.constants | {n for n in _ints(run.error) if 0 < n < 1 << 20})[:200]
            for name in self.names:
                if name in fixed:
                    continue
                others = [(run.sizes[o], o) for o in self.names if o != name]
                for size, text in [*others, *((n, str(n)) for n in constants)]:
                    tried = self.run(run.sizes | {name: size})
                    if tried.reached > best.reached:
                        best, change = tried, (name, text)
            if change is None:
                break
            run = best
            fixed[change[0]] = f"equal to {change[1]}" if change[1] in self.names else change[1]
            if run.error is None:
                break
        return run, fixed

    def describe(self, run):
        """Where and why a run failed, its sizes as names."""
        sizes = dict(run.sizes)
        for call in _calls(run.record.root):
            for name, size in self.bound(call, None).items():
                if size not in sizes.values():
                    sizes.setdefault(name, size)
        speller = _dims.Speller(sizes, self.constants - set(sizes.values()))
        notes = [n.strip().removeprefix("in: ") for n in getattr(run.error, "__notes__", ()) if "in: " in n]
        text = (notes[0] + ": " if notes else "") + speller.text(str(run.error).splitlines()[0])
        if run.record.failed:
            name, shapes = run.record.failed
            text += f"\n    {name} of {', '.join(speller.shape(s) for s in shapes)}"
        tried = ", ".join(f"{n}={s}" for n, s in run.sizes.items() if not n.startswith("_"))
        return text + (f"\n    (tried with {tried})" if tried else "")

    def bound(self, call, speller):
        """Names of a call's annotations with their sizes; with a speller, disagreements become problems."""
        found = {}
        arguments, _ = _dims.forward_specs(call.module)
        for (parameter, spec), shape in zip(arguments, call.arguments, strict=False):
            if spec is None or shape is None:
                continue
            fits = len(shape) == len(spec.dims)
            for d, n in zip(spec.dims, shape, strict=False):
                fits = fits and (n == d if not isinstance(d, str) else found.setdefault(d, n) == n)
            if not fits and speller:
                self.report.problems.append(
                    f"{call.path or self.report.model}: argument {parameter} is annotated '{spec}' but is "
                    f"{speller.shape(shape)}")
        return found

    def vary(self, base):
        """Runs with each name's size changed alone: {name: [run, …]}; what a size must satisfy is noted."""
        series = {}
        for name in self.names:
            size, at = base.sizes[name], {base.sizes[name]: base}
            for n in (*_SCAN, size + 1, size + 2, size + 3, size + 64, size + 320):
                at[n] = self.run(base.sizes | {name: n})
            self.refine(name, at, base)
            passed = [n for n, run in at.items() if run.error is None]
            failed = [n for n in at if n not in passed]
            text = _dims.requirement(passed, failed)
            if text:
                why = self.describe(at[max(failed)]).splitlines()[0]
                self.report.requirements[name] = f"{text} ({why})"
            series[name] = [at[n] for n in passed]
        return series

    def refine(self, name, at, base):
        """Where sizes from one point on pass, or fail, find the point."""
        order = sorted(at)
        for low, high in pairwise(order):
            changes = (at[low].error is None) != (at[high].error is None)
            if not changes or high - low < 2 or high <= max(_SCAN[:33]):
                continue
            while high - low > 1:
                middle = (low + high) // 2
                at[middle] = self.run(base.sizes | {name: middle})
                same = (at[middle].error is None) == (at[low].error is None)
                low, high = (middle, high) if same else (low, middle)

    def outputs(self, base, series):
        for k, shape in enumerate(base.outputs):
            dims = []
            for d, value in enumerate(shape):
                pairs = {name: [(run.sizes[name], run.outputs[k][d]) for run in runs
                                if len(run.outputs) > k and len(run.outputs[k]) == len(shape)]
                         for name, runs in series.items()}
                dims.append(_dims.express(base.sizes, value, pairs))
            self.report.outputs.append(" ".join(d.replace(" ", "") for d in dims) or "scalar")

    def compare_result(self):
        """The annotation of the result against what came out."""
        _, spec = _dims.forward_specs(self.model)
        if spec is None or not self.report.outputs:
            return
        found, known = self.report.outputs[0].split(), {}
        fits = len(found) == len(spec.dims)
        for d, text in zip(spec.dims, found, strict=False):
            wanted = str(d) if not isinstance(d, str) or d in self.names else known.setdefault(d, text)
            fits = fits and wanted == text
        if not fits:
            self.report.problems.append(f"the result is annotated '{spec}' but is '{self.report.outputs[0]}'")

    def check(self):
        base = self.first_run()
        if base.error is not None:
            first = base
            base, fixed = self.repaired(base)
            self.report.problems.append(self.describe(first))
            if base.error is None:
                self.report.problems += [f"{name} must be {text} for this model" for name, text in fixed.items()]
            return self.report
        speller = _dims.Speller(base.sizes, self.constants)
        for call in _calls(base.record.root):
            self.bound(call, speller)
        self.outputs(base, self.vary(base))
        self.compare_result()
        return self.report


def _calls(call):
    for child in call.children:
        yield child
        yield from _calls(child)


def _ints(error):
    return [int(word) for word in "".join(c if c.isdigit() else " " for c in str(error)).split()]


def check(model, *inputs, **keywords):
    """Whether a model holds for every size of named dimensions, without data; where not, where dimensions disagree.

    Each input is a text such as "batch 3 height width", with a dtype before it where it is not the model's own:
    "int64: batch seq". Without inputs, the annotations of `forward` are read: `Float[Tensor, "batch 3 h w"]`, as text
    or as jaxtyping's type, or `Annotated[Tensor, "batch 3 h w"]`. The result prints the output's dimensions in terms of
    the names, what sizes a name must have, and problems; it is true where there are none. The forward pass runs on the
    meta device in evaluation mode, at some forty sizes of each name; the model stays as it was.

    >>> import flambeau
    >>> nn = flambeau.nn
    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.MaxPool2d(2), nn.Flatten(2))
    >>> flambeau.check(net, "batch 3 height width").outputs
    ['batch 8 (height//2)*(width//2)']
    >>> found = flambeau.check(nn.Sequential(nn.Linear(4, 8), nn.Linear(6, 2)), "batch 4")
    >>> bool(found)
    False
    >>> print(found.problems[0].splitlines()[0])
    1 (Linear(in_features=6, out_features=2, bias=True)): linear: input has 8 features but weight expects 6 \
(input [batch, 8], weight [2, 6])
    """
    if inputs or keywords:
        specs = [_dims.parse(text, k) for k, text in enumerate(inputs)]
        named = {name: _dims.parse(text, len(specs) + k) for k, (name, text) in enumerate(keywords.items())}
    else:
        arguments, _ = _dims.forward_specs(model)
        specs, named = [], {}
        for _, spec in arguments:
            if spec is None:
                break
            specs.append(spec)
        if not specs:
            raise TypeError("check: give the inputs' dimensions, as check(model, \"batch 3 224 224\"), or annotate "
                            f"{type(model).__name__}.forward with them")
    with on_meta(model):
        return _Checker(model, specs, named).check()
