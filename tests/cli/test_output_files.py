"""The files that a command writes: a place that cannot be written is named, and figures outlive their picture."""

from pathlib import Path

import pytest

from eupg.cli.output_files import check_outputs, check_picture, draw, writing
from eupg.errors import MissingFramework, ParameterError, StorageError


def test_folder_that_does_not_exist_is_refused(tmp_path):
    check_outputs(tmp_path / "a.csv", None)
    with pytest.raises(StorageError, match=r"there is no folder .*nowhere: create it, or name another file"):
        check_outputs(None, tmp_path / "nowhere" / "a.csv")


def test_a_folder_is_not_a_file_to_write(tmp_path):
    with pytest.raises(StorageError, match="is a folder: name a file in it"):
        check_outputs(tmp_path)


def test_one_file_cannot_hold_two_contents(tmp_path):
    with pytest.raises(ParameterError, match="is named twice"):
        check_outputs(tmp_path / "a.json", tmp_path / "." / "a.json")


def test_picture_of_another_kind_is_refused():
    check_picture(Path("p.SVG"))
    with pytest.raises(ParameterError, match=r"'p\.pdf': name another file"):
        check_picture(Path("p.pdf"))


def test_content_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"the plan could not be written .*: name another file"), writing("plan"):
        tmp_path.write_text("a folder", encoding="utf-8")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ModuleNotFoundError(name="matplotlib"), "It needs matplotlib: pip install 'eupg[demo]'"),
        (MissingFramework("a figure needs matplotlib: pip install 'eupg[demo]'"), "drawn: a figure needs matplotlib"),
        (OSError("disk full"), "No picture was drawn: disk full"),
        (ParameterError("no points"), "No picture was drawn: no points"),
    ],
)
def test_picture_that_cannot_be_drawn_is_said(error, words):
    def fail():
        raise error

    file, said = draw(fail)
    assert file is None
    assert words in said
    assert draw(lambda: Path("p.svg")) == ("p.svg", "Picture: p.svg")
