"""What to say where the processor lacks instructions that the native library is compiled to."""

#: the names of /proc/cpuinfo for what x86-64-v3 asks for; the loader refuses the library where one is missing
NEEDED = ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave")
REFUSED = "ISA level"  # what the loader's message says


def facts(path="/proc/cpuinfo"):
    """The first processor's name and flags, as far as the system tells them."""
    found = {}
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            for line in f:
                key, colon, value = line.partition(":")
                if not colon:
                    break
                found[key.strip()] = value.strip()
    except OSError:
        pass
    return found.get("model name", "this processor"), set(found.get("flags", "").split())


def refusal(error, path="/proc/cpuinfo"):
    """The exception to raise when importing the native library failed with `error`: that, or a plainer one."""
    if REFUSED not in str(error):
        return error
    name, flags = facts(path)
    missing = [flag.upper() for flag in NEEDED if flags and flag not in flags]
    lacks = f"lacks {', '.join(missing)}" if missing else "lacks some of AVX2, FMA, BMI2 and F16C"
    return ImportError(
        f"flambeau needs a processor with AVX2, FMA, BMI2 and F16C (x86-64-v3: Intel since Haswell, AMD since Zen), "
        f"and {name} {lacks}. A virtual machine may hide what its host has; otherwise run it on another machine",
        name=error.name, path=error.path)
