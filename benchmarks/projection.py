"""`python -m benchmarks.distributed --project`: how efficiently 2 to 4,096 workers would train, by a small model.

What is measured here: forward and backward of each layer of a small GPT on one thread, and collectives of 2 to 4 ranks
in shared memory, as alpha + beta * bytes. What is assumed: the constants below, and that collectives between hosts take
2 log2(hosts) messages (recursive halving and doubling). The rest is simulated: each worker has one stream of computing
and one of exchanging, and begins what it can begin. `--check` compares the model's steps with measured ones of 2 to 4
ranks on this host.
"""

import importlib
import json
import math
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from statistics import median

WORKERS = 16        # on a host
ALPHA = 10e-6       # seconds of a message between hosts
BETA = 1 / 12.5e9   # seconds of a byte: 100 Gbit/s
BUCKET = 25 << 20   # bytes of DistributedDataParallel's buckets
MICROBATCHES = 32
STAGES = 8          # of a pipeline, at most; more workers are copies of it
ROUNDS = 7
SPREAD = 0.02       # by which the time of one step varies
SIZES = (2, 4, 8, 16, 64, 256, 1024, 4096)


@dataclass
class Layer:
    """Seconds forward and backward, bytes of parameters and of what is passed on."""

    forward: float
    backward: float
    parameters: int
    passed: int


@dataclass
class Cluster:
    """`alpha` + `beta` * bytes of an all_reduce within a host, and what is between hosts."""

    alpha: float
    beta: float
    workers: int = WORKERS
    alpha_across: float = ALPHA
    beta_across: float = BETA

    def _across(self, ranks, size):
        hosts = -(-ranks // self.workers)
        if hosts == 1:
            return 0.0
        return math.ceil(math.log2(hosts)) * self.alpha_across + (hosts - 1) / hosts * size * self.beta_across

    def half(self, ranks, size):
        """Seconds of an all_gather, or a reduce_scatter, of so many bytes in all."""
        return 0.0 if ranks == 1 else self._across(ranks, size) + (self.alpha + self.beta * size) / 2

    def all_reduce(self, ranks, size):
        """Seconds of an all_reduce: it is both."""
        return 2 * self.half(ranks, size)

    def message(self, size, far):
        """Seconds of a message."""
        return self.alpha_across + self.beta_across * size if far else self.alpha + self.beta * size / 2


def slowest(ranks, spread):
    """How much longer than the mean the slowest of so many takes, where single times vary by `spread`."""
    return 1 + spread * math.sqrt(2 * math.log(ranks))


def ddp(layers, cluster, ranks, spread=0.0):
    """Seconds of a step: buckets are exchanged one after the other, each when backward has filled it."""
    now, exchanged, waiting = sum(layer.forward for layer in layers), 0.0, 0
    for k, layer in reversed(list(enumerate(layers))):
        now += layer.backward
        waiting += layer.parameters
        if waiting >= BUCKET or k == 0:
            exchanged = max(exchanged, now) + cluster.all_reduce(ranks, waiting)
            waiting = 0
    return max(now * slowest(ranks, spread), exchanged + now * (slowest(ranks, spread) - 1))


def fsdp(layers, cluster, ranks, spread=0.0):
    """Seconds of a step: parameters are gathered for each layer one layer ahead, forward and again backward; gradients
    are scattered when they are there.
    """
    order = [(layer, layer.forward, False) for layer in layers] + [(x, x.backward, True) for x in reversed(layers)]
    stream = now = 0.0   # when the stream of exchanges, and that of computing, are free
    began = [0.0]        # when each computation began: the gathering after the next one may begin then
    for k, (layer, seconds, backward) in enumerate(order):
        stream = max(stream, began[max(0, k - 1)]) + cluster.half(ranks, layer.parameters)
        now = max(now, stream)
        began.append(now)
        now += seconds
        if backward:
            stream = max(stream, now) + cluster.half(ranks, layer.parameters)
    return max(now, stream) + now * (slowest(ranks, spread) - 1)


def orders(depth, microbatches):
    """What the ranks of a pipeline really run: for each, (whether backward, microbatch) in order."""
    schedules = importlib.import_module("flambeau.distributed.pipelining.schedules")
    return [[(action.computation_type.value == "B", action.microbatch_index) for action in
             schedules.one_forward_one_backward(k, depth, microbatches)] for k in range(depth)]


def one_forward_one_backward(stages, pass_on, microbatches, cores=None):
    """Seconds of a step of 1F1B; `stages` are (forward, backward) seconds. With `cores`, so many compute at a time."""
    depth, todo = len(stages), orders(len(stages), microbatches)
    there, free, at = {}, [0.0] * depth, [0] * depth
    processors = [0.0] * (cores or depth)
    while any(place < len(order) for place, order in zip(at, todo)):
        ready = []
        for stage in range(depth):
            if at[stage] < len(todo[stage]):
                backward, k = todo[stage][at[stage]]
                before = stage + 1 if backward else stage - 1
                if before in (-1, depth) or (before, backward, k) in there:
                    ready.append((max(free[stage], there.get((before, backward, k), -pass_on) + pass_on), stage))
        begin, stage = min(ready)
        k = processors.index(min(processors))
        backward = todo[stage][at[stage]][0]
        free[stage] = processors[k] = max(begin, processors[k]) + stages[stage][backward]
        there[(stage, *todo[stage][at[stage]])] = free[stage]
        at[stage] += 1
    return max(free)


def pipeline(layers, cluster, ranks, spread=0.0):
    """Seconds of a step of pipelines of at most STAGES equal stages, and the exchange of gradients between them."""
    depth = min(ranks, STAGES)
    stage = sum(x.forward for x in layers) / depth, sum(x.backward for x in layers) / depth
    pass_on = cluster.message(max(x.passed for x in layers[:-1]), ranks > cluster.workers)
    parameters = sum(layer.parameters for layer in layers) / depth
    return (one_forward_one_backward([stage] * depth, pass_on, MICROBATCHES) * slowest(ranks, spread)
            + cluster.all_reduce(ranks // depth, parameters))


def efficiencies(layers, cluster, ranks, spread):
    """{kind: the share of a step in which a worker computes}."""
    alone = sum(layer.forward + layer.backward for layer in layers)
    return {"DDP": alone / ddp(layers, cluster, ranks, spread), "FSDP": alone / fsdp(layers, cluster, ranks, spread),
            "pipeline": alone * MICROBATCHES / min(ranks, STAGES) / pipeline(layers, cluster, ranks, spread)}


# --- measuring --------------------------------------------------------------------------------------------------------

def parts(flambeau, width=256, depth=8, tokens=5000):
    """The layers of a small GPT, and what the first is given."""
    nn = flambeau.nn
    blocks = [nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True, norm_first=True)
              for _ in range(depth)]
    return [nn.Embedding(tokens, width), *blocks, nn.Linear(width, tokens)], flambeau.randint(0, tokens, (4, 128))


def profile(flambeau, rounds=4):
    """[Layer as a dict], with the least times."""
    layers, x = parts(flambeau)
    samples = [[] for _ in layers]
    for _ in range(rounds):
        value = x
        for layer, found in zip(layers, samples):
            start = time.perf_counter()
            out = layer(value)
            middle = time.perf_counter()
            out.backward(flambeau.ones_like(out))
            found.append((middle - start, time.perf_counter() - middle, out.numel() * 4))
            value = out.detach().requires_grad_()
    return [vars(Layer(min(s[0] for s in found), min(s[1] for s in found),
                       sum(p.numel() for p in layer.parameters()) * 4, found[0][2]))
            for layer, found in zip(layers, samples)]


def seconds(dist, call, count):
    """Of one call."""
    dist.barrier()
    start = time.perf_counter()
    for _ in range(count):
        call()
    dist.barrier()
    return (time.perf_counter() - start) / count


def work(rank, ranks, port):
    """What a rank measures: exchanges, computing while all compute, and steps."""
    flambeau = importlib.import_module("flambeau")
    dist = importlib.import_module("flambeau.distributed")
    flambeau.set_num_threads(1)
    flambeau.manual_seed(0)
    dist.init_process_group("gloo", init_method=f"tcp://localhost:{port}", rank=rank, world_size=ranks)
    small, large = flambeau.ones(1), flambeau.ones(BUCKET // 4)
    alpha = min(seconds(dist, lambda: dist.all_reduce(small), 200) for _ in range(5))
    beta = (min(seconds(dist, lambda: dist.all_reduce(large), 2) for _ in range(5)) - alpha) / BUCKET
    own, x = parts(flambeau)
    steps = {"alone": whole_step(flambeau, flambeau.nn.Sequential(*own), x), "DDP": data_parallel(flambeau),
             "FSDP": sharded(flambeau), "pipeline": in_stages(flambeau, rank, ranks)}
    layers, times = profile(flambeau), {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            times[name].append(seconds(dist, step, 1))
        for layer, again in zip(layers, profile(flambeau)):
            layer.update({name: min(layer[name], again[name]) for name in ("forward", "backward")})
    # other programs come and go, so a step is compared with computing alone in the same turn
    turns = {name: found[1:] for name, found in times.items()}
    alone = median(turns["alone"])
    found = {"alpha": alpha, "beta": beta, "layers": layers, "alone": alone}
    found |= {name: alone * median(b / a for a, b in zip(turns["alone"], turns[name])) for name in turns}
    if rank == 0:
        print(json.dumps(found), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def data_parallel(flambeau):
    """A step of DistributedDataParallel."""
    layers, x = parts(flambeau)
    return whole_step(flambeau, flambeau.nn.parallel.DistributedDataParallel(flambeau.nn.Sequential(*layers)), x)


def sharded(flambeau):
    """A step of fully_shard, layer by layer."""
    layers, x = parts(flambeau)
    fully_shard = importlib.import_module("flambeau.distributed.fsdp").fully_shard
    for layer in layers:
        fully_shard(layer)
    return whole_step(flambeau, fully_shard(flambeau.nn.Sequential(*layers)), x)


def whole_step(flambeau, model, x):
    """Forward and backward."""
    def step():
        model.zero_grad()
        out = model(x)
        out.backward(flambeau.ones_like(out))

    return step


def cuts(layers, ranks):
    """Which layers each stage has: equal numbers, as near as may be."""
    ends = [round(k * layers / ranks) for k in range(ranks + 1)]
    return [slice(ends[k], ends[k + 1]) for k in range(ranks)]


def in_stages(flambeau, rank, ranks, microbatches=8):
    """A step of 1F1B."""
    pipelining = importlib.import_module("flambeau.distributed.pipelining")
    layers, x = parts(flambeau)
    own = layers[cuts(len(layers), ranks)[rank]]
    stage = pipelining.PipelineStage(flambeau.nn.Sequential(*own), rank, ranks, "cpu")
    schedule = pipelining.Schedule1F1B(stage, microbatches, lambda out, _: out.sum())
    batch = flambeau.cat([x] * microbatches)
    return lambda: schedule.step(*[batch] * (rank == 0), target=batch, return_outputs=False)


def ask(ranks, port):
    """What fresh ranks find."""
    done = subprocess.run([sys.executable, "-m", "benchmarks.projection", str(ranks), str(port)], text=True, check=True,
                          stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"})
    found = json.loads(done.stdout.splitlines()[-1])
    return found | {"layers": [Layer(**layer) for layer in found["layers"]]}


def run(check, free_port):
    """Prints the table; with `check`, measured steps of 2 to 4 ranks beside the model's."""
    found = ask(2, free_port())
    layers, cluster = found["layers"], Cluster(found["alpha"], found["beta"])
    alone, size = sum(x.forward + x.backward for x in layers), sum(x.parameters for x in layers)
    print(f"step of one worker {alone * 1e3:.0f} ms (varies by {100 * SPREAD:.0f} %), {size / 1e6:.0f} MB of "
          f"parameters;\nall_reduce in a host {cluster.alpha * 1e6:.0f} us + {1e-9 / cluster.beta:.1f} GB/s; between "
          f"hosts of {WORKERS} workers {ALPHA * 1e6:.0f} us + {1e-9 / BETA:.1f} GB/s")
    print(f"{'workers':>8} {'DDP':>8} {'FSDP':>8} {'pipeline':>9}")
    for ranks in SIZES:
        shares = efficiencies(layers, cluster, ranks, SPREAD)
        print(f"{ranks:8} " + " ".join(f"{100 * share:7.1f}%" for share in shares.values()))
    if check:
        print(f"{'ranks':>8} {'':10} {'measured':>10} {'model':>10}")
        for ranks in (2, 3, 4):
            compare(ranks, found if ranks == 2 else ask(ranks, free_port()))


def compare(ranks, found):
    """The model's steps beside the measured ones, with the time that the ranks take to compute for themselves, all at
    once; where there are more of them than cores, they share these.
    """
    cores, cluster = len(os.sched_getaffinity(0)), Cluster(found["alpha"], found["beta"])
    busy = found["alone"] / sum(x.forward + x.backward for x in found["layers"])
    layers = [Layer(x.forward * busy, x.backward * busy, x.parameters, x.passed) for x in found["layers"]]
    shared = busy / max(1.0, ranks / cores)
    one = [Layer(x.forward * shared, x.backward * shared, x.parameters, x.passed) for x in found["layers"]]
    own = [one[part] for part in cuts(len(one), ranks)]
    stages = [(sum(x.forward for x in part), sum(x.backward for x in part)) for part in own]
    pass_on = cluster.message(one[0].passed, far=False)
    model = {"DDP": ddp(layers, cluster, ranks), "FSDP": fsdp(layers, cluster, ranks),
             "pipeline": one_forward_one_backward(stages, pass_on, 8, min(cores, ranks))}
    for kind, value in model.items():
        print(f"{ranks:8} {kind:10} {found[kind] * 1e3:7.0f} ms {value * 1e3:7.0f} ms  "
              f"{100 * (value / found[kind] - 1):+.0f} %")


if __name__ == "__main__":
    importlib.import_module("flambeau.multiprocessing").spawn(work, tuple(map(int, sys.argv[1:3])), int(sys.argv[1]))
