"""The documentation, run: README examples print what the README says, and its names and links exist."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import eupg

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "reproduction").glob("*.md"))]


# A notebook's cells run in a ``__main__`` that has no file.
NOTEBOOK = """
import sys
main = sys.modules["__main__"]
code = compile(open(sys.argv[1], encoding="utf-8").read(), "<cell>", "exec")
del main.__file__
exec(code, vars(main))
"""


@pytest.mark.parametrize("way", ["script", "standard input", "notebook"])
def test_readme_example_prints_what_the_readme_shows(tmp_path, way):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    pairs = re.findall(r"```python\n(.*?)```\s*```text\n(.*?)```", text, re.S)
    assert pairs
    for code, expected in pairs:
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


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_to_files_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_every_class_the_readme_names_is_public():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([A-Z]\w+)(?:[(.`])", text)) - {"EUPG_DATA", "EUPG"}
    assert named
    assert {n for n in named if n != n.upper()} <= set(eupg.__all__)


def test_every_make_target_the_documentation_names_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in PAGES:
        for target in re.findall(r"(?:`|^|cpu )make (\w+)", page.read_text(encoding="utf-8"), re.M):
            assert re.search(rf"^{target}:", makefile, re.M), target


def test_every_dependency_is_explained():
    import tomllib

    explained = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"], *(d for extra in project["optional-dependencies"].values() for d in extra)]
    for requirement in needed:
        name = re.split(r"[\[<>=]", requirement)[0]
        assert name == "eupg" or name in explained, name
