"""The face of the package: what can be imported, how fast, and what is said when a framework is absent."""

import importlib
import subprocess
import sys

import pytest

import eupg

HEAVY = ("torch", "xgboost", "lightgbm", "numba", "sklearn", "pandas", "scipy", "matplotlib")


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_every_public_name_exists_and_is_listed_once():
    assert len(set(eupg.__all__)) == len(eupg.__all__)
    assert eupg.__all__ == sorted(eupg.__all__, key=str.lower)
    for name in eupg.__all__:
        assert getattr(eupg, name) is not None
    assert set(eupg.__all__) <= set(dir(eupg))


def test_homes_and_public_names_agree():
    assert set(eupg._HOME) | set(eupg._MODULES) == set(eupg.__all__)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = eupg.Nonsense


def test_import_pulls_in_no_framework():
    found = run(f"import eupg, sys; print([m for m in {HEAVY} if m in sys.modules])")
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [("XGBoostLearner", "xgboost", "xgboost"), ("TorchLearner", "torch", "torch"), ("MLP", "torch", "torch"),
     ("LightGBMLearner", "lightgbm", "lightgbm")],
)  # fmt: skip
def test_absent_framework_names_the_extra_to_install(name, module, extra):
    code = f"import sys; sys.modules['{module}'] = None\nimport eupg\neupg.{name}"
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
    code += "from eupg.cli.names import LEARNERS, careful_recipe, recipe\n"
    code += "print([bool(recipe(name) and careful_recipe(name)) for name in LEARNERS])"
    assert run(code).stdout.strip() == "[True, True, True, True]"


def test_protect_offers_mdav_as_a_function():
    from eupg.protect import mdav

    assert mdav([[0.0], [0.1], [9.0], [9.1]], 2).tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])


def test_every_error_is_in_one_tree():
    errors = importlib.import_module("eupg.errors")
    kinds = [v for v in vars(errors).values() if isinstance(v, type)]
    assert all(issubclass(k, errors.EupgError) for k in kinds)
    assert all(k.__name__ in (errors.__doc__ or "") for k in kinds)
