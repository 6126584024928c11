"""``eupg signer``: a process of its own that holds the service's signing key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from eupg.cli.command import command
from eupg.cli.options import option


@command("eupg signer --key /etc/eupg/signing.key --socket /run/eupg/signer.sock")
def signer(
    key: Annotated[Path, option("--key FILE", "The signing key; made where there is none, with its public half.")],
    socket: Annotated[Path, option("--socket FILE", "The Unix socket to answer on, for its owner alone.")],
) -> int:
    """Sign the service's certificates in a process that does nothing else.

    Name the socket in service.toml as signer = "unix:/run/eupg/signer.sock".
    """
    from eupg.service.processes import sign

    return sign(key, socket)
