"""Training on a Ray cluster: where ranks run, what they report, and how a run goes on when a node dies.

    def train(epochs):
        dist.init_process_group()
        state = dist.ray.restore() or {"epoch": 0}
        for epoch in range(state["epoch"], epochs):
            ...
            dist.ray.report({"loss": loss}, checkpoint={"model": model.state_dict(), "epoch": epoch + 1})

    dist.ray.run(train, workers=8, resources={"CPU": 4}, args=(90,))

Ray sends the function and what it returns as pickles, and its cluster trusts its members.
"""

import importlib
import io
import os
import secrets
import socket
import sys
import time
from pathlib import Path

import flambeau

from .._files.replacing import replacing
from .._shown import shown
from . import _backends
from ._errors import DistError
from ._tcp import KEY_VARIABLE
from ._through_ray import RayEngine, Switchboard

_LOOK = 0.2         # seconds between two looks at what has been reported
_DIES = 10.0        # seconds that ranks have to notice that one of them has died
_session = [None]   # of a worker


def _ray():
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise ModuleNotFoundError("distributed.ray: Ray is not installed: pip install ray") from None


# --- in a worker ------------------------------------------------------------------------------------------------------

class _Session:
    """What a worker knows of its run."""

    def __init__(self, rank, board, checkpoint):
        self.rank, self.board, self.checkpoint = rank, board, checkpoint


def _own_session(name):
    if _session[0] is None:
        raise RuntimeError(f"distributed.ray.{name}: this process is no worker of distributed.ray.run")
    return _session[0]


def report(metrics=None, checkpoint=None):
    """Tells the program that has called `run` numbers, {name: value}, and what the run continues from if it must.

    A checkpoint is anything that `flambeau.save` takes. When the call returns, it is kept; ranks that have the same
    give it on rank 0 alone, the others leave it out. Of a state that is spread over the ranks, save the parts with
    `distributed.checkpoint` into a folder that all nodes reach, and give its path.
    """
    session, content = _own_session("report"), None
    if checkpoint is not None:
        stream = io.BytesIO()
        flambeau.save(checkpoint, stream)
        content = stream.getvalue()
    _ray().get(session.board.put.remote(session.rank, metrics, content))


def restore():
    """The checkpoint that was reported last, of this run before it began anew, or of its folder; None without any."""
    content = _own_session("restore").checkpoint
    return None if content is None else flambeau.load(io.BytesIO(content), weights_only=False)


class _Worker:
    """The actor of one rank."""

    def place(self):
        """(the node, its address, a free port)"""
        ray = _ray()
        with socket.create_server(("", 0)) as server:
            return ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address(), server.getsockname()[1]

    def run(self, fn, args, kwargs, environment, session, switchboard):
        """Calls the function as a rank. switchboard: where ranks of several hosts exchange tensors, or None."""
        os.environ.update(environment)
        if switchboard is not None:
            _backends.elsewhere[0] = lambda rank, size, name: RayEngine(rank, size, switchboard, name)
        flambeau.set_num_threads(int(environment["OMP_NUM_THREADS"]))
        _session[0] = session
        try:
            return fn(*args, **kwargs)
        finally:
            _session[0] = None
            if flambeau.distributed.is_initialized():
                flambeau.distributed.destroy_process_group()
            sys.stdout.flush()


class _Board:
    """The actor that keeps what ranks report until the program looks."""

    def __init__(self):
        self.news, self.checkpoint = [], None

    def put(self, rank, metrics, checkpoint):
        """Takes a report."""
        if metrics is not None:
            self.news.append((rank, metrics))
        if checkpoint is not None:
            self.checkpoint = checkpoint

    def take(self):
        """(the reports since the last call, the checkpoint)"""
        found, self.news = self.news, []
        return found, self.checkpoint


# --- in the program ---------------------------------------------------------------------------------------------------

class RunFailed(DistError):
    """A run that could not go on: too many failures, or too few nodes."""


def run(fn, workers=1, resources=None, *, args=(), kwargs=None, min_workers=1, max_restarts=3, storage=None,
        on_report=None, strategy="PACK", wait=60.0, address=None, engine=None):
    """Calls `fn(*args, **kwargs)` as `workers` ranks on a Ray cluster; a list of what they return, by rank.

    Each finds RANK, WORLD_SIZE and what else `distributed.init_process_group()` needs in its environment, and prints as
    Ray does, with its process and node before each line.

    resources      of each worker, {"CPU": 1} by default
    min_workers    a run goes on with so few when no more can be placed within `wait` seconds
    max_restarts   how often all begin anew when a worker or its node dies; they find by `restore()` what was last
                   reported as a checkpoint. Errors of the function itself are raised at once
    storage        a folder for the last checkpoint: a program that is started again continues from it
    on_report      called with (rank, metrics) of every report; without it, rank 0's are printed
    strategy       PACK, SPREAD, STRICT_PACK or STRICT_SPREAD: how Ray chooses nodes
    address        of the cluster, where Ray has not been initialized; by default it begins one on this host
    engine         how ranks exchange tensors: "shared" memory, which is the default where all are on one host, or
                   "ray", Ray's object store, elsewhere

    RunFailed: it has failed more often than that, or there is no place for `min_workers`.
    """
    if not 1 <= min_workers <= workers:
        raise ValueError(f"distributed.ray.run: expected 1 <= min_workers <= workers, got {shown(min_workers)} and "
                         f"{shown(workers)}")
    if engine not in (None, "shared", "ray"):
        raise ValueError(f"distributed.ray.run: engine must be \"shared\", \"ray\" or None, got {shown(engine)}")
    ray = _ray()
    if not ray.is_initialized():
        ray.init(address=address)
    driver = _Driver(ray, (fn, args, kwargs or {}), {"CPU": 1} | (resources or {}), storage, on_report, engine)
    failure = None
    for attempt in range(max_restarts + 1):
        driver.attempt = attempt
        group, size = _placed(ray, driver.resources, workers, min_workers, strategy, wait)
        try:
            return driver.results(group, size)
        except _Lost as lost:
            failure = lost
            left = max_restarts - attempt
            print(f"distributed.ray: {lost}" + (f"; all begin anew, {left} more times at most" if left else ""),
                  file=sys.stderr, flush=True)
        finally:
            ray.util.remove_placement_group(group)
    raise RunFailed(f"distributed.ray.run: {failure}, the last of {max_restarts + 1} times")


class _Lost(Exception):
    """A worker has died."""


def _placed(ray, resources, workers, least, strategy, wait):
    """(a placement group, how many workers it is for): as many as the cluster has room for."""
    until = time.monotonic() + wait
    while True:
        for size in range(workers, least - 1, -1):
            if size < workers and time.monotonic() < until and _room(ray, resources) < least:
                break  # nodes may come back
            group = ray.util.placement_group([resources] * size, strategy=strategy)
            ready, _ = ray.wait([group.ready()], timeout=min(5.0, wait))
            if ready:
                return group, size
            ray.util.remove_placement_group(group)
        if time.monotonic() > until:
            raise RunFailed(f"distributed.ray.run: there is no place for {least} workers of {resources} within "
                            f"{wait:g} seconds; the cluster has {ray.available_resources()}")
        time.sleep(_LOOK)


def _room(ray, resources):
    """How many workers the free resources would do for, were they on one node."""
    free = ray.available_resources()
    return min(int(free.get(name, 0) // count) for name, count in resources.items() if count)


class _Driver:
    """One run: its workers, its board, and what is kept of it."""

    def __init__(self, ray, call, resources, storage, on_report, engine):
        self.ray, self.call, self.resources, self.engine = ray, call, resources, engine
        self.file = None if storage is None else Path(storage) / "checkpoint.pt"
        self.on_report, self.attempt, self.written = on_report or _printed, 0, None
        self.here = importlib.import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False)  # the board lives as long as the program's own node
        self.board = ray.remote(num_cpus=0)(_Board).options(scheduling_strategy=self.here).remote()
        self.checkpoint = self.file.read_bytes() if self.file is not None and self.file.exists() else None

    def results(self, group, size):
        """Runs the workers once; _Lost where one has died."""
        plan = importlib.import_module("ray.util.scheduling_strategies").PlacementGroupSchedulingStrategy
        own = {"num_cpus": self.resources["CPU"], "num_gpus": self.resources.get("GPU", 0),
               "resources": {name: n for name, n in self.resources.items() if name not in ("CPU", "GPU", "memory")}}
        kind = self.ray.remote(**own)(_Worker)
        actors = [kind.options(scheduling_strategy=plan(group, placement_group_bundle_index=k)).remote()
                  for k in range(size)]
        try:
            places = self._get([actor.place.remote() for actor in actors])
            switchboard = self._switchboard(places, size)
            waiting = {actor.run.remote(*self.call, environment, _Session(rank, self.board, self.checkpoint),
                                        switchboard): rank
                       for rank, (actor, environment) in enumerate(zip(actors, self._environments(places)))}
            return self._watched(waiting)
        finally:
            for actor in actors:
                self.ray.kill(actor)

    def _switchboard(self, places, size):
        """The actor through which ranks exchange tensors; None where they share memory."""
        if self.engine != "ray" and (self.engine == "shared" or len({address for _, address, _ in places}) == 1):
            return None
        kind = self.ray.remote(num_cpus=0, max_concurrency=max(100, 8 * size))(Switchboard)
        return kind.options(scheduling_strategy=self.here).remote()

    def _environments(self, places):
        """The variables of each rank; places are (node, address, free port)."""
        nodes, key = [node for node, _, _ in places], secrets.token_hex(32)
        for rank, node in enumerate(nodes):
            yield {"RANK": str(rank), "WORLD_SIZE": str(len(nodes)), "LOCAL_RANK": str(nodes[:rank].count(node)),
                   "LOCAL_WORLD_SIZE": str(nodes.count(node)), "MASTER_ADDR": places[0][1],
                   "MASTER_PORT": str(places[0][2]), KEY_VARIABLE: key,
                   "OMP_NUM_THREADS": str(max(1, int(self.resources["CPU"]))),
                   "TORCHELASTIC_RESTART_COUNT": str(self.attempt)}

    def _watched(self, waiting):
        """Waits for all, and passes on what they report."""
        found, count = {}, len(waiting)
        while waiting:
            done, _ = self.ray.wait(list(waiting), timeout=_LOOK)
            self._look()
            for reference in done:
                rank = waiting.pop(reference)
                found[rank] = self._get([reference], [*waiting])[0]
        self._look()
        return [found[rank] for rank in range(count)]

    def _get(self, references, others=()):
        """The values; _Lost for those of workers that have died, and for errors that others' deaths have caused."""
        errors = self.ray.exceptions
        try:
            return self.ray.get(references)
        except (errors.RayActorError, errors.NodeDiedError, errors.WorkerCrashedError, errors.ObjectLostError) as error:
            self._look()
            raise _Lost(f"a worker has died: {str(error).splitlines()[0]}") from None
        except errors.RayTaskError as error:
            self._look()
            if isinstance(error, DistError) and self._has_lost(others):
                raise _Lost(f"a worker has died: {error.cause}") from None
            raise

    def _has_lost(self, others):
        """Whether one of the other workers dies as well; who has noticed it may be told of before."""
        errors = self.ray.exceptions
        for reference in self.ray.wait(others, num_returns=len(others), timeout=_DIES)[0] if others else ():
            try:
                self.ray.get(reference)
            except (errors.RayActorError, errors.NodeDiedError, errors.WorkerCrashedError):
                return True
            except errors.RayTaskError:
                pass
        return False

    def _look(self):
        """Takes what was reported, and keeps the checkpoint."""
        news, checkpoint = self.ray.get(self.board.take.remote())
        for rank, metrics in news:
            self.on_report(rank, metrics)
        if checkpoint is not None:
            self.checkpoint = checkpoint
        if self.file is not None and checkpoint is not None and checkpoint is not self.written:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self.file) as file:
                file.write(checkpoint)
            self.written = checkpoint


def _printed(rank, metrics):
    if rank == 0:
        print("  ".join(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
                        for name, value in metrics.items()), flush=True)
