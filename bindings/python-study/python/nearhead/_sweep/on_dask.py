"""Workers of a Dask cluster that runs already.

Dask finds workers for tasks, and gives tasks of a dead one to another. Traces are scattered: the scheduler knows where they are, and each worker gets each
once. Workers may come and go.

Dask gives a task up that was on a worker which died, `allowed-failures` times, also if it only waited there for the one that was at fault. Such a task is
tried once more, alone: then it is known.
"""

from __future__ import annotations

import asyncio
import importlib
import pydoc
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Optional, Union

from .._native import Error
from . import worker
from .engines import ANSWER_S, NOBODY_S, TRIES_MAX, Outcome, imported
from .parcels import Parcels

#: How often it is looked how many workers there are.
_LOOK_S = 1.0


class OnDask:
    """The cluster of one scheduler."""

    def __init__(self, address: str, parcels: Parcels, ours: tuple[str, str]) -> None:
        self._distributed = imported("distributed", "dask[distributed]")
        self._address = address
        self._parcels = parcels
        self._ours = ours
        self._scattered: dict[str, Any] = {}
        self._messages: dict[int, dict[str, Any]] = {}
        self._tries: dict[int, int] = {}
        self._futures: dict[Any, int] = {}
        #: Tasks that are to be tried alone, and the one that is.
        self._suspects: list[int] = []
        self._alone: Optional[int] = None
        self._sweep = uuid.uuid4().hex
        #: Workers that were asked for their version.
        self._checked: set[str] = set()
        self._looked_at = self._last_seen = time.monotonic()
        self._slots = 0
        try:
            _greet(f"tcp://{address}")
            self._client = self._distributed.Client(f"tcp://{address}", timeout=f"{ANSWER_S}s", set_as_default=False)
        except (OSError, ValueError, asyncio.TimeoutError) as error:
            what = str(error) or f"no answer within {ANSWER_S:.0f} s"
            raise Error(f"workers dask://{address}: expected a scheduler of Dask there, found something else: {what}") from None
        try:
            self._look()
        except BaseException:
            self.close()
            raise

    def _check_versions(self, addresses: list[str]) -> None:
        """Asks workers with words that need no nearhead to be understood."""
        found = self._client.run(pydoc.locate, "nearhead.__version__", workers=addresses, on_error="ignore")
        for address, version in found.items():
            if version != self._ours[0]:
                raise Error(worker.refusal(address, self._ours, (version, None)))
        self._checked.update(found)

    def _look(self) -> None:
        threads = self._client.nthreads()
        if strangers := [address for address in threads if address not in self._checked]:
            self._check_versions(strangers)
        # Beside the task that a thread works on there is one that it begins next.
        self._slots = 2 * sum(threads.values())
        self._looked_at = time.monotonic()
        if self._slots:
            self._last_seen = self._looked_at

    def slots(self) -> int:
        """Two tasks for each thread of a worker that is there."""
        self._check_scheduler()
        if time.monotonic() - self._looked_at >= _LOOK_S or not self._slots:
            self._look()
        if self._slots == 0 and time.monotonic() - self._last_seen > NOBODY_S:
            raise Error(f"workers dask://{self._address}: expected a worker within {NOBODY_S:.0f} s, found none; the scheduler is there")
        return 0 if self._suspects or self._alone is not None else self._slots

    def _check_scheduler(self) -> None:
        if self._client.status != "running":
            raise Error(f"workers dask://{self._address}: expected the scheduler to answer, found it {self._client.status}; what is done is kept: begin again")

    def submit(self, number: int, message: dict[str, Any], resend: bool = False) -> None:
        """Gives it to the scheduler."""
        self._messages[number] = message
        tries = self._tries.setdefault(number, 0)
        carried = [self._carried(key) for key in message["task"].parcels]
        key = f"nearhead-{self._sweep}-{number}-{tries}"
        future = self._client.submit(worker.run, message, *carried, key=key, pure=False)
        self._futures[future] = number

    def _carried(self, key: str) -> Any:
        if key not in self._scattered:
            parcel = self._parcels.pack(key, is_here=False)
            self._scattered[key] = self._client.scatter(parcel, broadcast=True, hash=False)
        return self._scattered[key]

    def wait(self, timeout_s: float) -> list[Outcome]:
        """What came of tasks."""
        if self._suspects and not self._futures:
            self._alone = self._suspects.pop(0)
            self._tries[self._alone] += 1
            self.submit(self._alone, self._messages[self._alone])
        if not self._futures:
            time.sleep(timeout_s)
            return []
        try:
            with self._client.as_current():
                self._distributed.wait(list(self._futures), timeout=timeout_s, return_when="FIRST_COMPLETED")
        except TimeoutError:
            pass
        except (self._distributed.CancelledError, OSError):
            self._check_scheduler()
        return [outcome for future in list(self._futures) if future.status != "pending" for outcome in self._ended(future)]

    def _ended(self, future: Any) -> list[Outcome]:
        """What came of a task, if it is not tried again."""
        number = self._futures.pop(future)
        if future.status == "finished":
            told: Union[dict[str, Any], str] = future.result()
        elif future.status == "error":
            error = future.exception()
            if isinstance(error, self._distributed.KilledWorker) and number != self._alone:
                self._suspects.append(number)
                return []
            told = self._told(error)
        else:
            self._check_scheduler()
            self._tries[number] += 1
            if self._tries[number] < TRIES_MAX:
                # The workers that had its traces are gone.
                self._scattered.clear()
                self.submit(number, self._messages[number])
                return []
            told = f"worker: expected it to live through the experiment, found the task {future.status} {TRIES_MAX} times"
        if number == self._alone:
            self._alone = None
        del self._tries[number], self._messages[number]
        return [(number, told)]

    def _told(self, error: BaseException) -> str:
        if isinstance(error, self._distributed.KilledWorker):
            return f"worker: expected it to live through the experiment, found that several died with it, the last one {error.last_worker.address}"
        if isinstance(error, ImportError) and "nearhead" in str(error):
            raise Error(worker.refusal(f"of dask://{self._address}", self._ours, (None, None)))
        return f"{type(error).__name__}: {error}"

    def close(self) -> None:
        """Takes back what is under way. The cluster stays."""
        try:
            self._client.cancel(list(self._futures), force=True)
            self._scattered.clear()
        except Exception:  # noqa: BLE001 - the scheduler may be gone
            pass
        self._client.close(timeout=ANSWER_S)


def _greet(address: str) -> None:
    """Says a word to the scheduler: a client by itself would say it again and again for a minute or more where something else listens."""
    connect = importlib.import_module("distributed.comm").connect

    async def greet() -> None:
        comm = await connect(address, timeout=ANSWER_S)
        await comm.write({"op": "identity"})
        await comm.read()
        comm.abort()

    # A notebook has a loop of its own in this thread.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, asyncio.wait_for(greet(), ANSWER_S)).result()
