"""Writes through the binding, is killed, reads: everything that was acknowledged is there.

Run by `cargo test -p nearhead-wal-c`, or by hand: python3 check.py
"""

import os
import signal
import subprocess
import sys
import tempfile

from nearhead_wal import Code, Log, Mode, Stream, WalError


def record(number):
    return b"%d:" % number * (number * 37 % 300 + 1)


def write(kind, path):
    """What is killed."""
    if kind == "stream":
        with Stream(path, "w", mode=Mode.CALLER, ahead_bytes=1 << 20) as stream:
            for number in range(1, 100_000):
                stream.write(record(number))
                print(number, stream.sync(), flush=True)
    with Log(path, segment_bytes=1 << 18, record_bytes_max=4096) as log:
        following = log.bounds()[1]
        for number in range(following, 100_000):
            print(log.append(record(number), durable=True), 0, flush=True)


def killed(kind, path, most):
    command = [sys.executable, __file__, kind, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        said = [child.stdout.readline() for _ in range(most)]
        child.send_signal(signal.SIGKILL)
        said += [line for line in child.stdout if line.endswith("\n")]
    return tuple(map(int, said[-1].split()))


def check_killed(place):
    path = os.path.join(place, "stream")
    number, durable = killed("stream", path, 40)
    expected = b"".join(map(record, range(1, number + 1)))
    with open(path, "rb") as file:
        assert file.read()[:durable] == expected and len(expected) == durable
    path = os.path.join(place, "log")
    for most in (10, 30):
        number, _ = killed("log", path, most)
        with Log(path, must_exist=True, record_bytes_max=4096) as log:
            found = log.records()
            assert [lsn for lsn, _ in found] == list(range(1, len(found) + 1))
            assert all(content == record(lsn) for lsn, content in found)
            assert len(found) >= number, (len(found), number)
            assert log.records(5, at_most=2) == found[4:6]


def check_use(place):
    path = os.path.join(place, "used")
    with Stream(path, "x") as stream:
        assert stream.choice.count("\n") == 0 and "scheduler" in stream.choice
        stream.write(b"0123456789")
        assert stream.position() == (10, 0) and stream.sync() == 10
        assert stream.read(3, 100) == b"3456789"
        stream.truncate(4)
        try:
            Stream(path, "a")
            raise AssertionError("a second writer got in")
        except WalError as error:
            assert error.code == Code.IN_USE and path in str(error)
    with open(path, "rb") as file:
        assert file.read() == b"0123"
    assert stream.closed and stream.close() is None
    try:
        stream.write(b"x")
        raise AssertionError("a closed stream was written")
    except WalError as error:
        assert error.code == Code.OUT_OF_RANGE
    for how, code in (("x", Code.ALREADY_EXISTS), (5, Code.OUT_OF_RANGE)):
        try:
            Stream(path, how)
            raise AssertionError(how)
        except WalError as error:
            assert error.code == code, error


if __name__ == "__main__":
    if len(sys.argv) == 3:
        write(*sys.argv[1:])
    else:
        with tempfile.TemporaryDirectory() as directory:
            check_killed(directory)
            check_use(directory)
        print("ok")
