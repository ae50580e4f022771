"""Pipelines for which every law of datapipes must hold; both libraries can make them.

Run as a file it prints what PyTorch makes of them: `python table.py torch`.
"""

import importlib
import json
import sys
import warnings
from functools import partial


def add(constant, data):
    return constant + data


def pair(k):
    return k, 10 * k


def third(k):
    return k % 3


def late(k):
    return k >= 4


def both(a, b):
    return a + b


def text(value):
    return str(value)


#: name -> function from the IterableWrapper of a library to a pipeline
PIPES = {
    "source": lambda wrap: wrap(range(10)),
    "map": lambda wrap: wrap(range(10)).map(partial(add, 1)),
    "map of columns": lambda wrap: wrap(range(10)).map(pair).map(both, input_col=[1, 0]),
    "map to a new column": lambda wrap: wrap(range(10)).map(pair).map(both, [0, 1], -1),
    "filter": lambda wrap: wrap(range(10)).filter(late),
    "filter of a column": lambda wrap: wrap(range(10)).map(pair).filter(late, input_col=0),
    "batch": lambda wrap: wrap(range(10)).batch(3),
    "batch without the rest": lambda wrap: wrap(range(10)).batch(3, drop_last=True),
    "unbatch": lambda wrap: wrap(range(10)).batch(2).batch(2).unbatch(2),
    "unbatch all": lambda wrap: wrap([[1, [2, [3]]], [4], [[5]]]).unbatch(-1),
    "groups": lambda wrap: wrap(range(10)).groupby(third),
    "groups of two": lambda wrap: wrap(range(10)).groupby(third, group_size=2, keep_key=True),
    "groups in a small buffer": lambda wrap: wrap(range(10)).groupby(third, buffer_size=4),
    "groups that may be dropped": lambda wrap: wrap(range(10)).groupby(third, buffer_size=5, group_size=4,
                                                                        drop_remaining=True),
    "concat": lambda wrap: wrap(range(4)).concat(wrap("ab"), wrap([None])),
    "mux": lambda wrap: wrap(range(4)).mux(wrap("abc"), wrap(range(9))),
    "zip": lambda wrap: wrap(range(4)).zip(wrap("abc")),
    "fork": lambda wrap: (lambda a, b: a.zip(b.map(text)))(*wrap(range(5)).fork(2)),
    "fork one after the other": lambda wrap: (lambda a, b: a.concat(b))(*wrap(range(5)).fork(2)),
    "demux": lambda wrap: (lambda a, b, c: c.concat(a, b))(*wrap(range(10)).demux(3, third)),
    "sharding": lambda wrap: wrap(range(10)).sharding_filter(),
    "shuffle": lambda wrap: wrap(range(10)).shuffle(),
    "shuffle in a small buffer": lambda wrap: wrap(range(10)).shuffle(buffer_size=3),
    "shuffle of batches": lambda wrap: wrap(range(10)).batch(2).shuffle(),
    "shuffle in batches": lambda wrap: wrap(range(10)).batch(2).shuffle(unbatch_level=1),
    "shuffle twice": lambda wrap: wrap(range(10)).shuffle().map(text).shuffle(buffer_size=4).batch(2),
}


def results(library):
    """{name: the samples with seed 5, and the graph's size} of a library."""
    warnings.simplefilter("ignore")
    root = importlib.import_module(library)
    part = f"{library}.utils.data."
    wrap = importlib.import_module(part + "datapipes.iter").IterableWrapper
    settings = importlib.import_module(part + "graph_settings")
    graph = importlib.import_module(part + "graph")
    found = {}
    for name, make in PIPES.items():
        pipe = make(wrap)
        settings.apply_random_seed(pipe, root.Generator().manual_seed(5))
        pipes = [str(p) for p in settings.get_all_graph_pipes(graph.traverse_dps(pipe))]
        found[name] = [repr(list(pipe)), repr(list(settings.apply_random_seed(pipe, root.Generator().manual_seed(6)))),
                       len(pipes), pipes[0]]
    return found | {f"{workers} workers, {name}": epochs(root, part, wrap, options, workers)
                    for name, options in LOADERS.items() for workers in (0, 2)}


LOADERS = {"plain": {}, "shuffle": {"shuffle": True}, "in order": {"shuffle": False}}


def epochs(root, part, wrap, options, workers):
    """Two epochs of a loader, and what the default stream gives then."""
    data = importlib.import_module(part[:-1])
    seeding = {} if root.__name__ == "torch" else {"seeding": "worker"}
    root.manual_seed(7)
    loader = data.DataLoader(wrap(range(10)).shuffle().sharding_filter(), batch_size=3, num_workers=workers, **options,
                             **seeding)
    return [[[batch.tolist() for batch in loader] for _ in range(2)], root.randint(1000, (3,)).tolist()]


if __name__ == "__main__":
    print(json.dumps(results(sys.argv[1])))
