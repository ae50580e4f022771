"""CUDA tensors between processes: the receiver works on the sender's memory, which stays until it lets go of it."""

import gc
import os
import subprocess
import sys

import pytest

import flambeau as fb
import flambeau.multiprocessing as mp
from flambeau import cuda, nn

from .. import emulate
from . import driver

CONTEXT = mp.get_context("spawn")


def serve(requests, answers):
    """What the other process does: (name of one of its functions, arguments), until None comes."""
    assert emulate.MARK  # importing it is enough: this process makes the kernels that it needs
    kept = []
    for name, args in iter(requests.get, None):
        try:
            answers.put(globals()[name](kept, *args))
        except Exception as error:
            answers.put(f"{type(error).__name__}: {error}")


@pytest.fixture(scope="module")
def other():
    requests, answers = CONTEXT.SimpleQueue(), CONTEXT.Queue()
    process = CONTEXT.Process(target=serve, args=(requests, answers))
    process.start()

    def ask(function, *args):
        ask.put(function, *args)
        return ask.get()
    ask.put = lambda function, *args: requests.put((function.__name__, args))
    ask.get = lambda: answers.get(timeout=10)
    yield ask
    requests.put(None)
    process.join()
    assert process.exitcode == 0


# --- in the other process

def look(kept, x):
    kept.append(x)
    return x.cpu().tolist(), str(x.device), tuple(x.stride()), x.requires_grad, type(x).__name__


def overwrite(kept, x, value):
    x.fill_(value)
    cuda.synchronize()


def forget(kept):
    kept.clear()
    gc.collect()


def shared(kept, x, y):
    kept += [x, y]
    return x.data_ptr() == y.data_ptr()


def resend(kept, x):
    CONTEXT.SimpleQueue().put(x)


def module(kept, net):
    kept.append(net)
    with fb.no_grad():
        for p in net.parameters():
            p.fill_(2)
    cuda.synchronize()
    return net.bias.tolist()


def wait_for_mark(kept, handle):
    event = cuda.Event.from_ipc_handle("cuda:0", handle)
    cuda.current_stream().wait_event(event)
    return event.query()


def used(kept):
    return driver().calls("cuIpcOpenMemHandle"), driver().calls("cuIpcCloseMemHandle")


# --- tests

pytestmark = pytest.mark.usefixtures("own_kernels")


def held():
    from flambeau.cuda import _ipc
    cuda.ipc_collect()
    return len(_ipc._sent)


def test_values_layout_and_kind_arrive(other):
    x = fb.arange(12.0).view(3, 4).cuda()
    assert other(look, x.t()[1:]) == (x.t()[1:].tolist(), "cuda:0", (1, 4), False, "Tensor")
    p = nn.Parameter(fb.ones(2, device="cuda"))
    assert other(look, p)[3:] == (True, "Parameter")
    assert other(look, fb.zeros(3, dtype=fb.int32, device="cuda:1"))[:2] == ([0] * 3, "cuda:1")
    assert other(look, fb.complex(fb.ones(2), fb.ones(2)).cuda().conj())[0] == [1 - 1j, 1 - 1j]
    other(forget)


def test_both_processes_see_one_memory(other):
    x = fb.zeros(1000, device="cuda")
    other(overwrite, x[10:20], 7.0)
    assert x.sum().item() == 70 and x[9].item() == 0
    net = nn.Linear(3, 2).cuda()
    assert other(module, net) == [2, 2]
    assert bool((net.weight == 2).all())
    other(forget)


def test_the_sender_keeps_memory_until_the_receiver_lets_go(other):
    gc.collect()
    before, n = cuda.memory_allocated(), held()
    x = fb.ones(5000, device="cuda")
    address = x.data_ptr()
    other(look, x)
    del x
    gc.collect()
    assert held() == n + 1 and cuda.memory_allocated() > before
    assert all(fb.ones(5000, device="cuda").data_ptr() != address for _ in range(3))
    other(forget)
    assert held() == n and cuda.memory_allocated() == before


def test_sending_again_finds_what_was_let_go_of(other):
    for k in range(20):
        assert other(look, fb.full((100,), float(k), device="cuda"))[0][0] == k
        other(forget)
    from flambeau.cuda import _ipc
    assert len(_ipc._sent) <= 1


def test_a_segment_is_opened_once_and_closed_with_its_last_user(other):
    cuda.empty_cache()
    opened, closed = other(used)
    x, y = fb.ones(10, device="cuda"), fb.ones(10, device="cuda")
    other(look, x)
    other(look, y)
    assert other(used) == (opened + 1, closed)
    other(forget)
    assert other(used) == (opened + 1, closed + 1)


def test_one_memory_sent_twice_is_one_memory_there(other):
    x = fb.ones(10, device="cuda")
    assert other(shared, x, x[:5])
    other(forget)
    held()


def test_the_receiver_waits_for_the_sender_s_work(other, fake):
    fake.delay(1)
    x = fb.ones(1000, device="cuda")
    with cuda.stream(cuda.Stream()):
        x.fill_(3)
        other.put(overwrite, x, 5)  # would be overwritten in turn if it did not wait
        cuda.synchronize()
    other.get()
    assert bool((x.cpu() == 5).all())
    fake.delay(0)


def test_a_tensor_that_comes_back_is_the_own(other):
    """What was received is not sent on; a queue within one process hands over what was put into it."""
    x = fb.ones(4, device="cuda")
    assert "send x.clone()" in other(resend, x)
    queue = CONTEXT.SimpleQueue()
    queue.put(x)
    y = queue.get()
    y.fill_(9)
    assert x.tolist() == [9] * 4 and y.data_ptr() == x.data_ptr()
    other(forget)


def test_storages_and_views_of_them(other):
    x = fb.arange(6.0).cuda()
    queue = CONTEXT.SimpleQueue()
    queue.put(x.untyped_storage())
    assert queue.get().nbytes() == x.untyped_storage().nbytes()


def test_tensors_with_a_history_stay(other):
    x = fb.ones(2, device="cuda", requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="detach"):
        CONTEXT.SimpleQueue().put(x)


def test_events_of_another_process(other):
    event = cuda.Event(interprocess=True)
    event.record()
    assert other(wait_for_mark, event.ipc_handle()) is True
    with pytest.raises(RuntimeError, match="interprocess=True"):
        cuda.Event().ipc_handle()
    with pytest.raises(ValueError, match="keeps no time"):
        cuda.Event(enable_timing=True, interprocess=True)


def test_what_the_driver_refuses_is_said(other, fake):
    x, n = fb.ones(4, device="cuda"), held()
    for function in ("cuIpcGetMemHandle", "cuEventCreate", "cuEventRecord", "cuIpcGetEventHandle"):
        fake.fail(1, function)
        with pytest.raises(RuntimeError, match="CUDA error"):
            CONTEXT.SimpleQueue().put(x)
        fake.fail(0)
    assert held() == n and other(look, x)[0] == [1] * 4
    other(forget)


PROGRAM = """
import flambeau as fb, flambeau.multiprocessing as mp
if __name__ == "__main__":
    queue = mp.get_context("spawn").SimpleQueue()
    queue.put(fb.ones(3, device="cuda"))
"""


def test_a_sender_that_ends_too_early_is_told(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    run = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, env=dict(os.environ), timeout=60)
    assert run.returncode == 0 and "this process ends while others use 1 CUDA tensors" in run.stderr, run.stderr
