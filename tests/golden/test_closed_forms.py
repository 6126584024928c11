"""Channels against probabilities worked out by hand; the file names its sources."""

import json
from pathlib import Path

import pytest

from eupg.protect.channel import TOTAL, LaplaceChannel, randomised_response

GOLDEN = json.loads((Path(__file__).parent / "closed_forms.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", GOLDEN["randomised_response"]["cases"])
def test_randomised_response(case):
    weights = randomised_response(case["size"], case["epsilon"]).weights / TOTAL
    tolerance = GOLDEN["randomised_response"]["tolerance"]
    assert weights[0, 0] == pytest.approx(case["truth"], abs=tolerance)
    assert weights[0, 1] == pytest.approx(case["other"], abs=tolerance)


@pytest.mark.parametrize("case", GOLDEN["clamped_geometric"]["cases"])
def test_clamped_geometric(case):
    row = LaplaceChannel.build(case["size"], case["epsilon"]).matrix()[case["row"]] / TOTAL
    assert row.tolist() == pytest.approx(case["probabilities"], abs=GOLDEN["clamped_geometric"]["tolerance"])
