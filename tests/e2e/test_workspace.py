"""The command line on a workspace, as a person runs it: from a file to a verified certificate, and every refusal."""

import io
import json
import subprocess
import sys

import pandas as pd
import pytest

from commands import TRAIN, eupg, words
from people import people


def test_the_command_is_installed(tmp_path):
    done = subprocess.run([sys.executable, "-m", "eupg.cli", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("eupg ")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table, a trained workspace and one request that was honoured and certified."""
    place = tmp_path_factory.mktemp("cli")
    data = people(300)
    table = data.to_pandas()
    table.insert(0, "who", data.subjects)
    table.to_csv(place / "people.csv")
    table.head(20).drop(columns=[data.schema.label.name]).to_csv(place / "ask.csv")
    done = eupg(*TRAIN, "--guarantee", "kanonymity", "--k", "10", "--hold-out", "0.2", "--json", cwd=place)
    assert done.returncode == 0, done.stderr
    status = json.loads(done.stdout)
    assert status["records"] + status["held_out"] == 300
    return place


def test_from_a_request_to_a_certificate_that_verifies(folder):
    asked = eupg("request", "--workspace", "ws", "--subject", "p7", "--channel", "letter", "--json", cwd=folder)
    request = json.loads(asked.stdout)[0]
    assert request["state"] == "accepted"
    assert "p7" not in asked.stdout
    open_ = json.loads(eupg("status", "--workspace", "ws", "--json", cwd=folder).stdout)
    assert open_["requests"]["open"] == 1
    assert open_["waiting"] == [{"request": request["id"], "state": "accepted", "due": request["due"]}]
    early = eupg("certify", "--workspace", "ws", "--request", request["id"], "--out", "c.json", cwd=folder)
    assert early.returncode == 1
    assert "run forget first" in words(early)
    done = json.loads(eupg("forget", "--workspace", "ws", "--json", cwd=folder).stdout)
    assert done["requests"] == [request["id"]]
    assert done["records"] >= 1
    issued = eupg("certify", "--workspace", "ws", "--out", "c.json", "--page", "c.html", "--json", cwd=folder)
    assert json.loads(issued.stdout)["body"]["request"]["id"] == request["id"]
    assert "Certificate of erasure" in (folder / "c.html").read_text(encoding="utf-8")
    for options in (("--integrity-only",), ("--key", "ws/keys/signing.pub"), ("--workspace", "ws")):
        verified = eupg("verify", "c.json", *options, cwd=folder)
        assert verified.returncode == 0, words(verified)
    assert json.loads(eupg("status", "--workspace", "ws", "--json", cwd=folder).stdout)["requests"]["open"] == 0
    assert words(eupg("forget", "--workspace", "ws", cwd=folder)).startswith("No accepted request is waiting.")


def test_predictions_go_to_a_file_and_need_no_label(folder):
    done = eupg("predict", "--workspace", "ws", "--data", "ask.csv", "--out", "answers.csv", cwd=folder)
    assert done.returncode == 0, words(done)
    answers = pd.read_csv(folder / "answers.csv")
    chances = answers.filter(like="P(")
    assert len(answers) == 20
    assert chances.sum(axis=1).between(0.999, 1.001).all()
    again = eupg("predict", "--workspace", "ws", "--data", "ask.csv", "--out", "answers.parquet", cwd=folder)
    assert again.returncode == 0
    assert len(pd.read_parquet(folder / "answers.parquet")) == 20


def test_a_request_is_decided_by_hand(folder):
    pending = json.loads(
        eupg("request", "--workspace", "ws", "--subject", "p9", "--pending", "--json", cwd=folder).stdout
    )[0]
    assert pending["state"] == "received"
    for step, state in ((("--verified",), "verified"), (("--extend", "many requests"), "verified")):
        done = eupg("decide", "--workspace", "ws", "--request", pending["id"], *step, "--json", cwd=folder)
        assert json.loads(done.stdout)["state"] == state
    assert json.loads(done.stdout)["extended"] is True
    refused = eupg("decide", "--workspace", "ws", "--request", pending["id"], "--reject", "not them", cwd=folder)
    assert "is rejected (not them)" in words(refused)
    late = eupg("decide", "--workspace", "ws", "--request", pending["id"], "--accept", cwd=folder)
    assert late.returncode == 2


def test_somebody_unknown_is_rejected_and_the_answer_is_no(folder):
    done = eupg("request", "--workspace", "ws", "--subject", "Nobody, Nora", cwd=folder)
    assert done.returncode == 1
    assert "no record of this person is held here" in words(done)
    assert "Nora" not in done.stdout


def test_many_people_from_a_file_and_an_audit_of_those_who_stay(folder, monkeypatch):
    # Starting processes would take longer than the training.
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    (folder / "many.txt").write_text("p20\np21\n\np22\n")
    taken = eupg("request", "--workspace", "ws", "--subjects-file", "many.txt", "--record", "r3", "--json", cwd=folder)
    assert [r["unit"] for r in json.loads(taken.stdout)] == ["person"] * 3 + ["record"]
    assert eupg("forget", "--workspace", "ws", "--audit", "--references", "4", cwd=folder).returncode == 0
    report = eupg("audit", "--workspace", "ws", "--references", "4", "--sample", "100", "--json", cwd=folder)
    assert json.loads(report.stdout)["attack"] == "RMIA"


def test_a_changed_byte_is_found_and_the_answer_is_no(folder, tmp_path):
    import shutil

    shutil.copytree(folder / "ws", tmp_path / "ws")
    assert eupg("request", "--workspace", "ws", "--subject", "p40", cwd=tmp_path).returncode == 0
    assert eupg("forget", "--workspace", "ws", cwd=tmp_path).returncode == 0
    assert eupg("certify", "--workspace", "ws", "--out", "c.json", cwd=tmp_path).returncode == 0
    served = json.loads((tmp_path / "ws" / "current.json").read_text())["served"]
    file = tmp_path / "ws" / "store" / served
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    found = eupg("verify", "--workspace", "ws", cwd=tmp_path)
    assert found.returncode == 1
    assert served[:12] in found.stdout.replace("\n", "")
    text = (tmp_path / "c.json").read_text(encoding="utf-8").replace('"records_erased":', '"records_erased":1', 1)
    (tmp_path / "c.json").write_text(text, encoding="utf-8")
    forged = eupg("verify", "c.json", "--key", "ws/keys/signing.pub", cwd=tmp_path)
    assert forged.returncode == 1
    assert "NOT VERIFIED" in forged.stdout


def test_new_records_come_in_and_a_second_release_adds_up(tmp_path):
    data, later = people(200), people(30, seed=4)
    for name, part, prefix in (("people.csv", data, ""), ("new.csv", later, "new-")):
        table = part.to_pandas()
        table.insert(0, "who", [f"{prefix}{s}" for s in part.subjects])
        table.index = pd.Index([f"{prefix}{i}" for i in part.ids], name="record")
        table.to_csv(tmp_path / name)
    assert eupg(*TRAIN, "--guarantee", "dp", "--epsilon", "2", "--hold-out", "0", cwd=tmp_path).returncode == 0
    added = eupg("add", "--workspace", "ws", "--data", "new.csv", "--id", "record", cwd=tmp_path)
    assert "30 records added" in words(added), words(added)
    assert eupg("renew", "--workspace", "ws", cwd=tmp_path).returncode == 0
    claims = {}
    for person in ("p3", "new-p3"):
        assert eupg("request", "--workspace", "ws", "--subject", person, cwd=tmp_path).returncode == 0
        eupg("forget", "--workspace", "ws", cwd=tmp_path)
        body = json.loads(eupg("certify", *("--workspace", "ws", "--out", "c.json", "--json"), cwd=tmp_path).stdout)[
            "body"
        ]
        claims[person] = body["claimed"]["claim"]["epsilon"] / body["request"]["records_erased"]
    assert claims == {"p3": 2 + 2, "new-p3": 2}, "one was in both releases, the other only in the second"


def test_recover_says_what_it_did(folder):
    assert "No change was interrupted" in words(eupg("recover", "--workspace", "ws", cwd=folder))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("status", "--workspace", "nowhere"), "nowhere is not a workspace: make one with eupg train"),
        (("forget", "--workspace", "nowhere"), "is not a workspace"),
        (("verify", "c.json", "--integrity-only", "--key", "ws/keys/signing.pub"), "pass the file alone"),
        (("request", "--workspace", "ws"), "the request names nobody: pass --subject"),
        (("request", "--workspace", "ws", "--subjects-file", "none.txt"), "none.txt cannot be read"),
        (("verify",), "there is nothing to verify: pass a certificate"),
        (("verify", "none.json", "--workspace", "ws"), "no file none.json"),
        (("certify", "--workspace", "ws", "--out", "nowhere/c.json"), "there is no folder nowhere"),
        (
            ("predict", "--workspace", "ws", "--data", "ask.csv", "--out", "nowhere/a.csv"),
            "no folder nowhere: create it",
        ),
        ((*TRAIN, "--guarantee", "dp", "--plan", "plan.json"), "the plan chooses --guarantee, --learner"),
        (("predict", "--workspace", "ws", "--data", "ask.csv", "--out", "a.txt"), ".csv or .parquet"),
        (("decide", "--workspace", "ws", "--request", "r-0000000000000000", "--accept"), "r-0000000000000000"),
        ((*TRAIN, "--guarantee", "kanonymity"), "holds a trained model"),
        (("add", "--workspace", "ws", "--data", "people.csv", "--id", "record"), "taken"),
        (("renew", "--workspace", "ws"), "use differential privacy"),
    ],
)
def test_wrong_use_says_what_to_do(folder, arguments, message):
    done = eupg(*arguments, cwd=folder)
    assert done.returncode == 2, words(done)
    assert message in words(done)
    assert "Traceback" not in done.stderr


def test_another_system_asks_through_the_webhook(folder, monkeypatch):
    message = {"action": "erase", "identity": {"subject": "p30"}, "reference": "their number 7"}
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(message)))
    answer = json.loads(eupg("webhook", "--workspace", "ws", cwd=folder).stdout)
    assert answer["state"] == "accepted"
    assert "their number" not in json.dumps(answer)
    monkeypatch.setattr(sys, "stdin", io.StringIO("not json"))
    refused = eupg("webhook", "--workspace", "ws", cwd=folder)
    assert refused.returncode == 2
    assert "expected one JSON message" in words(refused)


def test_export_hands_over_a_ledger_that_can_be_checked(folder):
    done = eupg("export", "--workspace", "ws", "--out", "handed-over", cwd=folder)
    assert done.returncode == 0, words(done)
    assert (folder / "handed-over" / "ledger.jsonl").stat().st_size > 0
    assert eupg("export", "--workspace", "ws", "--out", "handed-over", cwd=folder).returncode == 2


def test_few_people_are_exposed_by_a_plan_and_everyone_else_is_erased_without_training(folder, tmp_path):
    import shutil

    shutil.copy(folder / "people.csv", tmp_path)
    table = ("--data", "people.csv", "--label", people(3).schema.label.name, "--subject", "who", "--id", "record")
    planned = eupg(
        *("plan", *table, "--learner", "logistic", "--guarantee", "kanonymity", "--k", "10", "--exposure", "0.2"),
        *("--require", "kanonymity", "--tolerance", "100", "--out", "plan.json"),
        cwd=tmp_path,
    )
    assert planned.returncode == 0, words(planned)
    trained = eupg("train", *table, "--plan", "plan.json", "--hold-out", "0", "--workspace", "ws", cwd=tmp_path)
    assert trained.returncode == 0, words(trained)
    seen = set()
    for person in [f"p{i}" for i in range(12)]:
        if eupg("request", "--workspace", "ws", "--subject", person, cwd=tmp_path).returncode:
            continue
        done = json.loads(eupg("forget", "--workspace", "ws", "--json", cwd=tmp_path).stdout)
        issued = eupg("certify", "--workspace", "ws", "--out", "c.json", "--json", cwd=tmp_path)
        body = json.loads(issued.stdout)["body"]
        assert body["claimed"]["never_seen_raw"] is not done["trained"]
        assert any("chosen by a plan that looked at the records" in s for s in body["not_covered"])
        assert eupg("verify", "c.json", "--workspace", "ws", cwd=tmp_path).returncode == 0
        seen.add(done["trained"])
    assert False in seen
    (tmp_path / "plan.json").write_text("{}")
    odd = eupg("train", *table, "--plan", "plan.json", "--workspace", "other", cwd=tmp_path)
    assert odd.returncode == 2
    assert "is not a plan" in words(odd)
    assert eupg("train", *table, "--workspace", "other", cwd=tmp_path).returncode == 2
