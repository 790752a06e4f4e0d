"""A PostgreSQL server in a folder of an emulated disk, and pgbench against it: what scripts share that measure it.

The server is the newest that Debian's packages have below /usr/lib/postgresql, runs as the user postgres, and listens on a Unix socket in /tmp
alone. Only root can start it so.
"""

import glob
import math
import os
import tempfile

from emulated import run

# The log of what pgbench changes in a round fits many times over.
SETTINGS = {
    "listen_addresses": "''",
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
    "min_wal_size": "256MB",
    "checkpoint_timeout": "30s",
    "track_wal_io_timing": "on",
    "wal_recycle": "on",
}


def programs():
    """The folder of PostgreSQL's programs; none if it is not installed."""
    found = glob.glob("/usr/lib/postgresql/*/bin")
    return max(found, key=lambda path: int(path.split("/")[-2])) if found else None


class Server:
    """A server whose data are in `data`."""

    def __init__(self, port, data):
        self.port, self.data, self.bin = port, data, programs()
        self.is_running = False

    def begin(self, scale, *initdb):
        """Makes an empty server and pgbench's tables, 15 MB for each of `scale`."""
        run("install", "-d", "-o", "postgres", self.data)
        self.postgres(" ".join([f"{self.bin}/initdb -N -D {self.data}", *initdb]))
        with open(f"{self.data}/postgresql.conf", "a") as settings:
            settings.writelines(f"{key} = {value}\n" for key, value in SETTINGS.items())
        self.start()
        self.postgres(f"{self.bin}/pgbench -q -i -I dtGvp -s {scale} -h /tmp -p {self.port} postgres 2>/dev/null")

    def start(self):
        self.postgres(f"{self.bin}/pg_ctl -D {self.data} -w -t 300 -o '-p {self.port} -k /tmp' -l {self.data}/server start > /dev/null")
        self.is_running = True

    def postgres(self, command):
        return run("su", "postgres", "-c", command, cwd="/", timeout=1800)

    def query(self, text):
        return self.postgres(f"{self.bin}/psql -qAt -F ' ' -h /tmp -p {self.port} postgres -c \"{text}\"").split()

    def lay_out_log(self, segments):
        """Fills segments of the log, 16 MB each: from here on they are written over, and none is made while something is measured."""
        for _ in range(segments):
            self.query("select pg_logical_emit_message(false, 'a', 'b'); select pg_switch_wal()")

    def commits(self):
        """Transactions of pgbench that are there."""
        return int(self.query("select count(*) from pgbench_history")[0])

    def pgbench(self, clients, seconds, rate=None):
        """How long each transaction took that was answered, in ms, the shortest first: as many as there can be in `seconds`, or as many as come in them
        at `rate` a second, each from when it was due."""
        much = f"-R {rate} -t {math.ceil(rate * seconds / clients)}" if rate else f"-T {seconds}"
        with tempfile.TemporaryDirectory(prefix="nearhead-pgbench-") as told:
            os.chmod(told, 0o777)
            self.postgres(f"cd {told} && {self.bin}/pgbench -n -c {clients} -j 1 {much} -l -h /tmp -p {self.port} postgres 2>/dev/null")
            times = []
            for part in glob.glob(f"{told}/pgbench_log.*"):
                with open(part) as lines:
                    times.extend(int(line.split()[2]) / 1e3 for line in lines)
        return sorted(times)

    def end(self, mode="fast"):
        if self.is_running:
            self.is_running = False
            self.postgres(f"{self.bin}/pg_ctl -D {self.data} -w -t 300 -m {mode} stop > /dev/null")
