"""The process in which async_save writes: it takes states until the program that has started it ends."""

import pickle
import shutil
import signal
import sys
from multiprocessing import reduction
from multiprocessing.connection import Connection
from pathlib import Path

import flambeau
import flambeau.distributed as dist
from flambeau.distributed.checkpoint._shared_copy import Room, restored
from flambeau.distributed.checkpoint.api import CheckpointException
from flambeau.distributed.checkpoint.state_dict_saver import _save_state_dict


def _saved(content, room):
    """(whether it has failed, the Metadata or what went wrong)"""
    try:
        state, (writer, planner, no_dist, use_collectives) = restored(content, room)
        return False, _save_state_dict(state, writer, None, 0, no_dist, planner, use_collectives)
    except (Exception, CheckpointException) as error:
        return True, error


def _answer(pair):
    try:
        return pickle.dumps(pair)
    except Exception:
        return pickle.dumps((True, RuntimeError(f"{type(pair[1]).__name__}: {pair[1]}")))


def serve(pipe):
    """Saves what comes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the program's: what it has handed over is saved
    sys.path[:], place, rank, size = pickle.loads(pipe.recv_bytes())
    flambeau.set_num_threads(1)
    if place is not None:
        dist.init_process_group("gloo", init_method=f"file://{place}/meet", rank=rank, world_size=size)
    while True:
        content = pipe.recv_bytes()
        room = Room(file=reduction.recv_handle(pipe))
        pipe.send_bytes(_answer(_saved(content, room)))


def main():
    """Until the program's end of the pipe is closed."""
    pipe = Connection(int(sys.argv[1]))
    try:
        serve(pipe)
    except (EOFError, ConnectionError):
        if dist.is_initialized():
            place = Path(dist.group.WORLD.outer_store.path).parent
            dist.destroy_process_group()
            if not any(place.iterdir()):
                shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
