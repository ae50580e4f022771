"""How far the tests of the Python array API standard pass: `python -m tests.parity.array_api FOLDER`.

FOLDER is a checkout of data-apis/array-api-tests with its submodule, the specification; the interpreter needs pytest,
hypothesis and ndindex. The suite runs twice: with Python's operators as PyTorch has them, where array_api_xfails.txt
says which cases differ and why, and inside `flambeau.array_api.standard_operators()`, where none may. A failure
ends the program with 1. A case of the list may pass where few examples are drawn (xpassed).
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
XFAILS = HERE / "array_api_xfails.txt"
MODES = {"PyTorch's operators": "from flambeau import array_api as xp",
         "the standard's operators":
             "from flambeau import array_api as xp; xp.standard_operators().__enter__()"}
OUTCOMES = ("passed", "failed", "xfailed", "xpassed", "skipped", "error")


def arguments():
    parser = argparse.ArgumentParser(prog="python -m tests.parity.array_api", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a checkout of data-apis/array-api-tests")
    parser.add_argument("--max-examples", type=int, default=100, help="examples per test (100)")
    parser.add_argument("--module", help="another module that is measured instead, without a list: numpy")
    parser.add_argument("-k", metavar="EXPRESSION", help="pytest's selection of tests")
    return parser.parse_args()


def run(options, module, xfails):
    """What pytest printed."""
    root = str(HERE.parents[1] / "src")
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"ARRAY_API_TESTS_MODULE": module, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "--tb=short", "-p", "no:cacheprovider",
               "--disable-deadline", f"--max-examples={options.max_examples}", "array_api_tests/"]
    command += [f"--xfails-file={xfails}"] if xfails else []
    command += ["-k", options.k] if options.k else []
    return subprocess.run(command, cwd=options.folder, env=environment, capture_output=True, text=True).stdout


def outcomes(text):
    """{outcome: number of tests}, as pytest's last line counts them."""
    last = next((line for line in reversed(text.splitlines()) if re.search(r"\d+ (passed|failed|error)", line)), "")
    found = {kind: re.search(rf"(\d+) {kind}", last) for kind in OUTCOMES}
    return {kind: int(match[1]) if match else 0 for kind, match in found.items()}


def main():
    options = arguments()
    if options.module:
        runs = {options.module: (options.module, None)}
    else:
        runs = {name: (f"exec('{code}')", XFAILS if name.startswith("PyTorch") else None)
                for name, code in MODES.items()}
    print(f"{'':<28}" + "".join(f"{kind:>9}" for kind in OUTCOMES), flush=True)
    bad = []
    for name, (module, xfails) in runs.items():
        text = run(options, module, xfails)
        counts = outcomes(text)
        print(f"{name:<28}" + "".join(f"{counts[kind]:>9}" for kind in OUTCOMES), flush=True)
        bad += [line for line in text.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        if not any(counts.values()):
            bad.append("nothing ran:\n" + text[-2000:])
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
