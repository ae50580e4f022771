"""`flambeau info`: what this installation runs on."""

import os
import platform
import sys
from importlib import metadata
from pathlib import Path

import flambeau

FEATURES = ("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile",
            "amx_bf16", "amx_int8", "asimd", "sve", "bf16")
LIBRARIES = ("numpy", "scipy-openblas32", "tqdm", "matplotlib", "pillow", "scipy")


def info(options):
    rows = {
        "flambeau": f"{flambeau.__version__}, {Path(flambeau.__file__).parent}",
        "python": f"{platform.python_version()}, {sys.executable}",
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "processor": processor(),
        "features": ", ".join(features()) or "unknown",
        "threads": f"{flambeau.get_num_threads()} of {len(os.sched_getaffinity(0))} usable cores",
        "libraries": ", ".join(f"{name} {version(name)}" for name in LIBRARIES),
        "loaded": ", ".join(loaded()) or "unknown",
        "memory": memory(),
    }
    for name, text in rows.items():
        print(f"{name:10} {text}")
    return 0


def cpuinfo(*keys):
    """The value of the first key that /proc/cpuinfo has."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in keys:
            return value.strip()
    return ""


def processor():
    return cpuinfo("model name") or platform.processor() or "unknown"


def features():
    have = set(cpuinfo("flags", "Features").split())
    return [name for name in FEATURES if name in have]


def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def loaded():
    """The numerical libraries mapped into this process."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    names = {line.rpartition("/")[2] for line in lines if "/" in line}
    return sorted(name for name in names if name.startswith(("libdnnl", "libgomp", "libscipy_openblas")))


def memory():
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return "unknown"
    return f"{resident / 2**20:.0f} MiB in use by this process, {total / 2**30:.1f} GiB in the machine"
