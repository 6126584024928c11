"""``eupg serve``: the service's web process, for API and pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eupg.cli.command import command
from eupg.cli.options import option

ServiceFolder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder that holds the workspaces.")]
DatabaseUrl = Annotated[
    str | None, option("--database URL", "The service's database, for instance of PostgreSQL. Otherwise a SQLite file.")
]


@command("eupg serve models --port 8765")
def serve(
    folder: ServiceFolder,
    host: Annotated[str, option("--host ADDRESS", "The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, option("--port N", "The port to listen on.")] = 8765,
    database: DatabaseUrl = None,
    processes: Annotated[int, option("--processes N", "How many web processes to start.")] = 1,
    demo: Annotated[
        bool, option("--demo", "Train two models, file requests, run a worker too, and let anyone sign in by role.")
    ] = False,
) -> int:
    """Serve the API and the pages for a folder of workspaces.

    A worker has to run besides: eupg worker FOLDER. See docs/howto/service.md.
    """
    from eupg.service.processes import serve as serve_http

    return serve_http(folder, host=host, port=port, database=database, processes=processes, demo=demo)
