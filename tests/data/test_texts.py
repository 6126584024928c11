"""Texts from tables and folders, with authors as people."""

import pandas as pd
import pytest

from eupg.data import Categorical, Role, Texts, read_texts
from eupg.errors import DataError, ParameterError, SchemaError

TABLE = pd.DataFrame(
    {"mail": ["hello", "buy now", "lunch?"], "kind": ["ham", "spam", "ham"], "sender": ["ada", "bob", "ada"]}
)


def test_a_column_of_a_table_with_authors():
    texts = read_texts(TABLE, text="mail", label="kind", subject="sender")
    assert texts.texts == ("hello", "buy now", "lunch?")
    assert texts.label.categories == ("ham", "spam")
    assert texts.label.inferred == ("categories",)
    assert texts.y.tolist() == [0, 1, 0]
    assert texts.subjects.tolist() == ["ada", "bob", "ada"]
    assert [a.name for a in texts.attributes] == ["sender", "kind"]
    assert "hello" not in repr(texts)
    assert "2 people" in repr(texts)


def test_a_file_is_read_like_a_table_and_declared_classes_are_public(tmp_path):
    TABLE.assign(number=["007", "008", "009"]).to_csv(tmp_path / "mails.csv", index=False)
    texts = read_texts(tmp_path / "mails.csv", text="mail", label="kind", ids="number", classes=("spam", "ham"))
    assert texts.ids.tolist() == ["007", "008", "009"]
    assert texts.y.tolist() == [1, 0, 1]
    assert texts.label.inferred == ()
    assert texts.person is None


def test_a_folder_has_one_folder_per_class(tmp_path):
    for name, content in (("ham/a.txt", "hello"), ("ham/deep/b", "lunch"), ("spam/c.txt", "buy"), ("spam/x.png", "no")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    texts = read_texts(tmp_path)
    assert texts.texts == ("hello", "lunch", "buy")
    assert texts.ids.tolist() == ["ham/a.txt", "ham/deep/b", "spam/c.txt"]
    with pytest.raises(ParameterError, match="is a folder, in which files are texts"):
        read_texts(tmp_path, text="mail")
    with pytest.raises(DataError, match="holds no text of any class"):
        read_texts(tmp_path, classes=("eggs", "bacon"))


@pytest.mark.parametrize(
    ("table", "settings", "said"),
    [
        (TABLE, {"text": "male"}, "no column 'male'"),
        (TABLE, {}, "column of the texts is not named"),
        (TABLE, {"text": "kind"}, "expected different columns"),
        (TABLE.assign(mail=pd.Series(["a", None, "b"])), {"text": "mail"}, "1 of 3 texts are missing"),
        (TABLE.assign(kind=pd.Series(["ham", None, "ham"])), {"text": "mail"}, "label of some texts is missing"),
        (TABLE.assign(kind="ham"), {"text": "mail"}, "1 distinct values, expected 2 to 100"),
        (TABLE, {"text": "mail", "classes": ("ham", "eggs")}, "does not list"),
    ],
)
def test_what_cannot_be_read_is_refused(table, settings, said):
    with pytest.raises((DataError, ParameterError, SchemaError), match=said):
        read_texts(table, label="kind", **settings)


def test_lengths_and_kinds_are_checked():
    label = Categorical(name="kind", role=Role.LABEL, categories=("ham", "spam"))
    with pytest.raises(DataError, match="2 texts need as many labels, ids and authors, got 1, 2 and 2"):
        Texts.of(["a", "b"], [0], label=label)
    with pytest.raises(DataError, match="expected texts, got a int"):
        Texts.of(["a", 7], [0, 1], label=label)  # type: ignore[list-item]
