"""The worker's process: takes the lease, does a pass, waits, and stops when it is asked to."""

from __future__ import annotations

import logging
import signal
import threading

from eupg.errors import EupgError
from eupg.service.adapters.domain import Domain
from eupg.service.database import WORKER
from eupg.service.service import Service
from eupg.service.worker.callbacks import Delivery
from eupg.service.worker.erasure import ErasurePass, PassReport
from eupg.service.worker.lease import Lease

_log = logging.getLogger("eupg.service.worker")


class Worker:
    """Carries out what waits. Several may run; one of them works at a time."""

    def __init__(self, service: Service) -> None:
        self._service, self._stop = service, threading.Event()
        opendsr = service.settings.opendsr
        self._domain = None if opendsr is None else Domain(opendsr)
        self._lease = Lease(service.database, WORKER, seconds=service.settings.worker.lease_s)

    def run_once(self) -> PassReport | None:
        """Do one pass; None if another worker holds the lease."""
        if not self._lease.take():
            return None
        with self._lease.renewed():
            self._service.public_form.drop_expired()
            report = ErasurePass(self._service, self._lease).run()
            Delivery(self._service, self._lease, self._domain).run()
            return report

    def run(self) -> None:
        """Work until :meth:`stop`; what is in progress is finished first."""
        _log.info("worker started")
        while not self._stop.is_set():
            try:
                report = self.run_once()
                if report is not None and (report.taken_up or report.completed or report.failed):
                    _log.info("pass done", extra=vars(report))
            except Exception as error:
                # A database that is restarted, a lease that was lost, or something nobody thought of: begin anew.
                _log.error("pass failed", extra={"error": type(error).__name__})
            self._stop.wait(self._service.settings.worker.interval_s)
        self.release()
        _log.info("worker stopped")

    def release(self) -> None:
        """Let the next worker begin at once."""
        try:
            self._lease.release()
        except EupgError as error:
            _log.warning("the lease was not released", extra={"error": type(error).__name__})

    def stop(self) -> None:
        """Stop after the pass in progress."""
        self._stop.set()

    def stop_on_signals(self) -> None:
        """Stop when the process is asked to end."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop())
