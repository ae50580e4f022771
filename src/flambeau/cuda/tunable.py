"""Products that are timed and chosen by hand (TunableOp): off, since cuBLASLt's own order of algorithms is followed."""

from .._absent import refusals

_WHY = "products take the first algorithm that cuBLASLt names for their sizes; there is nothing to tune"


def is_enabled():
    """Whether products are chosen by timing: never."""
    return False


def tuning_is_enabled():
    """Whether new shapes are timed: never."""
    return False


def record_untuned_is_enabled():
    """Whether shapes are written down to be timed later: never."""
    return False


def _only_off(name, val):
    if val:
        raise NotImplementedError(f"cuda.tunable.{name}: {_WHY}")


def enable(val=True):
    """Off is what it is; on raises NotImplementedError."""
    _only_off("enable", val)


def tuning_enable(val=True):
    """Off is what it is; on raises NotImplementedError."""
    _only_off("tuning_enable", val)


def record_untuned_enable(val=True):
    """Off is what it is; on raises NotImplementedError."""
    _only_off("record_untuned_enable", val)


globals().update(refusals("cuda.tunable", _WHY, """
    set_max_tuning_duration(duration) get_max_tuning_duration() set_max_tuning_iterations(iterations)
    get_max_tuning_iterations() set_filename(filename, insert_device_ordinal=False) get_filename() get_results()
    get_validators() read_file(filename=None) tune_gemm_in_file(filename)
    mgpu_tune_gemm_in_file(filename_pattern, num_gpus) set_rotating_buffer_size(buffer_size)
    get_rotating_buffer_size() set_numerical_check_tolerances(enable, atol=1e-05, rtol=1e-05)
"""))
