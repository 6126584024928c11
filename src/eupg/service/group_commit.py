"""Group commit: calls that come at the same moment share one transaction, and one wait for the disk.

The first caller that finds nobody writing writes for everybody who waits. A caller returns once its own request is on
disk, as before; under load the cost of a transaction is shared.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future

from eupg.errors import RequestRefused
from eupg.service.access import Actor, Permission
from eupg.service.requests import Created, NewRequest, Requests

_MOST = 100


class GroupCommit:
    """Files requests for many threads at once."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._waiting: deque[tuple[Actor, NewRequest, Future[Created]]] = deque()
        self._lock = threading.Lock()
        self._writing = False

    def create(self, actor: Actor, new: NewRequest) -> Created:
        """File a request; it is on disk when this returns."""
        # Checked here, so that one caller without permission does not fail the others.
        actor.require(Permission.CREATE)
        future: Future[Created] = Future()
        with self._lock:
            self._waiting.append((actor, new, future))
            leads, self._writing = not self._writing, True
        if leads:
            self._write_all()
        return future.result()

    def _write_all(self) -> None:
        """Write for everybody who waits, until nobody does."""
        while True:
            with self._lock:
                batch = [self._waiting.popleft() for _ in range(min(_MOST, len(self._waiting)))]
                if not batch:
                    self._writing = False
                    return
            try:
                created = self._requests.create_many([(actor, new) for actor, new, _ in batch])
            except BaseException as error:
                for _, _, future in batch:
                    future.set_exception(error)
                continue
            for (_, _, future), result in zip(batch, created, strict=True):
                if isinstance(result, RequestRefused):
                    future.set_exception(result)
                else:
                    future.set_result(result)
