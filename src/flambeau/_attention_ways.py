"""Which ways to compute scaled_dot_product_attention may be taken."""

#: all of them, in the order in which they are tried
ALL = ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH")
#: those that are allowed, in that order or, with nn.attention.sdpa_kernel, in another
allowed = ALL


def allow(switches):
    """Turns ways on or off, {way: on}; those that were on keep their order."""
    global allowed
    on = (set(allowed) | {way for way, value in switches.items() if value}) \
        - {way for way, value in switches.items() if not value}
    order = (*allowed, *ALL) if on <= set(allowed) else ALL
    allowed = tuple(dict.fromkeys(way for way in order if way in on))
