"""Which group of processes this one belongs to: `world` is what distributed.init_process_group has made, or None."""

world = None


def rank_and_size(name):
    """This process's rank and how many there are; ValueError, which begins with `name`, without a group."""
    if world is None:
        raise ValueError(f"{name}: there is no process group to ask: call distributed.init_process_group first, or "
                         "give num_replicas and rank")
    return world.rank(), world.size()
