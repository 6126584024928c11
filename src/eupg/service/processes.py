"""The processes of a service: the web server, the worker, and both for a demonstration."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from eupg.certify.keys import SigningKey
from eupg.errors import ParameterError
from eupg.service import logs
from eupg.service.app import create_app
from eupg.service.service import Service
from eupg.service.settings import ServiceSettings
from eupg.service.signing import SignerServer
from eupg.service.worker.loop import Worker

# How a further web process, which starts from an import alone, finds its settings.
_FOLDER, _DATABASE = "EUPG_SERVICE_FOLDER", "EUPG_SERVICE_DATABASE"
_GRACE_S = 20


def serve(
    folder: Path, *, host: str, port: int, database: str | None = None, processes: int = 1, demo: bool = False
) -> int:
    """Serve until the process is asked to end; calls in progress are answered first."""
    logs.configure()
    if demo:
        _check_local(host)
        folder.mkdir(parents=True, exist_ok=True)
    changes: dict[str, Any] = (
        {"demo": True, "secure_cookies": False, "public_url": f"http://{host}:{port}"} if demo else {}
    )
    settings = ServiceSettings.load(folder, database=database, **changes)
    if settings.demo:
        # Also where the file of settings asks for it: anyone may sign in.
        _check_local(host)
    options: dict[str, Any] = {
        "host": host,
        "port": port,
        "log_config": None,
        "access_log": False,
        "server_header": False,
    }
    # A process that is slow because the machine is busy is not dead.
    options |= {"timeout_graceful_shutdown": _GRACE_S, "timeout_worker_healthcheck": 60, "proxy_headers": False}
    if demo:
        from eupg.service.demo import prepare

        prepare(settings)
        print(f"\nThe demonstration is at http://{host}:{port} (Ctrl-C ends it)\n", flush=True)
        with _worker_beside(settings):
            uvicorn.run(create_app(settings), **options)
    elif processes > 1:
        os.environ[_FOLDER] = str(folder.absolute())
        if database is not None:
            os.environ[_DATABASE] = database
        uvicorn.run("eupg.service.processes:app_of_environment", factory=True, workers=processes, **options)
    else:
        uvicorn.run(create_app(settings), **options)
    return 0


def _check_local(host: str) -> None:
    if host not in ("127.0.0.1", "::1", "localhost"):
        raise ParameterError(
            f"a demonstration listens on this machine alone, got {host!r}: leave out --host, or demo in service.toml"
        )


def app_of_environment() -> FastAPI:
    """Return the application that the environment describes."""
    logs.configure()
    return create_app(ServiceSettings.load(os.environ[_FOLDER], database=os.environ.get(_DATABASE)))


def work(folder: Path, *, database: str | None = None, once: bool = False) -> int:
    """Carry out what waits, until the process is asked to end."""
    logs.configure()
    service = Service.open(ServiceSettings.load(folder, database=database))
    try:
        worker = Worker(service)
        if once:
            return 0 if worker.run_once() is not None else 1
        worker.stop_on_signals()
        worker.run()
    finally:
        service.close()
    return 0


def sign(key: Path, path: Path) -> int:
    """Sign for whoever may connect to the socket, until the process is asked to end."""
    logs.configure()
    with SignerServer(path, SigningKey.create_or_load(key)) as server:
        # Asked from another thread, because a server that serves cannot stop itself.
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stop.wait()
        server.shutdown()
    return 0


def _work(settings: ServiceSettings) -> None:
    logs.configure()
    service = Service.open(settings)
    worker = Worker(service)
    worker.stop_on_signals()
    worker.run()
    service.close()


@contextmanager
def _worker_beside(settings: ServiceSettings) -> Iterator[None]:
    """Run a worker in a process of its own, which ends with this one, also when this one is asked to end."""
    process = multiprocessing.get_context("spawn").Process(target=_work, args=(settings,), daemon=True)
    process.start()
    # The server raises the signal again once it has stopped; by default this process would end there and then.
    signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        process.terminate()
        process.join(_GRACE_S)


def _end(*_: object) -> None:
    raise SystemExit(0)
