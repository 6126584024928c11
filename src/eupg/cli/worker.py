"""``eupg worker``: the service's worker, which carries out what waits."""

from __future__ import annotations

from typing import Annotated

from eupg.cli.command import command
from eupg.cli.options import option
from eupg.cli.serve import DatabaseUrl, ServiceFolder


@command("eupg worker models")
def worker(
    folder: ServiceFolder,
    database: DatabaseUrl = None,
    once: Annotated[bool, option("--once", "Do one pass, and exit.")] = False,
) -> int:
    """Carry out accepted requests in every workspace, and deliver messages, until it is stopped.

    Several may run: one works at a time, and another takes over when it stops.
    """
    from eupg.service.processes import work

    return work(folder, database=database, once=once)
