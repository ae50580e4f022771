"""How converting modules treats their parameters; public as flambeau.__future__."""

_switches = {"overwrite": False, "swap": False}


def set_overwrite_module_params_on_conversion(value):
    """With True, converting a module (`to`, `double` …) gives it new parameters instead of new contents for the old."""
    _switches["overwrite"] = bool(value)


def get_overwrite_module_params_on_conversion():
    """Whether converting a module gives it new parameters."""
    return _switches["overwrite"]


def set_swap_module_params_on_conversion(value):
    """With True, parameters stay the same objects whatever a module is converted to or loaded from, also with
    `load_state_dict(assign=True)` and when the device changes. Goes before the overwriting switch."""
    _switches["swap"] = bool(value)


def get_swap_module_params_on_conversion():
    """Whether parameters stay the same objects in every conversion.

    >>> import flambeau
    >>> flambeau.__future__.get_swap_module_params_on_conversion()
    False
    """
    return _switches["swap"]
