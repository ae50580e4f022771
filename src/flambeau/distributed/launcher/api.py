"""elastic_launch: a function, or a command, in several processes, with restarts; their results, or who has failed."""

import os
import signal
import tempfile
from dataclasses import dataclass, field
from typing import Any

from ..._shown import shown
from .._called import Called
from .._workers import Interrupted, Workers, signals_raise
from ..elastic.multiprocessing import DefaultLogsSpecs, LogsSpecs
from ..elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from ..run import Launch, get_args_parser, supervised

_SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
_GRACE = 30


@dataclass
class LaunchConfig:
    """How many processes, on how many hosts, started how; `max_restarts` times anew when one fails.

    With several launchers (`min_nodes` = `max_nodes` > 1), `rdzv_endpoint` is HOST:PORT of the first, and
    `rdzv_configs={"rank": K}` says which this is. `start_method`: spawn, fork or forkserver. `shutdown_timeout`:
    seconds from asking processes to end to ending them.
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: LogsSpecs | None = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "c10d"
    rdzv_configs: dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    signals_to_handle: str = _SIGNALS
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False
    shutdown_timeout: int | None = None

    def __post_init__(self):
        for name in ("log_line_prefix_template", "metrics_cfg", "numa_options", "duplicate_stdout_filters",
                     "duplicate_stderr_filters", "virtual_local_rank"):
            if getattr(self, name):
                raise NotImplementedError(f"LaunchConfig: {name} is not available; leave it out")
        if self.event_log_handler != "null" or self.signals_to_handle != _SIGNALS:
            raise NotImplementedError("LaunchConfig: event_log_handler and signals_to_handle cannot be chosen; leave "
                                      "them out")
        if self.rdzv_timeout != -1:
            self.rdzv_configs["timeout"] = self.rdzv_timeout
        self.rdzv_configs.setdefault("timeout", 900)
        self.logs_specs = self.logs_specs or DefaultLogsSpecs()
        if self.shutdown_timeout is None:
            self.shutdown_timeout = int(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", _GRACE))
        if self.shutdown_timeout < 0:
            raise ValueError(f"LaunchConfig: shutdown_timeout must not be negative, got {shown(self.shutdown_timeout)}")


class elastic_launch:
    """`elastic_launch(config, entrypoint)(*args)` calls a function in all processes, or runs a command, and returns
    {rank: what the function has returned}. ChildFailedError: one has failed, after all restarts.

    >>> import os
    >>> from flambeau.distributed.launcher import LaunchConfig, elastic_launch
    >>> config = LaunchConfig(1, 1, 2, start_method="fork", max_restarts=0)
    >>> elastic_launch(config, lambda x: int(os.environ["RANK"]) + x)(10)
    {0: 10, 1: 11}
    """

    def __init__(self, config, entrypoint, health_check_server=None):
        if health_check_server is not None:
            raise NotImplementedError("elastic_launch: health_check_server is not available; leave it out")
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args):
        return launch_agent(self._config, self._entrypoint, list(args))


def _streams(value):
    """Std or {local rank: Std} as the option's text."""
    return ",".join(f"{k}:{int(v)}" for k, v in value.items()) if isinstance(value, dict) else str(int(value))


def _options(config):
    """The launcher's options that a LaunchConfig means."""
    line = ["--nproc-per-node", str(config.nproc_per_node), "--nnodes", f"{config.min_nodes}:{config.max_nodes}",
            "--max-restarts", str(config.max_restarts), "--role", config.role, "--rdzv-id", config.run_id or "none"]
    specs = config.logs_specs
    if specs.redirects or specs.tee:
        line += ["-r", _streams(specs.redirects), "-t", _streams(specs.tee)]
        line += ["--log-dir", os.fspath(specs.root_log_dir or tempfile.mkdtemp(prefix="flambeau-launch-"))]
    if specs.local_ranks_filter:
        line += ["--local-ranks-filter", ",".join(map(str, specs.local_ranks_filter))]
    if config.max_nodes > 1:
        if config.rdzv_backend not in ("static", "c10d"):
            raise NotImplementedError(f"LaunchConfig: rdzv_backend {shown(config.rdzv_backend)} is not available; use "
                                      "c10d")
        line += ["--rdzv-backend", config.rdzv_backend, "--rdzv-endpoint", config.rdzv_endpoint]
        if "rank" in config.rdzv_configs:
            line += ["--node-rank", str(config.rdzv_configs["rank"])]
    elif config.local_addr:
        line += ["--master-addr", config.local_addr]
    return get_args_parser("elastic_launch").parse_args([*line, "-"])


def _files(launch, logs):
    """For each process, {stream: its file}, of functions."""
    found = []
    for k, bits in enumerate(launch.files):
        found.append({})
        for bit, stream, name in ((1, 1, "stdout.log"), (2, 2, "stderr.log")):
            if bits & bit and launch.show[k] & bit:
                raise NotImplementedError("elastic_launch: the output of functions goes to files or is shown, not "
                                          "both; use redirects in place of tee, or launch a command")
            if bits & bit:
                os.makedirs(os.path.join(logs, str(k)), exist_ok=True)
                found[-1][stream] = os.path.join(logs, str(k), name)
    return found


def launch_agent(config, entrypoint, args):
    """What `elastic_launch` does, with the arguments in a list."""
    launch = Launch(_options(config))

    def start(environments, logs):
        if isinstance(entrypoint, str):
            return Workers([entrypoint, *map(str, args)], environments, logs, launch.files, launch.show)
        return Called(entrypoint, args, environments, config.start_method, _files(launch, logs))

    try:
        with signals_raise(), supervised(launch, start, config.shutdown_timeout) as (workers, failure, errors):
            if failure is None:
                found = getattr(workers, "results", {})
                return {rank: found.get(rank) for rank in workers.ranks()}
            local = failure.rank % launch.local
            told = ProcessFailure(local, failure.pid, failure.code, errors[failure.rank])
            raise ChildFailedError(config.role, {failure.rank: told})
    except Interrupted as asked:
        if asked.number == signal.SIGINT:
            raise KeyboardInterrupt from None
        raise SystemExit(128 + asked.number) from None
