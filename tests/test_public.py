"""The face of the package: what can be imported, how fast, and what is said when a framework is absent."""

import importlib
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import eupg

HEAVY = ("torch", "xgboost", "lightgbm", "numba", "sklearn", "pandas", "scipy", "matplotlib")


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


STAGES = ("executor", "data", "protect", "learn", "forget", "audit", "certify", "manage")
PACKAGES = ("eupg", *(f"eupg.{stage}" for stage in STAGES))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_exists_and_is_listed_once(package):
    module = importlib.import_module(package)
    assert module.__all__
    assert len(set(module.__all__)) == len(module.__all__)
    assert module.__all__ == sorted(module.__all__, key=str.lower)
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert set(module.__all__) <= set(dir(module))


def test_the_face_is_small():
    assert len(eupg.__all__) <= 16


def test_a_name_means_the_same_thing_wherever_it_is_offered():
    offered: dict[str, object] = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            if not isinstance(value := getattr(module, name), type(importlib)):
                assert offered.setdefault(name, value) is value


def test_a_class_name_exists_once_in_the_package():
    sources = Path(eupg.__file__).parent.rglob("*.py")
    names = [n for s in sources for n in re.findall(r"^class ([A-Z]\w*)", s.read_text(encoding="utf-8"), re.M)]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="attribute Nonsense"):
        getattr(eupg, "Nonsense")  # noqa: B009


def test_import_pulls_in_no_framework():
    found = run(f"import eupg, sys; print([m for m in {HEAVY} if m in sys.modules])")
    assert found.stdout.strip() == "[]"


def test_a_learner_of_scikit_learn_loads_no_network_framework():
    found = run("import eupg.learn, sys; eupg.learn.SklearnLearner(); print([m for m in sys.modules if 'torch' in m])")
    assert (found.stdout.strip(), found.stderr) == ("[]", "")


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [("XGBoostLearner", "xgboost", "xgboost"), ("TorchLearner", "torch", "torch"), ("MLP", "torch", "torch"),
     ("LightGBMLearner", "lightgbm", "lightgbm")],
)  # fmt: skip
def test_absent_framework_names_the_extra_to_install(name, module, extra):
    code = f"import sys; sys.modules['{module}'] = None\nimport eupg.learn\neupg.learn.{name}"
    assert f"{name} needs {module}: pip install 'eupg[{extra}]'" in run(code).stderr


def test_command_line_names_the_extra_to_install():
    code = "import sys; sys.modules['xgboost'] = None\nfrom eupg.cli import main\nsys.exit(main(['demo']))"
    result = run(code)
    assert result.returncode == 2
    assert "needs xgboost: pip install 'eupg[demo]'" in " ".join(result.stdout.split())


def test_the_help_says_where_the_experiments_are():
    result = run("import sys; from eupg.cli import main; sys.exit(main(['--help']))")
    assert "eupg-reproduction" in "".join(result.stdout.split())
    assert "bench" not in result.stdout


def test_the_library_runs_without_the_reproduction_of_the_paper():
    code = "import sys; sys.modules['eupg_reproduction'] = None\n"
    code += "from eupg.cli.names import LearnerName\nfrom eupg.learn.recipes import careful_recipe, paper_recipe\n"
    code += "print([bool(paper_recipe(name) and careful_recipe(name)) for name in LearnerName])"
    assert run(code).stdout.strip() == "[True, True, True, True]"


def test_protect_offers_mdav_as_a_function():
    from eupg.protect import mdav

    assert mdav([[0.0], [0.1], [9.0], [9.1]], 2).tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])


def test_every_error_is_in_one_tree():
    errors = importlib.import_module("eupg.errors")
    kinds = [v for v in vars(errors).values() if isinstance(v, type)]
    assert all(issubclass(k, errors.EupgError) for k in kinds)
    assert all(k.__name__ in (errors.__doc__ or "") for k in kinds)
