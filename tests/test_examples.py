"""The notebooks in ``examples``, run from the first cell to the last, and committed without outputs."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import eupg

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def test_there_are_at_least_three_notebooks_and_the_index_names_each():
    index = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert len(NOTEBOOKS) >= 3
    assert all(f"({notebook.name})" in index for notebook in NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_without_outputs(path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)


@pytest.mark.slow
# Jupyter's own libraries warn about their sockets and loops on some platforms.
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(eupg.__file__).parents[1]))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    for folder in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(folder, str(tmp_path / folder))
    notebook = nbformat.read(path, as_version=4)
    before = set(os.listdir(EXAMPLES))
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()
    printed = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    # A shell command that fails does not stop a notebook.
    assert "Traceback" not in printed
    assert set(os.listdir(EXAMPLES)) == before
