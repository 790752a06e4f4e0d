"""Workers of a Ray cluster that runs already, by its server for clients.

Ray finds workers for tasks, and gives tasks of a dead one to another. A trace is put to Ray's store once, and a worker that lacks it fetches it from there.
"""

from __future__ import annotations

import time
from typing import Any

from .._native import Error
from . import worker
from .engines import NOBODY_S, TRIES_MAX, Outcome, imported
from .parcels import Parcel, Parcels

_LOOK_S = 1.0


class Stored:
    """A trace in Ray's store."""

    def __init__(self, reference: Any) -> None:
        self._reference = reference

    def get(self) -> Parcel:
        """Fetches it, on a worker."""
        import ray

        parcel: Parcel = ray.get(self._reference)
        return parcel


class OnRay:
    """The cluster of one server for clients."""

    def __init__(self, address: str, parcels: Parcels, ours: tuple[str, str]) -> None:
        self._ray = imported("ray", "ray[client]")
        self._address = address
        self._parcels = parcels
        self._ours = ours
        self._stored: dict[str, Stored] = {}
        self._references: dict[Any, int] = {}
        self._looked_at = self._last_seen = time.monotonic()
        self._slots = 0
        if self._ray.is_initialized():
            raise Error("sweep: expected a process that is not connected to Ray, found a connection; call ray.shutdown() before")
        try:
            self._ray.init(f"ray://{address}", log_to_driver=False)
        except (ConnectionError, RuntimeError, ValueError, ImportError, TimeoutError) as error:
            self._ray.shutdown()
            raise Error(f"workers ray://{address}: expected a server for clients of Ray there, found something else: {error}") from None
        try:
            self._run = self._ray.remote(worker.run).options(num_cpus=1, max_retries=TRIES_MAX - 1, retry_exceptions=False)
            self._look()
            self._check_version()
        except BaseException:
            self.close()
            raise

    def _check_version(self) -> None:
        """Asks with words that need no nearhead to be understood."""
        import pydoc

        asked = self._ray.remote(pydoc.locate).options(num_cpus=1).remote("nearhead.__version__")
        try:
            version = self._ray.get(asked, timeout=NOBODY_S)
        except self._ray.exceptions.GetTimeoutError:
            raise Error(f"workers ray://{self._address}: expected a worker within {NOBODY_S:.0f} s, found none") from None
        if version != self._ours[0]:
            raise Error(worker.refusal(f"of ray://{self._address}", self._ours, (version, None)))

    def _look(self) -> None:
        # Beside the task that a processor works on there is one that it begins next.
        self._slots = 2 * int(self._ray.cluster_resources().get("CPU", 0))
        self._looked_at = time.monotonic()
        if self._slots:
            self._last_seen = self._looked_at

    def slots(self) -> int:
        """Two tasks for each processor that is there."""
        if time.monotonic() - self._looked_at >= _LOOK_S or not self._slots:
            try:
                self._look()
            except (ConnectionError, RuntimeError) as error:
                raise self._lost(error) from None
        if self._slots == 0 and time.monotonic() - self._last_seen > NOBODY_S:
            raise Error(f"workers ray://{self._address}: expected a worker within {NOBODY_S:.0f} s, found none; the server is there")
        return self._slots

    def _lost(self, error: BaseException) -> Error:
        return Error(f"workers ray://{self._address}: expected the server to answer, found: {error}; what is done is kept: begin again")

    def submit(self, number: int, message: dict[str, Any], resend: bool = False) -> None:
        """Gives it to the cluster."""
        try:
            for key in message["task"].parcels:
                if key not in self._stored:
                    self._stored[key] = Stored(self._ray.put(self._parcels.pack(key, is_here=False)))
            carried = [self._stored[key] for key in message["task"].parcels]
            self._references[self._run.remote(message, *carried)] = number
        except ConnectionError as error:
            raise self._lost(error) from None

    def wait(self, timeout_s: float) -> list[Outcome]:
        """What came of tasks."""
        if not self._references:
            time.sleep(timeout_s)
            return []
        try:
            done, _ = self._ray.wait(list(self._references), num_returns=1, timeout=timeout_s)
            return [(self._references.pop(reference), self._outcome(reference)) for reference in done]
        except ConnectionError as error:
            raise self._lost(error) from None

    def _outcome(self, reference: Any) -> Any:
        exceptions = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except exceptions.RayError as error:
            died = (exceptions.WorkerCrashedError, exceptions.NodeDiedError, exceptions.OutOfMemoryError, exceptions.ObjectLostError)
            if isinstance(error, died):
                return f"worker: expected it to live through the experiment, found that {TRIES_MAX} died with it: {_first_line(error)}"
            if "No module named 'nearhead" in str(error):
                raise Error(worker.refusal(f"of ray://{self._address}", self._ours, (None, None))) from None
            return f"{type(error).__name__}: {_first_line(error)}"

    def close(self) -> None:
        """Takes back what is under way. The cluster stays."""
        try:
            for reference in self._references:
                self._ray.cancel(reference, force=True)
        except Exception:  # noqa: BLE001 - the server may be gone
            pass
        self._stored.clear()
        self._ray.shutdown()


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0]
