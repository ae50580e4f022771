"""The README's program runs as it stands there, and its commands are the ones that are tested."""

import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_program_runs():
    program, = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    process = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert float(process.stdout) < 0.01


def test_two_commands():
    block, = re.findall(r"```\n(pip .*?)```", README, re.DOTALL)
    assert block.splitlines() == ["pip install '.[plot]' && flambeau train digits", "pip install '.[test]' && pytest"]
