"""Messages between two ranks: any size, dtype and order, tags, anyone, many at once."""

import pytest

import flambeau
import flambeau.distributed as dist

SIZES = (0, 1, 5, 16, 70_000, 1_000_003)


def ring():
    """Everybody sends to the next rank before it receives: no size may block."""
    me, found = dist.get_rank(), []
    for n in SIZES:
        x, y = flambeau.arange(n, dtype=flambeau.float32) + me, flambeau.empty(n)
        work = dist.isend(x, (me + 1) % 4)
        assert dist.recv(y, (me - 1) % 4) == (me - 1) % 4
        work.wait()
        found.append(flambeau.equal(y, flambeau.arange(n, dtype=flambeau.float32) + (me - 1) % 4))
    return found


def tags():
    if dist.get_rank() == 0:
        for tag in (1, 2, 3):
            dist.send(flambeau.full((3,), float(tag)), 1, tag=tag)
        dist.send(flambeau.full((100_000,), 4.0), 1, tag=4)
    elif dist.get_rank() == 1:
        found = []
        for tag in (3, 1, 4, 2):
            x = flambeau.zeros(100_000 if tag == 4 else 3)
            dist.recv(x, 0, tag=tag)
            found.append(x.unique().item())
        return found
    return None


def anyone():
    me = dist.get_rank()
    if me:
        dist.send(flambeau.tensor([me]), 0)
        return None
    x, seen = flambeau.zeros(1, dtype=flambeau.int64), []
    for _ in range(3):
        sender = dist.recv(x)
        assert sender == x.item()
        seen.append(sender)
    return sorted(seen)


def batch(n):
    """All to all, by messages alone."""
    me = dist.get_rank()
    outputs = {r: flambeau.empty(n) for r in range(4) if r != me}
    ops = [dist.P2POp(dist.isend, flambeau.full((n,), 10.0 * me + r), r) for r in outputs]
    ops += [dist.P2POp(dist.irecv, x, r) for r, x in outputs.items()]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return all((x == 10.0 * r + me).all() for r, x in outputs.items())


def strides_and_dtypes():
    me = dist.get_rank()
    for dtype in (flambeau.bool, flambeau.bfloat16, flambeau.complex64, flambeau.int8, flambeau.float8_e4m3fn):
        x = (flambeau.arange(12).view(3, 4) % 2).to(dtype)
        if me == 0:
            dist.send(x.mT, 1)
        elif me == 1:
            y = flambeau.zeros(4, 6, dtype=flambeau.float32).to(dtype)[:, ::2]
            dist.recv(y, 0)
            assert flambeau.equal(y.to(flambeau.complex64), x.mT.to(flambeau.complex64))
    return True


def meanwhile():
    """A message moves while both ranks are in a collective."""
    me, n = dist.get_rank(), 1_000_000
    x = flambeau.full((n,), 7.0) if me == 0 else flambeau.zeros(n)
    work = dist.isend(x, 1) if me == 0 else dist.irecv(x, 0) if me == 1 else None
    dist.barrier()
    if work is not None:
        work.wait()
        assert work.is_completed() and (me == 0 or work.source_rank() == 0)
    return me > 1 or (x == 7).all().item()


def mismatch():
    """A message of another size is told on the side that receives, and the next one is not disturbed."""
    if dist.get_rank() == 0:
        dist.send(flambeau.ones(4), 1)
        dist.send(flambeau.ones(2), 1)
    elif dist.get_rank() == 1:
        with pytest.raises(RuntimeError, match=r"recv \[3\] float32 from rank 0 at test_messages.py:\d+: rank 0 sent "
                                               "16 bytes, and the tensor to receive into has 12"):
            dist.recv(flambeau.zeros(3), 0)
        x = flambeau.zeros(2)
        dist.recv(x, 0)
        return x.tolist()
    return None


def in_a_group():
    group = dist.new_group([1, 3])
    if dist.get_rank() == 3:
        dist.send(flambeau.ones(2), group=group, group_dst=0)
    elif dist.get_rank() == 1:
        x = flambeau.zeros(2)
        return dist.recv(x, group=group), x.tolist()
    return None


def test_rings(ranks):
    assert ranks.run(ring) == [[True] * len(SIZES)] * 4


def test_tags(ranks):
    assert ranks.run(tags)[1] == [3.0, 1.0, 4.0, 2.0]


def test_from_anyone(ranks):
    assert ranks.run(anyone)[0] == [1, 2, 3]


@pytest.mark.parametrize("n", [1, 300_000])
def test_batches(ranks, n):
    assert ranks.run(batch, n) == [True] * 4


def test_layouts_and_dtypes(ranks):
    assert ranks.run(strides_and_dtypes) == [True] * 4


def test_messages_move_during_collectives(ranks):
    assert ranks.run(meanwhile) == [True] * 4


def test_another_size_is_told(ranks):
    assert ranks.run(mismatch)[1] == [1.0, 1.0]


def test_ranks_of_a_group(ranks):
    assert ranks.run(in_a_group)[1] == (3, [1.0, 1.0])
