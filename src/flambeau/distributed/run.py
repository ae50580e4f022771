"""Starts the processes of a program on this host: what `flambeau launch` and `torchrun` do.

    flambeau launch --nproc-per-node 2 train.py --epochs 3

Each process gets RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT; init_process_group()
needs nothing else. If one fails, the others are ended, and all are started anew as often as --max-restarts says.
"""

import argparse
import contextlib
import os
import secrets
import signal
import sys
import tempfile
from datetime import timedelta

from .._shown import shown
from ._errors import DistError
from ._tcp import KEY_VARIABLE, TCPStore
from ._workers import Interrupted, Workers, signals_raise
from .elastic.multiprocessing.errors import ERROR_FILE

_PORT = 29500
_INTERRUPTED = 130
_GRACE = 10.0  # seconds from being asked to end to being ended


class _Parser(argparse.ArgumentParser):
    """Options may be written with _ in place of -, as PyTorch's launcher takes them."""

    def parse_known_args(self, args=None, namespace=None):
        args = list(sys.argv[1:] if args is None else args)
        known = {text for action in self._actions for text in action.option_strings}
        for k, text in enumerate(args):
            if not text.startswith("-"):
                if k and self._takes_value(args[k - 1]):
                    continue
                break  # the program, whose own options are left alone
            name, sign, value = text.partition("=")
            plain = name[:2] + name[2:].replace("_", "-")
            if plain in known:
                args[k] = plain + sign + value
        return super().parse_known_args(args, namespace)

    def _takes_value(self, text):
        action = self._option_string_actions.get(text)
        return action is not None and action.nargs is None


def get_args_parser(prog=None):
    """The parser of the launcher's options."""
    parser = _Parser(prog=prog or "torchrun", description="Start the processes of a distributed program on this host.")
    add = parser.add_argument
    add("--nproc-per-node", default="1", metavar="N", help="processes on this host: a number, or auto or cpu for one "
                                                           "per core")
    add("--nnodes", default="1", metavar="N", help="how many launchers take part (default: 1)")
    add("--node-rank", type=int, default=None, metavar="K", help="which of them this is: 0 keeps the store")
    add("--master-addr", default=None, metavar="HOST", help="where launcher 0 is (default: localhost)")
    add("--master-port", type=int, default=None, metavar="PORT", help="default: a free one; 29500 with --nnodes")
    add("--rdzv-backend", default="static", metavar="NAME", help="static or c10d: both use --rdzv-endpoint")
    add("--rdzv-endpoint", default="", metavar="HOST:PORT", help="the same as --master-addr and --master-port")
    add("--rdzv-id", default="none", metavar="ID", help="name of the run")
    add("--standalone", action="store_true", help="this launcher alone, at a free port")
    add("--max-restarts", type=int, default=0, metavar="N", help="how often all start anew when one fails")
    add("--monitor-interval", type=float, default=0.1, help="without effect: the end of a process is told at once")
    add("--role", default="default", help="name of the processes, in ROLE_NAME")
    add("-m", "--module", action="store_true", help="the program is a module, as in python -m")
    add("--no-python", action="store_true", help="the program is no Python program")
    add("--run-path", action="store_true", help="the program is a file for runpy, as without it")
    add("--log-dir", default=None, metavar="DIR", help="a file for each rank, DIR/ID/attempt_K/RANK/std….log; what is "
                                                       "printed is shown, too, unless -r or -t say otherwise")
    add("-r", "--redirects", default=None, metavar="STD", help="into files only: 0 none, 1 stdout, 2 stderr, 3 both; "
                                                               "or RANK:STD,…")
    add("-t", "--tee", default=None, metavar="STD", help="into files and here, in the same form")
    add("--local-ranks-filter", default="", metavar="RANKS", help="show only what these print: 0,2")
    add("training_script", metavar="PROGRAM")
    add("training_script_args", nargs=argparse.REMAINDER, metavar="ARGUMENT")
    return parser


def parse_args(args):
    """The options and the program of a command line."""
    return get_args_parser().parse_args(args)


class UsageError(Exception):
    """Options that do not go together; the text is for the user."""


def _count(text, option):
    if option == "--nproc-per-node" and text in ("auto", "cpu"):
        return len(os.sched_getaffinity(0))
    if option == "--nproc-per-node" and text in ("gpu", "xpu"):
        raise UsageError(f"{option} {text}: this build has no such devices; use a number, or cpu")
    if option == "--nnodes" and ":" in str(text):
        least, most = str(text).split(":", 1)
        if least != most:
            raise UsageError(f"{option} {text}: the number of launchers cannot change; give one number")
        text = least
    if not str(text).isdecimal() or int(text) < 1:
        raise UsageError(f"{option} {shown(text)}: expected a number from 1")
    return int(text)


def _by_rank(text, count, option):
    """The streams (bit 0: stdout, bit 1: stderr) of each local rank: "3" for all, or "0:1,2:3"."""
    if text is None or text == "":
        return [0] * count
    found = [0] * count
    for part in str(text).split(","):
        rank, colon, value = part.rpartition(":")
        fine = value in ("0", "1", "2", "3") and (not colon or (rank.isdecimal() and int(rank) < count))
        if not fine:
            raise UsageError(f"{option} {shown(text)}: expected 0, 1, 2 or 3, or RANK:NUMBER,… of ranks below {count}")
        for k in [int(rank)] if colon else range(count):
            found[k] = int(value)
    return found


class Launch:
    """What the options say: how many processes, where the store is, what is logged."""

    def __init__(self, options):
        self.options = options
        self.local, self.nodes = _count(options.nproc_per_node, "--nproc-per-node"), _count(options.nnodes, "--nnodes")
        if options.standalone and self.nodes > 1:
            raise UsageError("--standalone is for one launcher; leave it or --nnodes out")
        if options.rdzv_backend not in ("static", "c10d"):
            raise UsageError(f"--rdzv-backend {shown(options.rdzv_backend)}: expected static or c10d")
        if options.no_python and options.module:
            raise UsageError("--no-python and --module do not go together")
        self.host, self.port = self._address()
        self.files = _by_rank(options.redirects, self.local, "--redirects")
        tee = _by_rank(options.tee, self.local, "--tee")
        if options.log_dir is not None and options.redirects is None and options.tee is None:
            tee = [3] * self.local
        shown_ranks = {int(k) for k in options.local_ranks_filter.split(",") if k.isdecimal()}
        self.show = [(~a & 3 | b) * (not shown_ranks or k in shown_ranks)
                     for k, (a, b) in enumerate(zip(self.files, tee))]
        self.files = [a | b for a, b in zip(self.files, tee)]

    def _address(self):
        options = self.options
        if options.rdzv_endpoint and not options.standalone:
            host, _, port = options.rdzv_endpoint.partition(":")
            if port and not port.isdecimal():
                raise UsageError(f"--rdzv-endpoint {shown(options.rdzv_endpoint)}: expected HOST:PORT")
            return host or "localhost", int(port or _PORT)
        alone = self.nodes == 1 or options.standalone
        return options.master_addr or "localhost", options.master_port or (0 if alone else _PORT)

    def command(self):
        """What each process runs."""
        options = self.options
        python = [] if options.no_python else [sys.executable, "-u", *(["-m"] if options.module else [])]
        return [*python, options.training_script, *options.training_script_args]

    def logs(self, attempt):
        """The folder of one attempt's logs; None without any."""
        if not any(self.files):
            return None
        if self.options.log_dir is None:
            self.options.log_dir = tempfile.mkdtemp(prefix="flambeau-launch-")
        return os.path.join(self.options.log_dir, self.options.rdzv_id, f"attempt_{attempt}")

    def store(self):
        """(the store, which launcher this is): launcher 0 keeps it, or whoever is first to take the address."""
        node, wait = self.options.node_rank, timedelta(minutes=5)
        if node is None and self.nodes > 1 and self.options.rdzv_backend == "static":
            raise UsageError("--nnodes needs --node-rank: 0 for the launcher that keeps the store, 1, …")
        if node is None and self.nodes > 1:
            try:
                store = TCPStore(self.host, self.port, is_master=True, timeout=wait)
            except DistError:
                store = TCPStore(self.host, self.port, timeout=wait)
            return store, store.add(f"launchers {self.options.rdzv_id}", 1) - 1
        node = node or 0
        if not 0 <= node < self.nodes:
            raise UsageError(f"--node-rank {node}: expected 0 to {self.nodes - 1}")
        return TCPStore(self.host, self.port, is_master=node == 0, timeout=wait), node

    def environment(self, node, local, attempt, port, errors):
        """The variables of one process; `errors` is a folder for its error."""
        rank, size = node * self.local + local, self.nodes * self.local
        threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, len(os.sched_getaffinity(0)) // self.local))
        return {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(local), "WORLD_SIZE": str(size),
                "LOCAL_WORLD_SIZE": str(self.local), "GROUP_RANK": str(node), "GROUP_WORLD_SIZE": str(self.nodes),
                "ROLE_RANK": str(rank), "ROLE_WORLD_SIZE": str(size), "ROLE_NAME": self.options.role,
                "MASTER_ADDR": self.host, "MASTER_PORT": str(port), "OMP_NUM_THREADS": threads,
                "TORCHELASTIC_RESTART_COUNT": str(attempt), "TORCHELASTIC_RUN_ID": self.options.rdzv_id,
                "TORCHELASTIC_MAX_RESTARTS": str(self.options.max_restarts), "TORCHELASTIC_USE_AGENT_STORE": "True",
                ERROR_FILE: os.path.join(errors, f"{attempt}_{rank}.json")}


@contextlib.contextmanager
def supervised(launch, start, grace=_GRACE, tell=None):
    """Has processes run until they end well, or have failed too often: (the last ones, their Failure or None, {rank:
    the file of its error}).

    start: (environments, folder of logs) -> Workers, or what has its methods. tell: called with each Failure, how many
    attempts are left, and the folder.
    """
    with _own_key(launch.options), tempfile.TemporaryDirectory(prefix="flambeau-errors-") as folder:
        store, node = launch.store()
        for attempt in range(launch.options.max_restarts + 1):
            logs = launch.logs(attempt)
            environments = [launch.environment(node, local, attempt, store.port, folder)
                            for local in range(launch.local)]
            workers = start(environments, logs)
            try:
                failure = workers.watch()
            except Interrupted as asked:
                workers.end(asked.number, grace)
                raise
            workers.end(grace=0 if failure is None else grace)
            if failure is None:
                break
            if tell is not None:
                tell(failure, launch.options.max_restarts - attempt, logs)
        yield workers, failure, {int(each["RANK"]): each[ERROR_FILE] for each in environments}


@contextlib.contextmanager
def _own_key(options):
    """Within it, processes of one launcher have a key that nobody else knows. With several launchers, all must have
    one: the user's own, or what is in the environment.
    """
    made = (str(options.nnodes) in ("1", "1:1") or options.standalone) and KEY_VARIABLE not in os.environ
    if made:
        os.environ[KEY_VARIABLE] = secrets.token_hex(32)
    try:
        yield
    finally:
        if made:
            del os.environ[KEY_VARIABLE]


def launched(args, name="flambeau launch", quiet=()):
    """Runs a command line; the exit code: 0, that of the process that failed, 2 for wrong options, 130 for Ctrl-C.

    Nothing is said of exit codes in `quiet`, which the program explains itself.
    """
    def tell(failure, left, logs):
        what = f"; all start anew, {left} more time{'s' if left > 1 else ''} at most" if left else ""
        if left or failure.exit_code not in quiet:
            print(f"{name}: {failure}{f'; logs: {logs}' if logs else ''}{what}", file=sys.stderr, flush=True)

    try:
        launch = Launch(args)

        def start(environments, logs):
            return Workers(launch.command(), environments, logs, launch.files, launch.show)

        with signals_raise(), supervised(launch, start, tell=tell) as (_, failure, _):
            return failure.exit_code if failure else 0
    except (UsageError, DistError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except Interrupted as asked:
        if _INTERRUPTED not in quiet:
            print(f"{name}: interrupted by {signal.Signals(asked.number).name}", file=sys.stderr)
        return _INTERRUPTED if asked.number == signal.SIGINT else 128 + asked.number


def run(args):
    """Runs parsed options; SystemExit where a process failed."""
    code = launched(args, "torchrun")
    if code:
        raise SystemExit(code)


def main(args=None):
    """Runs a command line."""
    run(parse_args(args))


if __name__ == "__main__":
    main()
