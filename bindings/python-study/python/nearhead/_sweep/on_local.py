"""Workers that are processes of this machine, begun for one sweep.

Each is an executor of the standard library with a single process, so that one that dies takes no task of another with it, and it is known which task it
was. A worker ends with the process that began it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Optional

from .._native import Error
from . import worker
from .engines import TRIES_MAX, Outcome
from .parcels import Parcels

_GUARD = (
    "sweep: expected workers to start, found that one ended at once; a program that sweeps must do so below `if __name__ == \"__main__\":`, as each worker "
    "reads the program first"
)


def _begin() -> None:
    """Before its first task: Ctrl-C is for who began it, and with that one it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


class _Worker:
    def __init__(self) -> None:
        self.executor = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin)
        self.pid: Future[int] = self.executor.submit(os.getpid)
        #: Traces that it was given.
        self.has: set[str] = set()
        self.number: Optional[int] = None

    def end(self) -> None:
        if self.pid.done() and self.pid.exception() is None:
            try:
                os.kill(self.pid.result(), signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.executor.shutdown(wait=True, cancel_futures=True)


class OnLocal:
    """So many processes."""

    def __init__(self, count: int, parcels: Parcels) -> None:
        if getattr(multiprocessing.process.current_process(), "_inheriting", False):
            raise Error(_GUARD)
        self._parcels = parcels
        self._workers = [_Worker() for _ in range(count)]
        self._messages: dict[int, dict[str, Any]] = {}
        self._tries: dict[int, int] = {}
        self._futures: dict[Future[dict[str, Any]], _Worker] = {}
        try:
            for one in self._workers:
                one.pid.result()
        except BrokenProcessPool:
            self.close()
            raise Error(_GUARD) from None
        except BaseException:
            self.close()
            raise

    def slots(self) -> int:
        """One task for each."""
        return len(self._workers)

    def submit(self, number: int, message: dict[str, Any], resend: bool = False) -> None:
        """Gives it to a worker that has none."""
        idle = next(one for one in self._workers if one.number is None)
        if resend:
            idle.has.clear()
        self._messages[number] = message
        keys = message["task"].parcels
        carried = [None if key in idle.has else self._parcels.pack(key, is_here=True) for key in keys]
        idle.has.update(keys)
        idle.number = number
        try:
            self._futures[idle.executor.submit(worker.run, message, *carried)] = idle
        except BrokenProcessPool:
            # It died while it had nothing to do.
            idle.number = None
            self._replace(idle)
            self.submit(number, message)

    def wait(self, timeout_s: float) -> list[Outcome]:
        """What came of tasks."""
        done, _ = wait(self._futures, timeout_s, FIRST_COMPLETED)
        outcomes: list[Outcome] = []
        for future in done:
            ended = self._futures.pop(future)
            number, ended.number = ended.number, None
            assert number is not None
            try:
                outcomes.append((number, future.result()))
                self._tries.pop(number, None)
            except BrokenProcessPool:
                self._replace(ended)
                self._tries[number] = self._tries.get(number, 0) + 1
                if self._tries[number] < TRIES_MAX:
                    self.submit(number, self._messages[number])
                    continue
                outcomes.append((number, f"worker: expected it to live through the experiment, found that {TRIES_MAX} died with it"))
            except Exception as error:
                outcomes.append((number, f"{type(error).__name__}: {error}"))
            self._messages.pop(number, None)
        return outcomes

    def _replace(self, dead: _Worker) -> None:
        dead.executor.shutdown(wait=True)
        self._workers[self._workers.index(dead)] = _Worker()

    def close(self) -> None:
        """Ends all workers."""
        for one in self._workers:
            one.end()
