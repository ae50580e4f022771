"""What our sources share with PyTorch: runs of equal words in texts, runs of equal statements in functions.

A text is a string literal or a run of comments, read as a list of lower-case words; `flambeau` reads as `torch`, and a
value that is filled in (`{x}` in Python, an expression between two literals in C++) is no word. Our texts are held in
memory and theirs read past them: Python files, C++ headers, and the printable bytes of compiled libraries.
"""

import ast
import io
import re
import tokenize

WORD = re.compile(r"[a-z0-9_]+")
#: An operator schema, or a part of one, is an interface and not a sentence: a result type, two typed parameters,
#: or a function's list of more than five parameters.
SCHEMA = re.compile(r"\)\s*->\s*\(?[A-Z]\w*|(?:Tensor|int|float|bool)\S* \w+\S*, (?:Tensor|Scalar|int|float|bool)\S* "
                    r"|\w\((?:\w+,\s+){5,}\w+\)")
#: What separates two halves of one text in a source file: the ends of adjacent literals, the marks of comment lines.
SEAM = re.compile(r"""["'][ \t]*\n[ \t]*[rfbu]{0,2}["']|\n[ \t]*(?:\#|//|\*)|\\n""")
FILLED_IN = re.compile(r"\{[^{}\n]*\}")
PRINTABLE = re.compile(rb"[\t\n\x20-\x7e]{20,}")
CPP = re.compile(r'(?P<comment>//[^\n]*|/\*.*?\*/)|"(?P<text>(?:\\.|[^"\\\n])*)"|(?P<char>\'(?:\\.|[^\'\\\n])\')'
                 r"|(?P<end>;)", re.S)


def words(text):
    """The words of a text."""
    return WORD.findall(SEAM.sub(" ", text).lower().replace("flambeau", "torch"))


# ---- ours: (line, text) of every string and of every run of comments -------------------------------------------------

def python_texts(source):
    """Strings with their interpolations taken out, then comments, each with its line."""
    inner = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            pieces = [v.value if isinstance(v, ast.Constant) else " " for v in node.values]
            inner.update(id(v) for v in node.values)
            yield node.lineno, "".join(pieces)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.lineno, node.value
    run, first = [], 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            first = first if run else token.start[0]
            run.append(token.string.lstrip("#: "))
        elif token.type != tokenize.NL and run:
            yield first, " ".join(run)
            run = []


def cpp_texts(source):
    """The literals of each statement put together, and each run of comment lines."""
    literals, comments, where, last = [], [], {}, 0
    for m in CPP.finditer(source):
        if comments and (m["comment"] is None or source[last:m.start()].count("\n") > 1):
            yield where.pop("comment"), " ".join(comments)
            comments = []
        line = source.count("\n", 0, m.start()) + 1
        if m["comment"] is not None:
            where.setdefault("comment", line)
            comments.append(m["comment"])
            last = m.end()
        elif m["text"] is not None:
            where.setdefault("text", line)
            literals.append(m["text"])
        elif m["end"] and literals:
            yield where.pop("text"), " ".join(literals)
            literals = []
    if literals:
        yield where["text"], " ".join(literals)
    if comments:
        yield where["comment"], " ".join(comments)


READERS = {".py": python_texts, ".cpp": cpp_texts, ".h": cpp_texts}


# ---- theirs ----------------------------------------------------------------------------------------------------------

def source_words(path):
    """The words of a whole source file, as its texts would read."""
    return words(FILLED_IN.sub(" ", SEAM.sub(" ", path.read_text("utf-8", "replace"))))


def library_words(path, at_once=1 << 24):
    """The words of the printable runs of a binary file, one list per run."""
    with open(path, "rb") as file:
        rest = b""
        while block := file.read(at_once):
            block = rest + block
            found = list(PRINTABLE.finditer(block))
            rest = block[found[-1].start():] if found and found[-1].end() == len(block) else block[-20:]
            for m in found:
                if m.end() < len(block) and b" " in m[0]:
                    yield words(m[0].decode("ascii"))
        yield words(rest.decode("ascii", "ignore"))


# ---- shared ----------------------------------------------------------------------------------------------------------

class Runs:
    """Sequences of ours, by every run of `length` neighbours; `meet` marks those that also occur elsewhere."""

    def __init__(self, length):
        self.length, self.sequences, self.places, self.origin = length, [], {}, {}

    def add(self, label, sequence):
        """Take in a sequence of ours."""
        k = len(self.sequences)
        self.sequences.append((label, sequence))
        for i, key in self._keys(sequence):
            self.places.setdefault(key, []).append((k, i))

    def meet(self, origin, sequence):
        """Compare with a sequence of theirs."""
        for _, key in self._keys(sequence):
            if key in self.places:
                self.origin.setdefault(key, origin)

    def shared(self):
        """(label, the longest equal runs, where theirs stands) of each sequence that shares something."""
        hits = {}
        for key, origin in self.origin.items():
            for k, i in self.places[key]:
                hits.setdefault(k, {})[i] = origin
        for k, starts in sorted(hits.items()):
            label, sequence = self.sequences[k]
            i = 0
            while i < len(sequence):
                if i not in starts:
                    i += 1
                    continue
                j = i
                while j + 1 in starts:
                    j += 1
                yield label, sequence[i:j + self.length], starts[i]
                i = j + self.length

    def _keys(self, sequence):
        n = self.length
        return ((i, hash(tuple(sequence[i:i + n]))) for i in range(len(sequence) - n + 1))


class _Bare(ast.NodeTransformer):
    """A function without what says nothing about how it works: annotations, decorators, docstrings."""

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        node.decorator_list, node.returns = [], None
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_arg(self, node):
        node.annotation = None
        return node

    def visit_AnnAssign(self, node):
        self.generic_visit(node)
        return None if node.value is None else ast.copy_location(ast.Assign([node.target], node.value), node)


def functions(source):
    """(line, name, statements as text) of every function, without imports and lines of a word."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            line, name = node.lineno, node.name
            text = ast.unparse(ast.fix_missing_locations(_Bare().visit(node))).replace("flambeau", "torch")
            lines = [piece.strip() for piece in text.splitlines()[1:]]
            lines = [piece for piece in lines if not piece.startswith(("import ", "from "))]
            yield line, name, [piece for piece in lines if len(piece) > 7]
