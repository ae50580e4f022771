"""TCPStore: one process keeps the table and answers the others, which must know the same secret key.

Both sides prove that they know it (HMAC of both sides' random numbers) before anything else is read. What is exchanged
are lists of bytes: nothing is unpickled.
"""

import hashlib
import hmac
import ipaddress
import os
import selectors
import socket
import struct
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path

from .._shown import shown
from ._errors import DistNetworkError, DistStoreError, QueueEmptyError
from ._stores import Store, packed, seconds_of, unpacked, waited
from ._table import REQUESTS, Table

KEY_VARIABLE = "FLAMBEAU_STORE_KEY"  # the launcher sets it; the same on all hosts
_HELLO = b"flambeau store 1"
_PROOF = 32
_MOST = 1 << 26  # bytes of one request
_PATIENCE = 10.0  # seconds for a client to prove that it knows the key
_RETRY = 0.05  # seconds between two attempts to connect


# --- the key ----------------------------------------------------------------------------------------------------------

def secret():
    """The key that processes of one run share: what the launcher chose, or this user's own."""
    chosen = os.environ.get(KEY_VARIABLE)
    return hashlib.sha256(chosen.encode()).digest() if chosen else _own_key()


def _own_key():
    """Of this user: in a file that nobody else can read, made when it is first needed."""
    for folder in (Path.home() / ".cache" / "flambeau", Path(tempfile.gettempdir()) / f"flambeau-{os.getuid()}"):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return _key_in(folder)
        except OSError:
            continue
    raise DistNetworkError(f"TCPStore: no folder to keep this user's key in; set {KEY_VARIABLE} to the same secret "
                           "text for all processes")


def _key_in(folder):
    path = folder / "store_key"
    if not path.exists():
        handle, made = tempfile.mkstemp(dir=folder)  # with mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(os.urandom(32))
            os.link(made, path)  # the first of several processes wins
        except FileExistsError:
            pass
        finally:
            os.unlink(made)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        state, key = os.fstat(descriptor), file.read()
    if state.st_uid != os.geteuid() or state.st_mode & 0o077 or len(key) != 32:
        raise PermissionError(f"{path} can be read by others, or is no key")
    return key


def _proof(key, side, server_number, client_number):
    return hmac.new(key, _HELLO + side + server_number + client_number, hashlib.sha256).digest()


# --- the process that keeps the table ---------------------------------------------------------------------------------

class _Client:
    """One connection, as the server sees it."""

    def __init__(self, connection):
        self.connection, self.number, self.buffer = connection, os.urandom(_PROOF), bytearray()
        self.trusted, self.since = False, time.monotonic()
        self.waiting = None  # (request, end)


class Server:
    """Answers requests until its process ends; `port` says where."""

    def __init__(self, host, port, descriptor=None):
        self._key = secret()
        self._socket = socket.socket(fileno=descriptor) if descriptor is not None else _listening(host, port)
        self._socket.setblocking(False)
        self.port = self._socket.getsockname()[1]
        self._table, self._clients, self._ready = Table(), set(), selectors.DefaultSelector()
        self._ready.register(self._socket, selectors.EVENT_READ)
        self._wake, inner = socket.socketpair()
        self._ready.register(inner, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, args=(inner,), name="flambeau-store", daemon=True)
        self._thread.start()

    def close(self):
        """Ends it: its clients get errors from now on."""
        self._wake.close()
        self._thread.join(5)

    def _serve(self, wake):
        while True:
            for key, _ in self._ready.select(self._next_end()):
                if key.fileobj is wake:
                    return self._end(wake)
                if key.fileobj is self._socket:
                    self._accept()
                else:
                    self._hear(key.data)
            self._look_at_time()

    def _end(self, wake):
        for client in list(self._clients):
            self._drop(client)
        self._ready.close()
        wake.close()
        self._socket.close()

    def _next_end(self):
        ends = [client.waiting[1] for client in self._clients if client.waiting]
        ends += [client.since + _PATIENCE for client in self._clients if not client.trusted]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _accept(self):
        try:
            connection, _ = self._socket.accept()
        except OSError:
            return
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(_PATIENCE)
        client = _Client(connection)
        self._clients.add(client)
        self._ready.register(connection, selectors.EVENT_READ, client)
        self._send(client, client.number)

    def _send(self, client, content):
        try:
            client.connection.sendall(content)
        except OSError:
            self._drop(client)

    def _drop(self, client):
        if client in self._clients:
            self._clients.discard(client)
            self._ready.unregister(client.connection)
            client.connection.close()

    def _hear(self, client):
        try:
            content = client.connection.recv(1 << 16)
        except OSError:
            content = b""
        if not content:
            return self._drop(client)
        client.buffer += content
        if not client.trusted and not self._trusts(client):
            return None
        while client in self._clients and len(client.buffer) >= 4:
            size, = struct.unpack_from("!I", client.buffer)
            if size > _MOST:
                return self._drop(client)
            if len(client.buffer) < 4 + size:
                return None
            body = bytes(client.buffer[4:4 + size])
            del client.buffer[:4 + size]
            self._take(client, body)
        return None

    def _trusts(self, client):
        """Whether the client has proved that it knows the key; one that sends anything else is dropped."""
        if len(client.buffer) < 2 * _PROOF:
            return False
        theirs, proof = bytes(client.buffer[:_PROOF]), bytes(client.buffer[_PROOF:2 * _PROOF])
        del client.buffer[:2 * _PROOF]
        if not hmac.compare_digest(proof, _proof(self._key, b"client", client.number, theirs)):
            self._drop(client)
            return False
        client.trusted = True
        self._send(client, _proof(self._key, b"server", client.number, theirs))
        return True

    def _take(self, client, body):
        try:
            seconds, *request = unpacked(body)
            if not request or request[0] not in REQUESTS:
                raise DistStoreError("there is no such request")
            client.waiting = (request, time.monotonic() + float(seconds))
        except (ValueError, DistStoreError):
            return self._drop(client)
        answer = self._answer(client)
        for other in list(self._clients):  # what has changed may be what another one waits for
            if other.waiting:
                self._try(other)
        if answer is not None:  # the last to be told: it may be this process, which may end then
            self._send(client, packed(answer))
        return None

    def _try(self, client):
        answer = self._answer(client)
        if answer is not None:
            self._send(client, packed(answer))

    def _answer(self, client):
        """The answer to what a client waits for; None while there is none."""
        request, end = client.waiting
        try:
            answer = self._table.answer(request)
            answer = None if answer is None else [b"ok", *answer]
        except QueueEmptyError as error:
            answer = [b"empty", str(error).encode()]
        except (TypeError, ValueError) as error:
            answer = [b"error", str(error).encode()]
        if answer is None and time.monotonic() >= end:
            answer = [b"timeout"]
        if answer is not None:
            client.waiting = None
        return answer

    def _look_at_time(self):
        now = time.monotonic()
        for client in list(self._clients):
            if client.waiting and now >= client.waiting[1]:
                self._try(client)
            if not client.trusted and now >= client.since + _PATIENCE:
                self._drop(client)


def _listening(host, port):
    """A socket that listens at the address of `host` only; all of them where that is none of this machine's."""
    error = None
    for address in (host, ""):
        try:
            family = socket.getaddrinfo(address or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
            return socket.create_server(family[4][:2], family=family[0], backlog=1024)
        except OSError as failed:
            error = failed
            if _is_loopback(host) or "in use" in str(failed):
                break
    raise DistNetworkError(f"TCPStore: cannot listen at {host}:{port}: {error.strerror or error}; is the port in use? "
                           "Choose another MASTER_PORT")


def _is_loopback(host):
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# --- the others -------------------------------------------------------------------------------------------------------

class TCPStore(Store):
    """A store that the process with is_master=True keeps and the others reach over TCP.

    It listens at the address of `host_name` alone: localhost, unless another one is given. Only processes with the same
    key are let in: the text in FLAMBEAU_STORE_KEY, which the launcher sets, or this user's own key in
    ~/.cache/flambeau/store_key.
    """

    libuvBackend = False

    def __init__(self, host_name, port, world_size=None, is_master=False, timeout=timedelta(seconds=300),
                 wait_for_workers=True, multi_tenant=False, master_listen_fd=None, use_libuv=True):
        super().__init__()
        self.set_timeout(timeout)
        self.host, self._server, self._lock = host_name, None, threading.Lock()
        if is_master:
            self._server = _shared_server(host_name, port, multi_tenant, master_listen_fd)
            port = self._server.port
        self.port = port
        self._connection = self._connected()
        if world_size is not None and world_size > 0 and wait_for_workers:
            self._wait_for(world_size)

    def _wait_for(self, world_size):
        if self.add("flambeau/connected", 1) >= world_size:
            self.set("flambeau/complete", "1")
        if self._server is not None:
            self.wait(["flambeau/complete"])

    def _connected(self):
        end, error = time.monotonic() + self.timeout.total_seconds(), None
        while True:
            try:
                connection = socket.create_connection((self.host, self.port), _PATIENCE)
                break
            except OSError as failed:
                error = failed
            if time.monotonic() + _RETRY > end:
                raise DistNetworkError(f"TCPStore: nobody answers at {self.host}:{self.port} ({error}); rank 0 keeps "
                                       f"the store there: has it started?")
            time.sleep(_RETRY)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._introduce(connection)
        return connection

    def _introduce(self, connection):
        key, mine = secret(), os.urandom(_PROOF)
        try:
            theirs = _received(connection, _PROOF)
            connection.sendall(mine + _proof(key, b"client", theirs, mine))
            proof = _received(connection, _PROOF)
        except OSError:
            proof = b""
        if not hmac.compare_digest(proof, _proof(key, b"server", theirs if proof else b"", mine)):
            connection.close()
            raise DistNetworkError(f"TCPStore: {self.host}:{self.port} has another key, or is no store of Flambeau's; "
                                   f"set {KEY_VARIABLE} to the same secret text for all processes")

    def _ask(self, request, seconds):
        with self._lock:
            try:
                self._connection.settimeout(seconds + _PATIENCE)
                self._connection.sendall(packed([b"%f" % seconds, *request]))
                size, = struct.unpack("!I", _received(self._connection, 4))
                state, *answer = unpacked(_received(self._connection, size))
            except OSError as error:
                raise DistNetworkError(f"TCPStore: the process that keeps the store at {self.host}:{self.port} has "
                                       f"ended, or cannot be reached ({error or type(error).__name__})") from None
        if state == b"timeout":
            raise waited(request, seconds)
        if state != b"ok":
            raise {b"empty": QueueEmptyError}.get(state, DistStoreError)(answer[0].decode())
        return answer

    def clone(self):
        """Another connection to the same store, for use in another thread."""
        return TCPStore(self.host, self.port, timeout=self.timeout)

    def close(self):
        """Ends the connection, and the server where this process keeps the store."""
        self._connection.close()
        if self._server is not None:
            _servers.pop(self._server.port, None)
            self._server.close()
            self._server = None

    def __del__(self):
        if getattr(self, "_connection", None) is not None:
            self._connection.close()

    def __repr__(self):
        return f"TCPStore(host={shown(self.host)}, port={self.port}, master={self._server is not None})"


_servers = {}  # port -> the server of this process there


def _shared_server(host, port, multi_tenant, descriptor):
    if multi_tenant and port in _servers:
        return _servers[port]
    made = Server(host, port, descriptor)
    _servers[made.port] = made
    return made


def _received(connection, size):
    content = bytearray()
    while len(content) < size:
        more = connection.recv(size - len(content))
        if not more:
            raise ConnectionError("the connection was closed")
        content += more
    return bytes(content)


def timeout_of(timeout, default, name):
    """A timedelta for `timeout`, which may be None, a timedelta or seconds."""
    return default if timeout is None else timedelta(seconds=seconds_of(timeout, name))
