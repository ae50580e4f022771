"""Stores: the same laws for all kinds, who is let in, and what a stranger can send."""

import contextlib
import multiprocessing
import os
import socket
import struct
import threading
import time
from datetime import timedelta

import pytest

import flambeau.distributed as dist
from flambeau.distributed import _tcp

KINDS = {
    "hash": lambda path: dist.HashStore(),
    "file": lambda path: dist.FileStore(str(path / "store"), 1),
    "tcp": lambda path: dist.TCPStore("localhost", 0, 1, True),
    "prefix": lambda path: dist.PrefixStore("a", dist.PrefixStore("b", dist.TCPStore("127.0.0.1", 0, 1, True))),
}


@pytest.fixture(params=KINDS)
def store(request, tmp_path):
    made = KINDS[request.param](tmp_path)
    made.set_timeout(timedelta(seconds=10))
    yield made
    getattr(getattr(made, "_underlying_non_prefix_store", made), "close", lambda: None)()


def test_values(store):
    store.set("a", "x")
    assert store.get("a") == b"x" and store.check(["a"]) and not store.check(["a", "b"])
    store.set("a", b"\0\xff")
    assert store.get("a") == b"\0\xff"
    assert store.add("n", 3) == 3 and store.add("n", -5) == -2 and store.get("n") == b"-2"
    assert store.compare_set("new", "1", "2") == b"1" and not store.check(["new"])
    assert store.compare_set("new", "", "2") == b"2" and store.compare_set("new", "2", "3") == b"3"
    assert store.compare_set("new", "2", "4") == b"3" and store.get("new") == b"3"
    assert store.delete_key("new") and not store.delete_key("new")
    store.multi_set(["p", "q"], ["1", "2"])
    assert store.multi_get(["q", "p"]) == [b"2", b"1"]
    store.append("p", "23")
    assert store.get("p") == b"123" and store.has_extended_api()


def test_queues(store):
    for value in ("1", "2"):
        store.queue_push("line", value)
    assert store.queue_len("line") == 2 and store.queue_pop("line") == b"1" and store.queue_pop("line", False) == b"2"
    with pytest.raises(dist.QueueEmptyError, match=r"'.*line'"):
        store.queue_pop("line", False)


def test_waiting(store):
    other = store.clone() if not isinstance(store, dist.FileStore) else dist.FileStore(store.path)
    later = threading.Timer(0.1, lambda: other.set("later", "1"))
    later.start()
    assert store.get("later") == b"1"
    start = time.monotonic()
    with pytest.raises(dist.DistStoreError, match=r"waited 0.05 seconds for '.*never': no process has set it"):
        store.wait(["never"], timedelta(seconds=0.05))
    store.set_timeout(timedelta(seconds=0.05))
    with pytest.raises(dist.DistStoreError, match=r"never"):
        store.get("never")
    assert time.monotonic() - start < 3
    later.join()


def test_arguments_of_stores(store):
    for call, error in [(lambda: store.set(3, "x"), TypeError), (lambda: store.set("x", 3), TypeError),
                        (lambda: store.multi_set(["a"], []), ValueError), (lambda: store.wait(["a"], "x"), TypeError)]:
        with pytest.raises(error):
            call()


def test_keys_of_a_prefix():
    inner = dist.HashStore()
    outer = dist.PrefixStore("a", dist.PrefixStore("b", inner))
    outer.multi_set(["x", "y"], ["1", "2"])
    assert inner.list_keys() == ["b/a/x", "b/a/y"] and outer.num_keys() == 2
    assert outer._underlying_non_prefix_store is inner


def _count(path, n):
    store = dist.FileStore(path)
    for _ in range(n):
        store.add("n", 1)


def test_many_processes_write_one_file(tmp_path):
    path = str(tmp_path / "store")
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_count, args=(path, 50)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
    assert dist.FileStore(path).get("n") == b"200" and os.stat(path).st_mode & 0o777 == 0o600


# --- who is let in ----------------------------------------------------------------------------------------------------

@pytest.fixture
def server():
    store = dist.TCPStore("localhost", 0, is_master=True)
    yield store
    store.close()


def test_only_this_host_can_connect(server):
    assert server._server._socket.getsockname()[0] in ("127.0.0.1", "::1")


def test_another_key_is_refused(server, monkeypatch):
    monkeypatch.setenv(_tcp.KEY_VARIABLE, "another")
    with pytest.raises(dist.DistNetworkError, match=r"has another key.*FLAMBEAU_STORE_KEY"):
        dist.TCPStore("localhost", server.port)
    monkeypatch.delenv(_tcp.KEY_VARIABLE)
    dist.TCPStore("localhost", server.port).set("a", "b")


def test_a_server_that_does_not_know_the_key_is_refused(monkeypatch):
    listening = socket.create_server(("127.0.0.1", 0))

    def pretend():
        connection, _ = listening.accept()
        connection.sendall(b"n" * 32)
        connection.recv(64)
        connection.sendall(b"p" * 32)
        connection.close()

    thread = threading.Thread(target=pretend)
    thread.start()
    with pytest.raises(dist.DistNetworkError, match=r"has another key, or is no store"):
        dist.TCPStore("127.0.0.1", listening.getsockname()[1], timeout=timedelta(seconds=5))
    thread.join()
    listening.close()


@pytest.mark.parametrize("content", [b"GET / HTTP/1.1\r\n\r\n" * 10, b"\0" * 64, b"\xff" * 1000, b""])
def test_strangers_get_nothing(server, content):
    server.set("secret", "value")
    with socket.create_connection(("localhost", server.port)) as stranger:
        assert len(stranger.recv(32)) == 32
        stranger.sendall(content)
        stranger.shutdown(socket.SHUT_WR)
        stranger.settimeout(5)
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(1000) == b""
    assert server.get("secret") == b"value"


@pytest.mark.parametrize("body", [b"", b"\0\0\0\x05abc", struct.pack("!I", 3) + b"1.0" + struct.pack("!I", 4) + b"exec",
                                  b"\0\0\0\x01x", struct.pack("!I", 2**31)])
def test_damaged_requests_end_their_connection_only(server, body):
    bad = dist.TCPStore("localhost", server.port)
    bad._connection.sendall(struct.pack("!I", len(body)) + body)
    bad._connection.settimeout(5)
    with contextlib.suppress(ConnectionResetError):
        assert bad._connection.recv(100) == b""
    assert server.add("alive", 1) == 1


def test_a_key_that_others_can_read_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(_tcp.Path, "home", lambda: tmp_path)
    monkeypatch.setattr(_tcp.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    first = _tcp._own_key()
    path = tmp_path / ".cache" / "flambeau" / "store_key"
    assert _tcp._own_key() == first and path.stat().st_mode & 0o777 == 0o600 and len(first) == 32
    path.chmod(0o644)
    assert _tcp._own_key() != first  # the next folder is taken
    assert not [name for name in os.listdir(path.parent) if name != "store_key"]


def test_a_port_in_use_is_told(server):
    with pytest.raises(dist.DistNetworkError, match=f"cannot listen at localhost:{server.port}.*MASTER_PORT"):
        dist.TCPStore("localhost", server.port, is_master=True)


def test_nobody_there_is_told():
    with pytest.raises(dist.DistNetworkError, match=r"nobody answers at localhost:1 "):
        dist.TCPStore("localhost", 1, timeout=timedelta(seconds=0.2))
