"""The documentation, run: examples print what the pages say, and names, commands, options and links exist."""

import contextlib
import functools
import importlib
import importlib.util
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

import eupg
import eupg.checks
import eupg.errors
import eupg.guarantees
from commands import eupg as run_command

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "examples").glob("*.md")),
    *sorted((ROOT / "reproduction").glob("*.md")),
]
GUIDES = [ROOT / "README.md", DOCS / "tutorial.md", *sorted((DOCS / "howto").glob("*.md"))]
RECORDS = sorted(path for path in (DOCS / "decisions").glob("*.md") if path.name != "index.md")


def name_of(path):
    return path.relative_to(ROOT).as_posix()


@functools.cache
def load_hooks():
    spec = importlib.util.spec_from_file_location("site_hooks", DOCS / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    return hooks


def help_of(*command):
    return load_hooks().run_help(*command)


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)


def run_script(code, folder):
    """Run code as a script in this process, which has loaded everything already; return what it prints.

    A warning is an error here, so none is missed.
    """
    script = folder / "script.py"
    script.write_text(code, encoding="utf-8")
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        runpy.run_path(str(script), run_name="__main__")
    return printed.getvalue()


# A notebook's cells run in a ``__main__`` that has no file.
NOTEBOOK = """
import sys
main = sys.modules["__main__"]
code = compile(open(sys.argv[1], encoding="utf-8").read(), "<cell>", "exec")
del main.__file__
exec(code, vars(main))
"""


# The other ways differ in how processes for reference models are started: fewer and smaller models show the same.
QUICKER = {"references=8": "references=4"}


@pytest.mark.parametrize("way", ["script", "standard input", "notebook"])
def test_readme_example_prints_what_the_readme_shows(tmp_path, way):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    ((code, expected),) = re.findall(r"```python\n(.*?)```\s*```text\n(.*?)```", text, re.S)
    for setting, quicker in QUICKER.items() if way != "script" else ():
        assert setting in code
        code = code.replace(setting, quicker)
    script, cells = tmp_path / "snippet.py", tmp_path / "cells.py"
    script.write_text(code, encoding="utf-8")
    cells.write_text(NOTEBOOK, encoding="utf-8")
    command = {"script": [script.name], "standard input": [], "notebook": [cells.name, script.name]}[way]
    run = subprocess.run(
        [sys.executable, *command],
        input=code if way == "standard input" else "",
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(eupg.__file__).parents[1])},
        check=False,
    )
    assert (run.stdout, run.stderr) == (expected, "")
    assert {path.name for path in tmp_path.iterdir()} == {"snippet.py", "cells.py", "workspace"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_a_file_and_to_a_heading_in_it(page):
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text(encoding="utf-8")):
        if target.startswith("http"):
            continue
        path = page.parent / target if target else page
        assert path.exists(), target
        if anchor:
            assert anchor in anchors(path), f"{target}#{anchor}"


def anchors(page):
    """Return the anchors of a page's headings, where the site and a repository's web view agree on them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    titles = (re.sub(r"[`*]", "", title) for title in re.findall(r"^#+ (.*)$", text, re.M))
    plain = (unicodedata.normalize("NFKC", title).strip().lower() for title in titles)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", title)) for title in plain}


def public_names():
    """Return what the package and its stages offer."""
    stages = ("executor", "data", "protect", "learn", "forget", "audit", "certify", "manage")
    modules = [eupg, *(importlib.import_module(f"eupg.{stage}") for stage in stages)]
    claims = {n for n in eupg.guarantees.__all__ if n[0].isupper()} - {"Involvement", "Neighbours", "Unit"}
    return claims.union(*(module.__all__ for module in modules))


def test_every_class_the_guides_name_is_public():
    elsewhere = {"Pipeline", "README", "Printed"} | set(dir(eupg.checks)) | set(dir(eupg.errors))
    for page in GUIDES:
        text = page.read_text(encoding="utf-8")
        named = set(re.findall(r"`([A-Z]\w+)(?:[(.`])", text)) - elsewhere
        assert {n for n in named if n != n.upper()} <= public_names(), page.name
    choices = (DOCS / "howto" / "choose.md").read_text(encoding="utf-8")
    assert {"ProbabilisticKAnonymity", "DPSynthesis", "LocalDP", "SISA"} <= set(re.findall(r"`(\w+)", choices))


def test_the_guides_name_commands_and_options_that_exist():
    names = load_hooks().command_names(help_of())
    used = set()
    for page in PAGES:
        for line in "\n".join(blocks(page, "sh")).splitlines():
            for call in re.findall(r"(?:^|\| )eupg (\w.*)", line.split("  #")[0]):
                command, *rest = shlex.split(call)
                assert command in names, f"{name_of(page)}: {call}"
                for option in (word for word in rest if word.startswith("--")):
                    assert re.search(rf"{option}\b", help_of(command)), f"{name_of(page)}: {call}"
                used.add(command)
    assert {"plan", "train", "request", "forget", "certify", "verify", "predict", "webhook"} <= used


ARGPARSE = """positional arguments:
  COMMAND
    plan      measure guarantees and exposures on your table, and recommend
              one
    train     protect, pretrain, finetune and deploy

options:
  -h, --help  show this help message and exit
"""
TYPER = """╭─ Options ─────────────────────────────────────────────────────────╮
│ --help          Show this message and exit.                       │
╰───────────────────────────────────────────────────────────────────╯
╭─ Commands ────────────────────────────────────────────────────────╮
│ plan    Measure guarantees and exposures on your table, and       │
│         recommend one.                                            │
│ train   Protect, pretrain, finetune and deploy.                   │
╰───────────────────────────────────────────────────────────────────╯
"""
PLAIN_TYPER = """Options:
  --version             Show the version and exit.
  --show-completion     Show completion for the current shell, to copy it or
                        customize the installation.

Commands:
  plan   Measure guarantees on your table, and recommend one.
  train  Protect, pretrain, finetune and deploy.

  Example:
    eupg demo
"""


@pytest.mark.parametrize("overview", [ARGPARSE, TYPER, PLAIN_TYPER], ids=["argparse", "typer", "typer without frames"])
def test_the_site_finds_the_commands_in_their_help(overview):
    assert load_hooks().command_names(overview) == ["plan", "train"]


def test_the_page_of_commands_holds_the_help_of_each():
    hooks = load_hooks()
    assert hooks.COMMANDS in (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    text = hooks.commands_page()
    for name in hooks.command_names(help_of()):
        assert f"## eupg {name}\n" in text
        assert help_of(name) in text


def test_the_site_refuses_a_command_that_does_not_exist():
    with pytest.raises(RuntimeError, match="nonsense"):
        load_hooks().run_help("nonsense")


def test_the_page_of_the_api_holds_every_public_name():
    page = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^::: eupg\.(?:\w+\.)*(\w+)$", page, re.M))
    # Modules have sections of their own.
    assert shown >= public_names() - {"audit", "sources", "mdav"}


def test_the_pages_name_modules_that_exist():
    source = {"eupg": ROOT / "src", "eupg_reproduction": ROOT / "reproduction" / "src"}
    folders = ("src", "reproduction", "tests", "docs", ".ci")
    files = {f"/{name_of(path)}" for folder in folders for path in (ROOT / folder).rglob("*.py")}
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        text = page.read_text(encoding="utf-8")
        for path in re.findall(r"(?<![\w/.])(?:\w+/)*\w+\.py\b", text):
            assert any(file.endswith(f"/{path}") for file in files), f"{name_of(page)}: {path}"
        for name in re.findall(r"(?<![\w/.-])eupg(?:_reproduction)?(?:\.[A-Za-z_]\w*)+", text):
            place, parts = source[name.split(".")[0]], name.split(".")
            while parts and ((place / parts[0]).is_dir() or (place / f"{parts[0]}.py").is_file()):
                place /= parts.pop(0)
            stubs = [place.with_suffix(".py"), place / "__init__.pyi", place / "__init__.py"]
            offered = "".join(stub.read_text(encoding="utf-8") for stub in stubs if stub.is_file())
            defined = rf"\b(?:as|def|class|import) {parts[0]}\b|^{parts[0]}\b[ :=]|\"{parts[0]}\"" if parts else ""
            assert re.search(defined, offered, re.M), f"{name_of(page)}: {name}"
    for folder in re.findall(r"`((?:\w+/)+)`", (DOCS / "architecture.md").read_text(encoding="utf-8")):
        assert any((root / folder).is_dir() for root in (ROOT, ROOT / "src" / "eupg")), folder


def test_pages_that_are_to_be_short_are_short():
    longest = {ROOT / "README.md": 600, DOCS / "architecture.md": 1500, **dict.fromkeys(RECORDS, 700)}
    # One row per dependency.
    longest[DOCS / "decisions" / "dependencies.md"] = 900
    for page, words in longest.items():
        assert len(page.read_text(encoding="utf-8").split()) <= words, page.name


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_a_decision_has_context_decision_and_consequences_and_is_listed(record):
    text = record.read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", text, re.M)
    assert [h for h in headings if h != "Evidence"] == ["Context", "Decision", "Consequences"]
    title = text.splitlines()[0].removeprefix("# ")
    assert f"- [{title}]({record.name})" in (DOCS / "decisions" / "index.md").read_text(encoding="utf-8")
    assert f"decisions/{record.name}" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_has_a_placeholder(page):
    assert not re.findall(r"HOLE_\w|[A-Z]{3,}_TABLE|TODO|FIXME|XXX", page.read_text(encoding="utf-8"))


def test_the_tutorial_in_python_prints_what_it_shows(tmp_path):
    first, second = (DOCS / "tutorial.md").read_text(encoding="utf-8").split("## Part 2")
    code = "".join(re.findall(r"```python\n(.*?)```", first, re.S))
    shown = "".join(re.findall(r"```text\n(.*?)```", first, re.S))
    printed = run_script(code, tmp_path)
    assert printed.startswith(shown)
    assert "at most 5/30" in printed
    assert "at most 5/30" in first
    assert second


@pytest.fixture
def own_table(tmp_path):
    """Return a folder with the table of the tutorial's second part."""
    second = (DOCS / "tutorial.md").read_text(encoding="utf-8").split("## Part 2")[1]
    (code,) = re.findall(r"```python\n(.*?)```", second, re.S)
    run_script(code, tmp_path)
    return tmp_path


def test_the_tutorial_on_the_command_line_ends_with_a_verified_certificate(own_table):
    second = (DOCS / "tutorial.md").read_text(encoding="utf-8").split("## Part 2")[1]
    commands = [line for block in re.findall(r"```sh\n(.*?)```", second, re.S) for line in block.splitlines()]
    (shown,) = re.findall(r"```text\n(.*?)```", second, re.S)
    for command in commands:
        program, *arguments = shlex.split(command)
        done = run_command(*arguments, cwd=own_table)
        assert (program, done.returncode, done.stderr) == ("eupg", 0, ""), command
    assert done.stdout == shown
    refused = run_command("verify", "certificate.json", cwd=own_table)
    assert (refused.returncode, "NOT VERIFIED" in refused.stdout) == (1, True)


@pytest.mark.parametrize("guide", ["choose", "notebook", "own-table", "plug-in"])
def test_a_guide_in_python_runs(guide, own_table):
    run_script("".join(blocks(DOCS / "howto" / f"{guide}.md", "python")), own_table)


def test_every_make_target_the_documentation_names_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in PAGES:
        for target in re.findall(r"(?:`|^|cpu )make (\w+)", page.read_text(encoding="utf-8"), re.M):
            assert re.search(rf"^{target}:", makefile, re.M), target


def test_every_dependency_is_explained():
    import tomllib

    explained = (DOCS / "decisions" / "dependencies.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"], *(d for extra in project["optional-dependencies"].values() for d in extra)]
    for requirement in needed:
        name = re.split(r"[\[<>=]", requirement)[0]
        assert name == "eupg" or name in explained, name
