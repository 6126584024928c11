"""Rewind-to-Delete ends as close to a training without the records as its bound says, and claims no more."""

import numpy as np
import pytest

from eupg import Seeded
from eupg.checks import check_unlearner
from eupg.errors import ParameterError
from eupg.guarantees import CertifiedUnlearning
from eupg.guarantees.gaussian import gaussian_epsilon, gaussian_ratio
from eupg_reproduction.rivals.rewind import Checkpoint, LinearModel, RewindToDelete, scaled
from small_people import small_people

DATA = small_people(400)
ROWS = scaled(DATA.schema, DATA.X)


@pytest.mark.parametrize(("penalty", "rewound"), [(0.003, 5), (0.01, 30), (0.1, 60)])
@pytest.mark.parametrize("leaving", [1, 20, 200])
def test_the_distance_to_a_training_without_them_is_within_the_bound(penalty, rewound, leaving):
    method = RewindToDelete(penalty, steps=60, rewound=rewound)
    # The worst of orders: those who leave all have one label.
    order = np.argsort(-DATA.y, kind="stable")
    kept = order[leaving:]
    start = np.zeros(ROWS.shape[1])
    checkpoint = method._descended(start, ROWS, DATA.y, 60 - rewound)
    rewound_weights = method._descended(checkpoint, ROWS[kept], DATA.y[kept], rewound)
    never = method._descended(start, ROWS[kept], DATA.y[kept], 60)
    apart = np.linalg.norm(rewound_weights - never)
    assert apart <= method.distance(leaving, len(DATA)) + 1e-5
    if rewound < 60:
        assert apart > 0


def test_rows_are_no_longer_than_one():
    assert np.linalg.norm(ROWS, axis=1).max() <= 1


def test_the_claim_covers_those_who_left_and_whoever_leaves_next():
    method = RewindToDelete(0.01, steps=60, rewound=30, records=2)
    trained = method.train(DATA, Seeded(1))
    assert isinstance(trained.memory, Checkpoint)
    assert isinstance(trained.claim, CertifiedUnlearning)
    most = trained.memory.most
    assert most == np.unique(DATA.subjects, return_counts=True)[1].max()
    # Noise for two records, and somebody has three.
    assert trained.claim.epsilon == pytest.approx(gaussian_epsilon(1.5 * gaussian_ratio(1.0, 1e-5), 1e-5))
    after = method.forget(trained, DATA.select(np.arange(400) >= 40), Seeded(2))
    assert isinstance(after.claim, CertifiedUnlearning)
    ratio = method.distance(40 + most, 400) / method.sigma(most, 400)
    assert after.claim.epsilon == pytest.approx(gaussian_epsilon(ratio, 1e-5))
    assert after.claim.epsilon > 5 * trained.claim.epsilon


def test_it_keeps_the_contract():
    check_unlearner(RewindToDelete(0.01, steps=20, rewound=8), DATA)


def test_a_seed_repeats_and_another_draws_other_noise():
    method = RewindToDelete(0.01, steps=20, rewound=8)
    models = [method.train(DATA, Seeded(seed)).model for seed in (1, 1, 2)]
    first, again, other = (model.weights for model in models if isinstance(model, LinearModel))
    assert np.array_equal(first, again)
    spread = np.std(first - other) / (np.sqrt(2) * method.sigma(3, 400))
    assert 0.2 < spread < 5


def test_more_steps_than_there_were_are_refused():
    with pytest.raises(ParameterError, match="at most 10"):
        RewindToDelete(0.01, steps=10, rewound=11)
