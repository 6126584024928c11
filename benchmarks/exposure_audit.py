"""RMIA on people seen raw and on people never seen raw, before any erasure: ``python -m benchmarks.exposure_audit``.

XGBoost by the library's rule, k=30, 5 % exposed; 8 reference models of the same method; needs the data (EUPG_DATA).
"""

import numpy as np

from eupg import EUPG, RMIA, ProbabilisticKAnonymity, Seeded, sources
from eupg.audit import audit
from eupg.learn.recipes import xgboost_recipe


def main() -> None:
    """Print one line a set and group."""
    rule = xgboost_recipe()
    for name in ("adult", "heart", "credit"):
        source = getattr(sources, name)()
        for share in (0.05, 1.0):
            method = EUPG(
                ProbabilisticKAnonymity(30), rule.learner, rule.pretrain, rule.finetune, share, finetuner=rule.finetuner
            )
            trained = method.train(source.train, Seeded(0))
            seen = np.isin(source.train.ids, list(trained.ids))
            groups = {"seen raw": seen} if share == 1 else {"seen raw": seen, "never seen raw": ~seen}
            for group, mask in groups.items():
                rows = np.flatnonzero(mask)
                chosen = np.random.default_rng(0).permutation(rows)[:3000]
                members = np.isin(np.arange(len(mask)), chosen)
                found = audit(
                    trained.model,
                    source.train.select(members),
                    source.test,
                    attack=RMIA(),
                    references=8,
                    others=source.train.select(~members),
                    recipe=method,
                    baseline=trained.model,
                )
                tail = found.tails[0]
                print(
                    f"{name}, {share:.0%} exposed, {group}: AUC {found.auc:.1f} ({found.low:.1f} to {found.high:.1f}), "
                    f"TPR at 1 % {tail.tpr:.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
