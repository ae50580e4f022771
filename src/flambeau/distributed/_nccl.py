"""NVIDIA's library for exchange between GPUs, libnccl.so.2, as a table of its functions.

It comes with the packages nvidia-nccl-cu13 and nvidia-nccl-cu12, which are optional, and is opened when a group for
GPUs is made. Communicators are made in its mode without blocking, so that time limits hold everywhere.
"""

import ctypes
import threading
import time
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_void_p

from .._libraries import NCCL_PACKAGES, in_packages
from ._errors import DistBackendError

_FILE = r"libnccl\.so\.2"
MISSING = (f'backend "nccl" needs NVIDIA\'s library for exchange between GPUs: pip install {NCCL_PACKAGES[0]} (or '
           f'{NCCL_PACKAGES[1]} for CUDA 12); backend="gloo" exchanges tensors on the CPU')
_SUCCESS, _IN_PROGRESS = 0, 7
_PAUSE = 2e-4  # seconds between two looks at a call that goes on
_MAGIC, _CONFIG_VERSION = 0xCAFEBEEF, 21400  # of the first release with this configuration


class UniqueId(ctypes.Structure):
    """What rank 0 gives to the others: they meet by it."""

    _fields_ = [("content", ctypes.c_char * 128)]


class _Config(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("magic", c_uint), ("version", c_uint), ("blocking", c_int)]


_SIGNATURES = {
    "ncclGetVersion": (c_void_p,),
    "ncclGetUniqueId": (c_void_p,),
    "ncclCommInitRankConfig": (c_void_p, c_int, UniqueId, c_int, c_void_p),
    "ncclCommFinalize": (c_void_p,),
    "ncclCommDestroy": (c_void_p,),
    "ncclCommAbort": (c_void_p,),
    "ncclCommGetAsyncError": (c_void_p, c_void_p),
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
    "ncclAllReduce": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
    "ncclReduce": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, c_void_p),
    "ncclBroadcast": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
    "ncclAllGather": (c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p),
    "ncclReduceScatter": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
    "ncclSend": (c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
    "ncclRecv": (c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
}


def find():
    """The path of the library in the environment's packages, or None."""
    return next(in_packages(NCCL_PACKAGES, _FILE), None)


def library():
    """The opened library; RuntimeError where there is none."""
    path = find()
    if path is None:
        raise RuntimeError(MISSING)
    return Library(path)


class Library:
    """The functions of one libnccl; a failed one raises DistBackendError with the library's own words."""

    def __init__(self, path):
        self._lib = ctypes.CDLL(path)
        for name, arguments in _SIGNATURES.items():
            function = getattr(self._lib, name, None)
            if function is None:
                raise RuntimeError(f"{path} has no function {name}; NCCL 2.14 or newer is needed: pip install "
                                   f"--upgrade {NCCL_PACKAGES[0]}")
            function.argtypes, function.restype = arguments, c_int
        self._lib.ncclGetErrorString.argtypes, self._lib.ncclGetErrorString.restype = (c_int,), c_char_p
        self._lib.ncclGetLastError.argtypes, self._lib.ncclGetLastError.restype = (c_void_p,), c_char_p

    def version(self):
        """(major, minor, patch)."""
        number = c_int()
        self._ask("ncclGetVersion", byref(number))
        return number.value // 10000, number.value // 100 % 100, number.value % 100

    def unique_id(self):
        """The bytes of a new meeting point."""
        made = UniqueId()
        self._ask("ncclGetUniqueId", byref(made))
        return bytes(made)

    def _ask(self, name, *args):
        code = getattr(self._lib, name)(*args)
        if code not in (_SUCCESS, _IN_PROGRESS):
            raise DistBackendError(f"NCCL: {name} failed: {self.words(code)}")
        return code

    def words(self, code, communicator=None):
        """What the library says about an error."""
        last = self._lib.ncclGetLastError(communicator)
        text = (self._lib.ncclGetErrorString(code) or b"").decode(errors="replace")
        return text + (f" ({last.decode(errors='replace').strip()})" if last else "")


class Communicator:
    """The ranks of a group on their GPUs. Calls are put on a stream and return at once."""

    def __init__(self, library, size, unique_id, rank, timeout):
        self._nccl, self._handle, self._turn = library, c_void_p(), threading.RLock()
        self._deep, self._ended = 0, None  # why it has ended
        config = _Config(ctypes.sizeof(_Config), _MAGIC, _CONFIG_VERSION, 0)
        meeting = UniqueId.from_buffer_copy(unique_id)
        library._ask("ncclCommInitRankConfig", byref(self._handle), size, meeting, rank, byref(config))
        try:
            self._settle("ncclCommInitRankConfig", timeout)
        except DistBackendError as error:
            text = f"the ranks have not met on their GPUs: {error}"
            self.abort(text)
            raise DistBackendError(text) from None

    def _settle(self, name, timeout):
        """Waits until a call that goes on has been taken in."""
        end = time.monotonic() + timeout
        while (code := self.state()) == _IN_PROGRESS:
            if time.monotonic() > end:
                raise DistBackendError(f"NCCL: {name} is not done after {timeout:g} seconds; not all ranks are here")
            time.sleep(_PAUSE)
        if code != _SUCCESS:
            raise DistBackendError(f"NCCL: {name} failed: {self._nccl.words(code, self._handle)}")

    def state(self):
        """The library's code for how the communicator is."""
        code = c_int()
        with self._turn:
            self._check()
            self._nccl._ask("ncclCommGetAsyncError", self._handle, byref(code))
        return code.value

    def trouble(self):
        """What has gone wrong on the way, in the library's words; None where nothing has."""
        code = self.state()
        return None if code in (_SUCCESS, _IN_PROGRESS) else self._nccl.words(code, self._handle)

    def put(self, name, *args, stream, timeout):
        """Puts a call on a stream; inside `together`, when that ends."""
        with self._turn:
            self._check()
            self._nccl._ask(name, *args, self._handle, stream)
        if not self._deep:
            self._settle(name, timeout)

    def _check(self):
        if self._ended is not None:
            raise DistBackendError(f"NCCL: the group's communicator has ended: {self._ended}")

    def begin(self):
        """Calls from now on are one."""
        self._nccl._ask("ncclGroupStart")
        self._deep += 1

    def end(self, timeout):
        """The calls since `begin` go on their way, all at once."""
        self._deep -= 1
        self._nccl._ask("ncclGroupEnd")
        if not self._deep:
            self._settle("ncclGroupEnd", timeout)

    def abort(self, why):
        """Ends it at once, with what is on its way. Another thread that is about to use it says why."""
        with self._turn:
            if self._ended is None:
                self._ended = why
                self._nccl._lib.ncclCommAbort(self._handle)

    def destroy(self, timeout):
        """Ends it when everything is done."""
        self._nccl._ask("ncclCommFinalize", self._handle)
        self._settle("ncclCommFinalize", timeout)
        with self._turn:
            if self._ended is None:
                self._ended = "it was destroyed"
                self._nccl._ask("ncclCommDestroy", self._handle)
