"""Durable streams and logs of records: a write-ahead log with the latency of a disk of its own.

What `sync`, `append(durable=True)`, `truncate` and `close` have returned for survives a power cut. Any
number of threads may use one object. A child of fork must open its own: what its parent opened refuses
every call there, and does nothing when the child exits.
"""

import ctypes
import enum
import os
import pathlib

__all__ = ["Code", "Log", "Mode", "Stream", "WalError"]
__version__ = "0.1.0"

_MESSAGE_BYTES = 512


class Code(enum.IntEnum):
    """What kind of failure it was, as in nearhead_wal.h."""

    NOT_FOUND = 1
    ALREADY_EXISTS = 2
    IN_USE = 3
    READ_ONLY = 4
    PERMISSION = 5
    NO_SPACE = 6
    FULL = 7
    WOULD_BLOCK = 8
    OUT_OF_RANGE = 9
    NOT_A_LOG = 10
    SEGMENT_MISSING = 11
    CORRUPT = 12
    TRUNCATED = 13
    IO = 14
    STOPPED = 15
    INTERNAL = 100


class Mode(enum.IntEnum):
    """Who makes the writes."""

    THREAD = 0
    REQUEST = 1
    CALLER = 2
    PROCESS = 3


class WalError(OSError):
    """A failure: `code` for programs, the text for people."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = Code(code)


class _Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char * _MESSAGE_BYTES)]


class _StreamOptions(ctypes.Structure):
    _fields_ = [
        ("mode", ctypes.c_uint32),
        ("permissions", ctypes.c_uint32),
        ("ahead_bytes", ctypes.c_uint64),
        ("buffer_bytes", ctypes.c_uint64),
    ]


class _LogOptions(ctypes.Structure):
    _fields_ = [
        ("mode", ctypes.c_uint32),
        ("must_exist", ctypes.c_uint32),
        ("segment_bytes", ctypes.c_uint32),
        ("record_bytes_max", ctypes.c_uint32),
        ("segments_max", ctypes.c_uint32),
    ]


_RecordFunction = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p
)

_u32, _u64, _size = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t
_pointer, _path = ctypes.c_void_p, ctypes.c_char_p
_to = ctypes.POINTER

# Name and arguments of each function, but for the error that is always the last.
_FUNCTIONS = {
    "stream_open": [_path, _u32, _u64, _to(_StreamOptions), _to(_pointer)],
    "stream_write": [_pointer, _path, _size],
    "stream_sync": [_pointer, _to(_u64)],
    "stream_position": [_pointer, _to(_u64), _to(_u64)],
    "stream_read": [_pointer, _u64, _pointer, _size, _to(_size)],
    "stream_truncate": [_pointer, _u64],
    "stream_choice": [_pointer, _to(_pointer)],
    "stream_close": [_pointer, _to(_u64)],
    "log_open": [_path, _to(_LogOptions), _to(_pointer)],
    "log_append": [_pointer, _path, _size, ctypes.c_int, _to(_u64)],
    "log_sync": [_pointer, _to(_u64)],
    "log_bounds": [_pointer, _to(_u64), _to(_u64), _to(_u64)],
    "log_read": [_pointer, _u64, _RecordFunction, _pointer],
    "log_truncate_prefix": [_pointer, _u64],
    "log_choice": [_pointer, _to(_pointer)],
    "log_close": [_pointer],
}


def _load():
    named = os.environ.get("NEARHEAD_WAL_LIBRARY")
    inside = pathlib.Path(__file__).with_name("libnearhead_wal.so")
    library = ctypes.CDLL(named or (str(inside) if inside.is_file() else "libnearhead_wal.so"))
    for name, arguments in _FUNCTIONS.items():
        function = getattr(library, "nearhead_" + name)
        function.argtypes = [*arguments, _to(_Error)]
        function.restype = ctypes.c_int
    library.nearhead_free_text.argtypes = [_pointer]
    library.nearhead_free_text.restype = None
    return library


_library = _load()


def _call(name, *arguments):
    error = _Error()
    if getattr(_library, "nearhead_" + name)(*arguments, ctypes.byref(error)) != 0:
        raise WalError(error.code, error.message.decode("utf-8", "replace"))


def _text(name, handle):
    line = _pointer()
    _call(name, handle, ctypes.byref(line))
    try:
        return ctypes.string_at(line).decode("utf-8", "replace")
    finally:
        _library.nearhead_free_text(line)


class _Handle:
    """Something of the library's, until it is closed."""

    def __init__(self):
        self._handle = _pointer()

    @property
    def closed(self):
        return not self._handle

    def _take(self):
        handle, self._handle = self._handle, _pointer()
        return handle

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        # Whoever wants to know the outcome calls close().
        try:
            if not self.closed:
                self.close()
        except Exception:  # noqa: BLE001 - nobody is left to tell
            pass


class Stream(_Handle):
    """A durable stream of bytes at the tail of a file.

    `how` is "x" (a new file), "w" (emptied), "a" (at the end, made if missing), "r+" (at the end of one that
    exists), or a number: at that position, what is behind it is cut off.
    """

    _AT = {"x": 0, "r+": 1, "w": 3, "a": 4}

    def __init__(self, path, how="a", *, mode=Mode.THREAD, permissions=0o666, ahead_bytes=0, buffer_bytes=0):
        super().__init__()
        if isinstance(how, int):
            at, position = 2, how
        elif how in self._AT:
            at, position = self._AT[how], 0
        else:
            raise ValueError(f"how: expected one of {sorted(self._AT)} or a position, found {how!r}")
        options = _StreamOptions(mode, permissions, ahead_bytes, buffer_bytes)
        _call(
            "stream_open",
            os.fsencode(path),
            at,
            position,
            ctypes.byref(options),
            ctypes.byref(self._handle),
        )

    def write(self, data):
        """Adds bytes; they are durable after the next sync. Returns how many."""
        data = bytes(data)
        _call("stream_write", self._handle, data, len(data))
        return len(data)

    def sync(self):
        """Makes everything written durable. Returns how many bytes from the start are."""
        durable = _u64()
        _call("stream_sync", self._handle, ctypes.byref(durable))
        return durable.value

    def position(self):
        """Where the next byte goes, and how many bytes from the start are durable."""
        position, durable = _u64(), _u64()
        _call("stream_position", self._handle, ctypes.byref(position), ctypes.byref(durable))
        return position.value, durable.value

    def read(self, offset, length):
        """Bytes of the stream, durable or not; fewer at its end."""
        memory, read = ctypes.create_string_buffer(length), _size()
        _call("stream_read", self._handle, offset, memory, length, ctypes.byref(read))
        return memory.raw[: read.value]

    def truncate(self, length):
        """Cuts it, durably."""
        _call("stream_truncate", self._handle, length)

    @property
    def choice(self):
        """Who writes, and what would be better, in one line."""
        return _text("stream_choice", self._handle)

    def close(self):
        """Makes everything durable and cuts the file to its exact length, which it returns."""
        if self.closed:
            return None
        length = _u64()
        _call("stream_close", self._take(), ctypes.byref(length))
        return length.value


class Log(_Handle):
    """A log of records with numbers, from 1 on, in a directory of its own."""

    def __init__(
        self, path, *, mode=Mode.THREAD, must_exist=False, segment_bytes=0, record_bytes_max=0, segments_max=0
    ):
        super().__init__()
        options = _LogOptions(mode, must_exist, segment_bytes, record_bytes_max, segments_max)
        _call("log_open", os.fsencode(path), ctypes.byref(options), ctypes.byref(self._handle))

    def append(self, record, *, durable=False):
        """Adds a record; with `durable` it is when this returns. Returns its number."""
        record, lsn = bytes(record), _u64()
        _call("log_append", self._handle, record, len(record), durable, ctypes.byref(lsn))
        return lsn.value

    def sync(self):
        """Makes all records durable. Returns the number that the next one gets."""
        following = _u64()
        _call("log_sync", self._handle, ctypes.byref(following))
        return following.value

    def bounds(self):
        """The first record there is, the next number, the first number that is not durable."""
        bounds = _u64(), _u64(), _u64()
        _call("log_bounds", self._handle, *map(ctypes.byref, bounds))
        return tuple(bound.value for bound in bounds)

    def records(self, first=None, *, at_most=None):
        """The durable records from `first` on, as a list of numbers and bytes."""
        found = []

        def take(lsn, record, length, _):
            found.append((lsn, ctypes.string_at(record, length) if length else b""))
            return int(at_most is not None and len(found) >= at_most)

        first = self.bounds()[0] if first is None else first
        _call("log_read", self._handle, first, _RecordFunction(take), None)
        return found

    def truncate_prefix(self, lsn):
        """Gives up everything before `lsn`, durably."""
        _call("log_truncate_prefix", self._handle, lsn)

    @property
    def choice(self):
        """Who writes, and what would be better, in one line."""
        return _text("log_choice", self._handle)

    def close(self):
        """Makes everything durable."""
        if not self.closed:
            _call("log_close", self._take())
