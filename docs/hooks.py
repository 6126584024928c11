"""What the site computes while it is built, so that it cannot go stale: the help of every command, and a few links."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
COMMANDS = "<!-- the help of every command -->"

# argparse indents a command's name by two or four spaces, Typer frames it: ``│ train   Protect, …``.
_COMMAND = re.compile(r"^(?:│ {1,2}| {2,4})([a-z][a-z-]*) {2,}\S", re.M)
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(((?:\.\./)+[^)#\s]*)(#[^)\s]*)?\)")
_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data):<code>~?(?:[\w.]+\.)?(\w+)</code>")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Fill in the help of the commands, and turn links out of the site into paths of the source."""
    if COMMANDS in markdown:
        markdown = markdown.replace(COMMANDS, commands_page())
    if page.file.src_uri == "results.md":
        # In the repository this leads to a folder; the site has no page for one.
        markdown = markdown.replace("](results)", "](#tables)")
    folder = Path(config["docs_dir"], page.file.src_uri).parent
    return _LINK.sub(lambda link: _inside(link, folder), markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Show Sphinx's roles in docstrings as plain names."""
    return _ROLE.sub(r"<code>\1</code>", html)


def commands_page() -> str:
    """Return one section per command, with its help as the command prints it."""
    overview = run_help()
    names = command_names(overview)
    if not names:
        raise RuntimeError("expected the list of commands in the output of `eupg --help`, found none")
    sections = [f"```text\n{overview}```"]
    sections += [f"## eupg {name}\n\n```text\n{run_help(name)}```" for name in names]
    return "\n\n".join(sections)


def command_names(overview: str) -> list[str]:
    """Return the commands that ``eupg --help`` lists."""
    return _COMMAND.findall(overview)


@functools.cache
def run_help(*command: str) -> str:
    """Return what ``eupg COMMAND --help`` prints, without colour and of one width."""
    environment = {**os.environ, "COLUMNS": "80", "TERMINAL_WIDTH": "80", "NO_COLOR": "1", "TERM": "dumb"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    arguments = [sys.executable, "-m", "eupg.cli", *command, "--help"]
    answer = subprocess.run(arguments, capture_output=True, text=True, encoding="utf-8", env=environment, check=False)
    if answer.returncode:
        raise RuntimeError(f"`eupg {' '.join(command)} --help` failed: {answer.stderr.strip()}")
    return re.sub(r"[ \t]+$", "", answer.stdout, flags=re.M)


def _inside(link: re.Match[str], folder: Path) -> str:
    """Keep a link to a page of the site; name the path where it leads out of the site."""
    target = (folder / link[2]).resolve()
    if target.is_relative_to(ROOT / "docs"):
        return link[0]
    path = target.relative_to(ROOT).as_posix()
    return f"{link[1]} (`{path}`)" if f"`{path}`" not in link[1] else link[1]
