"""How a module's settings are written between the brackets of its repr."""


def fields(owner, names="", **values):
    """`name=value` of each of the owner's attributes in `names`, then of `values`, with commas between."""
    shown = {name: getattr(owner, name) for name in names.split()} | values
    return ", ".join(f"{name}={value}" for name, value in shown.items())
