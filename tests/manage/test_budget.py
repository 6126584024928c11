"""The privacy budget of a workspace: what releases spend, what the ledger and the status say, and the limit."""

from contextlib import closing

import pytest

from eupg import EUPG, Manager, PrivateTrees, Seeded
from eupg.cli import main
from eupg.errors import ParameterError, PrivacyError
from eupg.learn import LeafLearner, SklearnLearner
from eupg.manage.budget import Spent
from eupg.protect import DPSynthesis, ProbabilisticKAnonymity
from managed import HELD_OUT, RECORDS

PRIVATE = EUPG(PrivateTrees(epsilon=2.0, delta=1e-5), LeafLearner(), pretrain=1, finetune=0, exposure=0)


@pytest.fixture
def manager(tmp_path):
    with closing(Manager(tmp_path / "w", PRIVATE, rng=Seeded(1))) as opened:
        opened.train(RECORDS, hold_out=HELD_OUT)
        yield opened


def spent_in_ledger(manager):
    return [entry.body["spent"] for entry in manager.space.ledger.entries(kinds=["protect"])]


def test_budgets_of_releases_add_up_in_status_and_ledger(manager):
    assert manager.status().budget.total == Spent(2.0, 1e-5)
    manager.renew()
    budget = manager.status().budget
    assert budget.releases == (Spent(2.0, 1e-5), Spent(2.0, 1e-5))
    assert budget.total == Spent(4.0, 2e-5)
    assert budget.limit is None
    assert spent_in_ledger(manager) == [{"epsilon": 2.0, "delta": 1e-5}, {"epsilon": 4.0, "delta": 2e-5}]


def test_an_erasure_spends_nothing(manager):
    manager.request_erasure(subject="p3")
    manager.forget()
    assert manager.status().budget.total == Spent(2.0, 1e-5)


def test_a_release_beyond_the_limit_is_refused_and_changes_nothing(manager):
    manager.limit_budget(epsilon=4.0, delta=1e-4)
    manager.renew()
    served = manager.status().served
    with pytest.raises(PrivacyError, match=r"would be ε = 6, δ = 3e-05, beyond the limit of ε = 4, δ = 0.0001"):
        manager.renew()
    assert manager.status().served == served
    assert len(manager.status().budget.releases) == 2
    manager.limit_budget(epsilon=6.0, delta=1e-4)
    manager.renew()
    total = manager.status().budget.total
    assert total is not None
    assert (total.epsilon, total.delta) == pytest.approx((6.0, 3e-5))


def test_delta_is_limited_too(manager):
    manager.limit_budget(epsilon=100.0, delta=1e-5)
    with pytest.raises(PrivacyError, match="beyond the limit"):
        manager.renew()


def test_limit_holds_for_whoever_opens_the_workspace_next(manager):
    manager.limit_budget(epsilon=2.0, delta=1e-5)
    with closing(Manager(manager.space.folder, rng=Seeded(2))) as other, pytest.raises(PrivacyError, match="limit"):
        other.renew()


def test_a_limit_must_be_a_budget(manager):
    with pytest.raises(ParameterError, match="epsilon must be a positive finite number"):
        manager.limit_budget(epsilon=0.0)
    with pytest.raises(ParameterError, match="delta must be a number from 0 to below 1"):
        manager.limit_budget(epsilon=1.0, delta=1.0)


def test_pure_and_approximate_budgets_are_both_counted(tmp_path):
    method = EUPG(DPSynthesis(1.0), SklearnLearner(), pretrain=1, finetune=1)
    with closing(Manager(tmp_path / "w", method, rng=Seeded(1))) as manager:
        manager.train(RECORDS, hold_out=HELD_OUT)
        manager.renew()
        assert manager.status().budget.total == Spent(2.0, 0.0)
        assert str(manager.status().budget.total) == "ε = 2"


def test_a_workspace_without_differential_privacy_has_no_budget(tmp_path):
    method = EUPG(ProbabilisticKAnonymity(5), SklearnLearner(), pretrain=1, finetune=1)
    with closing(Manager(tmp_path / "w", method, rng=Seeded(1))) as manager:
        manager.train(RECORDS, hold_out=HELD_OUT)
        budget = manager.status().budget
        assert budget.releases == (None,)
        assert budget.total is None
        manager.limit_budget(epsilon=1.0)
        with pytest.raises(PrivacyError, match="would not be differentially private"):
            manager.renew()


def test_command_line_shows_and_limits_the_budget(manager, capsys):
    folder = str(manager.space.folder)
    manager.close()
    assert main(["limit", "--workspace", folder, "--epsilon", "3", "--delta", "3e-5"]) == 0
    assert "release 1 ε = 2, δ = 1e-05; limit ε = 3, δ = 3e-05." in " ".join(capsys.readouterr().out.split())
    assert main(["status", "--workspace", folder]) == 0
    assert "Privacy budget: release 1 ε = 2, δ = 1e-05; limit ε = 3" in " ".join(capsys.readouterr().out.split())
    assert main(["renew", "--workspace", folder]) == 2
    assert "beyond the limit" in " ".join(capsys.readouterr().out.split())
