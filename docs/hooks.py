"""What the site computes while it is built, so that it cannot go stale: the help of every command, and a few links."""

from __future__ import annotations

import functools
import io
import os
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).parents[1]
# The commands of this source, also where another version is installed.
sys.path.insert(0, str(ROOT / "src"))
COMMANDS = "<!-- the help of every command -->"

# argparse indents a command's name by two or four spaces, Typer frames it: ``│ train   Protect, …``.
_COMMAND = re.compile(r"^(?:│ {1,2}| {2,4})([a-z][a-z-]*) {2,}\S", re.M)
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(((?:\.\./)+[^)#\s]*)(#[^)\s]*)?\)")
_NOT_TEXT = re.compile(r"(<pre\b.*?</pre>|<code\b.*?</code>|<[^>]*>)", re.S)
_POWER = re.compile(r"(?<=[\w)])\^(?:\{([^{}]*)\}|\(([^()]*)\)|(−?\w+(?:\.\d+)?′?))")
_INDEX = re.compile(r"(?<!\w)((?:max|min|clip|[A-Za-zεδ])[\u0302\u0303]?′?)_([A-Za-z0-9]+)")
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


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Show Sphinx's roles in docstrings as plain names, and powers and indices in formulas as such."""
    html = _ROLE.sub(r"<code>\1</code>", html)
    pieces = _NOT_TEXT.split(html)
    # What lies between two separators is text; the separators themselves, code and tags, stay as they are.
    pieces[::2] = [raised(text) for text in pieces[::2]]
    if page.file.src_uri == "guarantees.md":
        pieces[::2] = [_INDEX.sub(r"\1<sub>\2</sub>", text) for text in pieces[::2]]
    return "".join(pieces)


def raised(text: str) -> str:
    """Write powers as superscripts: ``e^ε``, and ``e^(s·L)`` without the brackets that the plain text needs."""
    return _POWER.sub(lambda power: f"<sup>{power[1] or power[2] or power[3]}</sup>", text)


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
    from eupg.cli import main

    shown, errors = io.StringIO(), io.StringIO()
    plain = {"COLUMNS": "80", "TERMINAL_WIDTH": "80", "NO_COLOR": "1", "TERM": "dumb"}
    with mock.patch.dict(os.environ, plain), redirect_stdout(shown), redirect_stderr(errors):
        status = main([*command, "--help"])
    if status:
        raise RuntimeError(f"`eupg {' '.join(command)} --help` failed: {errors.getvalue().strip()}")
    return re.sub(r"[ \t]+$", "", shown.getvalue(), flags=re.M)


def _inside(link: re.Match[str], folder: Path) -> str:
    """Keep a link to a page of the site; name the path where it leads out of the site."""
    target = (folder / link[2]).resolve()
    if target.is_relative_to(ROOT / "docs"):
        return link[0]
    path = target.relative_to(ROOT).as_posix()
    return f"{link[1]} (`{path}`)" if f"`{path}`" not in link[1] else link[1]
