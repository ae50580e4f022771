"""Recorded work: replayed with the memory it was recorded with, which nobody else gets."""

import pytest

import flambeau as fb
from flambeau import cuda


def test_replay_reads_the_inputs_anew(fake):
    x = fb.arange(6.0).cuda()
    y = x + x  # the kernel is loaded before
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        assert cuda.is_current_stream_capturing()
        y = x + x
        z = y * 2.0
    assert not cuda.is_current_stream_capturing()
    g.replay()
    assert z.tolist() == [4.0 * k for k in range(6)]
    x.copy_(fb.ones(6))
    launches = fake.calls("cuLaunchKernel")
    g.replay()
    assert z.tolist() == [4.0] * 6 and fake.calls("cuLaunchKernel") == launches
    assert fake.calls("cuGraphLaunch") >= 2


def test_its_memory_is_its_own():
    x = fb.ones(1000, device="cuda")
    x + x
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y = x + x
        z = y + x
        del y
    pool = g.pool()
    addresses = [b["address"] for s in cuda.memory_snapshot(pool) for b in s["blocks"]]
    assert z.data_ptr() in addresses
    others = [fb.full((1000,), 7.0, device="cuda") for _ in range(50)]
    low = min(addresses)
    high = max(s["address"] + s["total_size"] for s in cuda.memory_snapshot(pool))
    assert all(not low <= t.data_ptr() < high for t in others)
    cuda.empty_cache()
    assert cuda.memory_snapshot(pool)
    g.replay()
    assert z.tolist() == [3] * 1000 and all(t.cpu().eq(7).all() for t in others)
    del z
    g.reset()
    cuda.empty_cache()
    assert not cuda.memory_snapshot(pool)


def test_graphs_share_a_pool():
    x = fb.ones(10, device="cuda")
    x + x
    pool = cuda.graph_pool_handle()
    graphs = [cuda.CUDAGraph() for _ in range(2)]
    results = []
    for g in graphs:
        with cuda.graph(g, pool=pool):
            results.append(x + x)
    assert graphs[0].pool() == graphs[1].pool() == pool
    for g in graphs:
        g.replay()
    assert [r.tolist() for r in results] == [[2] * 10] * 2


def test_other_streams_join_in():
    x = fb.ones(10, device="cuda")
    x + x
    side = cuda.Stream()
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        here = cuda.current_stream()
        side.wait_stream(here)
        out = fb.empty(10, device="cuda")
        with cuda.stream(side):
            fb.add(x, x, out=out)
        here.wait_stream(side)
        y = out + x
    g.replay()
    assert y.tolist() == [3] * 10


def test_what_cannot_be_recorded():
    x = fb.ones(10, device="cuda")
    y = x + x
    g = cuda.CUDAGraph()
    with pytest.raises(RuntimeError), cuda.graph(g):
        x.cpu()
    with cuda.graph(cuda.CUDAGraph()):
        y = x + x
    assert (x + x).tolist() == [2] * 10 and y.numel() == 10
    with pytest.raises(RuntimeError, match="default stream"):
        cuda.CUDAGraph().capture_begin()
    with pytest.raises(RuntimeError, match="replay"):
        cuda.CUDAGraph().replay()
    with pytest.raises(ValueError, match="relaxed"):
        cuda.CUDAGraph().capture_begin(capture_error_mode="none")


def test_kept_graphs(tmp_path):
    x = fb.ones(10, device="cuda")
    x + x
    g = cuda.CUDAGraph(keep_graph=True)
    with cuda.graph(g):
        y = x + x
    g.instantiate()
    g.replay()
    assert y.tolist() == [2] * 10 and g.raw_cuda_graph()
    g.debug_dump(tmp_path / "graph.dot")
    assert "nodes" in (tmp_path / "graph.dot").read_text()


def test_graphed_callables(fake):
    def f(x, y):
        return (x + y) * 2.0

    a, b = fb.ones(4, device="cuda"), fb.ones(4, device="cuda")
    fast = cuda.make_graphed_callables(f, (a, b))
    launches = fake.calls("cuLaunchKernel")
    assert fast(fb.arange(4.0).cuda(), b).tolist() == [2, 4, 6, 8]
    assert fake.calls("cuLaunchKernel") == launches
    assert fast(fb.zeros(4, device="cuda"), fb.full((4,), 3.0, device="cuda")).tolist() == [6] * 4
    with pytest.raises(RuntimeError, match="shape"):
        fast(fb.zeros(5, device="cuda"), b)
    with pytest.raises(TypeError, match="CUDA tensors"):
        cuda.make_graphed_callables(f, (a, fb.ones(4)))
