"""The command line itself: its help, completion, start and exit codes. What the commands do is tested in e2e."""

import os
import shlex
import subprocess
import sys
from typing import Any, cast

import pytest
from typer.main import get_command

from eupg.cli import main
from eupg.cli.command import Command
from eupg.cli.main import app


def commands() -> dict[str, Any]:
    return cast(Any, get_command(app())).commands


COMMANDS = sorted(commands())
HEAVY = ("numpy", "pandas", "xgboost", "torch", "sklearn", "numba", "pyarrow", "scipy", "sqlalchemy")


def run(*arguments, env=None):
    environment = {**os.environ, **(env or {})}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment)


def help_of(capsys, *command):
    assert main([*command, "--help"]) == 0
    return capsys.readouterr().out


def flat(text):
    return " ".join(text.split())


def example_in(text):
    lines = text.split("Example:\n", 1)[1].split("\n\n")[0].rstrip()
    assert all(len(line) <= 80 for line in lines.splitlines())
    return shlex.split(lines.replace("\\\n", " ").split(" < ")[0])


class TestHelp:
    def test_lists_every_command(self):
        words = "add audit batching certify compare decide demo export forget key limit plan predict pretrain protect"
        more = "recover renew request schema serve signer status train verify webhook worker"
        assert [*words.split(), *more.split()] == COMMANDS

    @pytest.mark.parametrize("command", COMMANDS)
    def test_has_an_example_that_parses(self, command, capsys, monkeypatch):
        program, *arguments = example_in(help_of(capsys, command))
        assert (program, arguments[0]) == ("eupg", command)
        parsed = []

        def invoke(self, ctx):
            parsed.append(ctx.info_name)
            return 0

        monkeypatch.setattr(Command, "invoke", invoke)
        assert main(arguments) == 0
        assert parsed == [command]

    def test_of_the_program_has_an_example_that_parses(self, capsys, monkeypatch):
        program, *arguments = example_in(help_of(capsys))
        monkeypatch.setattr(Command, "invoke", lambda self, ctx: 0)
        assert program == "eupg"
        assert main(arguments) == 0

    @pytest.mark.parametrize("command", COMMANDS)
    def test_describes_every_option_in_a_sentence(self, command):
        parameters = commands()[command].params
        for parameter in parameters:
            if not parameter.hidden:
                assert parameter.help, parameter.name
                assert parameter.help[0].isupper(), parameter.help
                assert parameter.help.endswith("."), parameter.help

    def test_of_every_command_offers_json(self):
        for name, command in commands().items():
            # A process that runs until it is stopped has no result.
            offers = any("--json" in parameter.opts for parameter in command.params)
            assert offers or name in ("serve", "signer", "worker"), name

    @pytest.mark.parametrize(
        "option",
        ["--json", "--schema", "--label", "--no-subject", "--id", "--drop", "--feature", "--hold-out", "--max-records"],
    )
    def test_says_the_same_of_a_shared_option_everywhere(self, option):
        parameters = [p for c in commands().values() for p in c.params if option in p.opts]
        assert len(parameters) > 1
        assert len({(p.help, p.metavar) for p in parameters}) == 1

    @pytest.mark.parametrize("flag", ["-h", "--help"])
    def test_is_asked_for_by_either_flag(self, flag, capsys):
        assert main(["status", flag]) == 0
        assert "Usage: eupg status" in capsys.readouterr().out


class TestStart:
    @pytest.mark.parametrize("module", ["eupg", "eupg.cli"])
    def test_as_a_module(self, module):
        done = run("-m", module, "--help")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("Usage: eupg [OPTIONS] COMMAND")

    @pytest.mark.parametrize("work", ["pass", "main(['--help'])", "main(['train', '--help'])"])
    def test_imports_nothing_heavy(self, work):
        code = f"import sys; from eupg.cli import main; {work}\n"
        code += f"print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
        assert run("-c", code).stderr.strip() == "[]"

    def test_leaves_the_excepthook_alone(self, capsys):
        before = sys.excepthook
        assert main(["--version"]) == 0
        assert sys.excepthook is before
        assert capsys.readouterr().out.startswith("eupg ")


class TestCompletion:
    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_script_is_printed(self, shell):
        disabled = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
        done = run("-m", "eupg", "--show-completion", shell, env=disabled)
        assert (done.returncode, done.stderr) == (0, "")
        assert "_EUPG_COMPLETE" in done.stdout

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            ("eupg sta", ["status"]),
            ("eupg train --gua", ["--guarantee"]),
            ("eupg train --learner l", ["lightgbm", "logistic"]),
            ("eupg plan ad", ["adult"]),
        ],
    )
    def test_completes_commands_options_and_choices(self, words, expected):
        count = str(len(words.split()) - 1)
        done = run("-m", "eupg", env={"_EUPG_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": count})
        assert done.stdout.split() == expected


class TestWrongUse:
    @pytest.mark.parametrize(
        ("arguments", "words", "next_step"),
        [
            ((), "Missing command", "See 'eupg --help'."),
            (("trian",), "No such command 'trian'", "See 'eupg --help'."),
            (("status",), "Missing option '--workspace'", "See 'eupg status --help'."),
            (("status", "--workspace", "ws", "more"), "unexpected extra argument", "See 'eupg status --help'."),
            (("plan", "--test-share", "0.3"), "No such option: --test-share", "See 'eupg plan --help'."),
            (("status", "--lable", "y"), "No such option: --lable", "See 'eupg status --help'."),
            (("train", "--k", "many"), "Invalid value for '--k'", "See 'eupg train --help'."),
            (("train", "--guarantee", "hope"), "'hope' is not one of 'kanonymity', 'dp'", "See 'eupg train --help'."),
            (("plan", "--guarantee", "dpsgd"), "'dpsgd' is not one of", "See 'eupg plan --help'."),
            (("status", "--workspace"), "expected a value, got nothing", "See 'eupg status --help'."),
            (("status", "--workspace", "--json"), "expected a value, got the option --json", "See 'eupg status"),
        ],
    )
    def test_exits_2_and_names_the_next_step(self, arguments, words, next_step, capsys):
        assert main(arguments) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert words in flat(shown.err)
        assert next_step in flat(shown.err)

    @pytest.mark.parametrize("argument", ["\x1b[31mred", "--\x1b[31mred"])
    def test_does_not_send_escape_bytes_to_the_terminal(self, argument, capsys):
        assert main(["status", "--workspace", "ws", argument]) == 2
        assert "\x1b" not in capsys.readouterr().err

    def test_after_the_double_dash_an_option_is_an_argument(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        assert main(["verify", "--", "--key"]) == 2
        assert "no file --key" in capsys.readouterr().out

    @pytest.mark.parametrize(("steps", "got"), [((), "none of them"), (("--accept", "--reject", "no"), "--accept and")])
    def test_a_decision_is_exactly_one(self, steps, got, capsys):
        assert main(["decide", "--workspace", "ws", "--request", "r", *steps]) == 2
        assert f"got {got}" in flat(capsys.readouterr().out)

    def test_a_person_is_named_by_a_column_or_not(self, tmp_path, capsys):
        columns = ("--label", "ill", "--subject", "who", "--no-subject")
        choices = ("--guarantee", "dp", "--learner", "logistic", "--workspace", str(tmp_path / "ws"))
        assert main(["train", "--data", str(tmp_path / "t.csv"), *columns, *choices]) == 2
        assert "pass one of them" in flat(capsys.readouterr().out)


class TestReferences:
    @pytest.mark.parametrize("number", ["2", "3", "5", "0", "-4"])
    @pytest.mark.parametrize("command", [("audit", "--workspace", "ws"), ("forget", "--workspace", "ws", "--audit")])
    def test_too_few_or_odd_are_refused_before_anything_runs(self, command, number, capsys):
        assert main([*command, "--references", number]) == 2
        assert f"an even number of reference models, 4 or more, got {number}" in flat(capsys.readouterr().err)

    def test_a_comparison_may_go_without(self, monkeypatch, capsys):
        monkeypatch.setattr(Command, "invoke", lambda self, ctx: 0)
        assert main(["compare", "adult", "--references", "0"]) == 0
        assert main(["compare", "adult", "--references", "2"]) == 2


class TestWhatGoesWrong:
    STATUS = ("status", "--workspace", "ws")

    @pytest.fixture
    def failing(self, tmp_path, monkeypatch):
        """Return a function that has every command fail with the error."""
        (tmp_path / "ws").mkdir()
        (tmp_path / "ws" / "workspace.toml").touch()
        monkeypatch.chdir(tmp_path)

        def fail_with(error):
            def status(*_, **__):
                raise error

            monkeypatch.setattr("eupg.manage.status.read_status", status)

        return fail_with

    def test_an_interruption_is_130_without_a_traceback(self, failing, capsys):
        failing(KeyboardInterrupt())
        assert main(self.STATUS) == 130
        shown = capsys.readouterr()
        assert "interrupted. If a workspace was being changed, eupg recover" in flat(shown.out)
        assert shown.err == ""

    def test_an_interruption_of_the_parsing_is_130(self, monkeypatch, capsys):
        def parse(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(Command, "parse_args", parse)
        assert main(self.STATUS) == 130
        assert "Traceback" not in capsys.readouterr().err

    @pytest.mark.parametrize("json_asked", [False, True])
    def test_a_message_goes_where_the_story_goes(self, json_asked, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        assert main([*self.STATUS, *(["--json"] if json_asked else [])]) == 2
        shown = capsys.readouterr()
        assert "ws is not a workspace" in (shown.err if json_asked else shown.out)
        assert (shown.out if json_asked else shown.err) == ""

    def test_an_absent_framework_names_the_extra(self, failing, capsys):
        failing(ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn"))
        assert main(self.STATUS) == 2
        assert "needs torch: pip install 'eupg[torch]'" in flat(capsys.readouterr().out)

    @pytest.mark.parametrize("error", [ModuleNotFoundError("a mistake", name="eupg.gone"), ValueError("a mistake")])
    def test_a_mistake_of_the_program_is_not_hidden(self, error, failing):
        failing(error)
        with pytest.raises(type(error), match="a mistake"):
            main(self.STATUS)
