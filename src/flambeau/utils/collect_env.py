"""What a report of a problem should say about the machine; `python -m flambeau.utils.collect_env` prints it."""

import locale
import os
import platform
import re
import shutil
import subprocess
import sys
from collections import namedtuple
from importlib import metadata
from pathlib import Path

from .. import __version__, get_num_threads
from ..__config__ import show

_PACKAGES = ("flambeau", "numpy", "scipy", "scipy-openblas32", "safetensors", "tensorboard", "tqdm", "matplotlib",
             "pillow", "pandas", "scikit-learn", "xarray", "numba", "torch")

SystemEnv = namedtuple("SystemEnv", [
    "flambeau_version", "build", "threads", "gcc_version", "clang_version", "cmake_version", "os", "libc_version",
    "python_version", "python_platform", "pip_version", "pip_packages", "conda_packages", "cpu_info", "variables"])

_FORM = """\
Flambeau version: {flambeau_version}
{build}
Threads: {threads}

OS: {os}
GCC version: {gcc_version}
Clang version: {clang_version}
CMake version: {cmake_version}
Libc version: {libc_version}

Python version: {python_version}
Python platform: {python_platform}
Environment variables:
{variables}

CPU:
{cpu_info}

Versions of relevant libraries:
{pip_packages}
{conda_packages}"""


def run(command):
    """(exit status, output, errors) of a command line; 127 where the program is not here.

    >>> from flambeau.utils import collect_env
    >>> collect_env.run("echo hello")
    (0, 'hello', '')
    """
    words = command.split() if isinstance(command, str) else list(command)
    if shutil.which(words[0]) is None:
        return 127, "", f"{words[0]}: not found"
    done = subprocess.run(words, capture_output=True, check=False)
    text = locale.getpreferredencoding(False)
    return done.returncode, done.stdout.decode(text, "replace").strip(), done.stderr.decode(text, "replace").strip()


def run_and_read_all(run_lambda, command):
    """The output, or None where the command fails."""
    status, out, _ = run_lambda(command)
    return out if status == 0 else None


def run_and_return_first_line(run_lambda, command):
    """The first line of the output, or None."""
    out = run_and_read_all(run_lambda, command)
    return out.split("\n")[0] if out is not None else None


def run_and_parse_first_match(run_lambda, command, regex):
    """The first group that a pattern finds in the output, or None."""
    found = re.search(regex, run_and_read_all(run_lambda, command) or "")
    return found.group(1) if found else None


def get_gcc_version(run_lambda):
    """Of g++'s C compiler, or None."""
    return run_and_parse_first_match(run_lambda, "gcc --version", r"gcc (.*)")


def get_clang_version(run_lambda):
    """Or None."""
    return run_and_parse_first_match(run_lambda, "clang --version", r"clang version (.*)")


def get_cmake_version(run_lambda):
    """Or None."""
    return run_and_parse_first_match(run_lambda, "cmake --version", r"cmake version (.*)")


def get_os(run_lambda):
    """The system's name as it calls itself, and the kind of processor.

    >>> from flambeau.utils import collect_env
    >>> "(" in collect_env.get_os(collect_env.run)
    True
    """
    try:
        named = platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        named = run_and_parse_first_match(run_lambda, "lsb_release -a", r"Description:\t(.*)")
    return f"{named or platform.system()} ({platform.machine()})"


def get_libc_version():
    """The C library.

    >>> from flambeau.utils import collect_env
    >>> bool(collect_env.get_libc_version())
    True
    """
    return "-".join(platform.libc_ver()) or "N/A"


def get_python_platform():
    """As Python names the platform."""
    return platform.platform()


def get_cpu_info(run_lambda):
    """What lscpu says, or the processor's name."""
    text = run_and_read_all(run_lambda, "lscpu")
    if text:
        return text
    known = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", known.read_text()) if known.exists() else []
    return f"{names[0]} ({len(names)} cores)" if names else platform.processor()


def get_pip_packages(run_lambda, patterns=None):
    """(how they were found, the lines "name==version") of the installed packages that matter, or that patterns name.

    >>> from flambeau.utils import collect_env
    >>> "numpy==" in collect_env.get_pip_packages(collect_env.run, ["numpy"])[1]
    True
    """
    wanted = _PACKAGES if patterns is None else patterns
    found = {}
    for each in metadata.distributions():
        name = each.metadata["Name"] or ""
        if (name.lower() in wanted) if patterns is None else any(p in name.lower() for p in wanted):
            found.setdefault(name, each.version)
    status, version, _ = run_lambda([sys.executable, "-m", "pip", "--version"])
    return version if status == 0 else "no pip", "\n".join(f"{n}=={v}" for n, v in sorted(found.items()))


def get_conda_packages(run_lambda, patterns=None):
    """The lines of `conda list` that matter, or None without conda."""
    text = run_and_read_all(run_lambda, [os.environ.get("CONDA_EXE", "conda"), "list"])
    if text is None:
        return None
    wanted = _PACKAGES if patterns is None else patterns
    return "\n".join(line for line in text.splitlines() if not line.startswith("#") and any(p in line for p in wanted))


def get_env_info():
    """Everything, as a SystemEnv.

    >>> from flambeau.utils import collect_env
    >>> collect_env.get_env_info().flambeau_version == flambeau.__version__
    True
    """
    pip_version, packages = get_pip_packages(run)
    names = ("OMP_NUM_THREADS", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "MALLOC_ARENA_MAX", "LD_PRELOAD", "PYTHONPATH")
    variables = "\n".join(f"  {name}={os.environ[name]}" for name in names if name in os.environ)
    bits = f"({sys.maxsize.bit_length() + 1}-bit)"
    return SystemEnv(
        flambeau_version=__version__, build=show().strip(), threads=get_num_threads(), gcc_version=get_gcc_version(run),
        clang_version=get_clang_version(run), cmake_version=get_cmake_version(run), os=get_os(run),
        libc_version=get_libc_version(), python_version=" ".join([*sys.version.split(), bits]),
        python_platform=get_python_platform(), pip_version=pip_version, pip_packages=packages,
        conda_packages=get_conda_packages(run), cpu_info=get_cpu_info(run),
        variables=variables or "  (none that matter)")


def pretty_str(envinfo):
    """A SystemEnv as text.

    >>> from flambeau.utils import collect_env
    >>> collect_env.pretty_str(collect_env.get_env_info()).splitlines()[0].split(":")[0]
    'Flambeau version'
    """
    rows = {name: "not found" if value is None else value for name, value in envinfo._asdict().items()}
    rows["pip_packages"] = "\n".join(f"[pip] {line}" for line in rows["pip_packages"].splitlines())
    rows["conda_packages"] = "" if envinfo.conda_packages is None else "\n".join(
        f"[conda] {line}" for line in envinfo.conda_packages.splitlines())
    return _FORM.format(**rows).rstrip()


def get_pretty_env_info():
    """The whole report."""
    return pretty_str(get_env_info())


def main():
    """Prints the report."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
