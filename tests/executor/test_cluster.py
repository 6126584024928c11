"""A Ray cluster gives the same bytes as one process, also when a machine is lost; skipped where Ray is absent."""

import importlib.util
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tasks
from eupg import ExactTrees, PrivateTrees, Retrain
from eupg.audit.membership.references import complementary_halves, train_references
from eupg.data import Dataset
from eupg.errors import MissingFramework
from eupg.executor import Executor, InProcess, RayCluster
from eupg.executor.executor import in_order
from eupg.learn import XGBoostLearner
from eupg.protect import DPSynthesis, protect_files
from eupg.protect.streaming import record_parts
from eupg.protect.streaming.chunks import chunks_of
from eupg.rng import Seeded
from large import SCHEMA, bytes_of, people

HAS_RAY = importlib.util.find_spec("ray") is not None


def test_absent_ray_names_the_extra_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingFramework, match=r"RayCluster needs ray: pip install 'eupg\[ray\]'"):
        list(RayCluster().map(abs, [1]))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    if not HAS_RAY:
        pytest.skip("Ray is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ray
        from ray.cluster_utils import Cluster

        machines = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        try:
            for _ in range(2):
                machines.add_node(num_cpus=1)
            paths = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
            ray.init(address=machines.address, runtime_env={"env_vars": paths}, log_to_driver=False)
            yield machines
        finally:
            ray.shutdown()
            machines.shutdown()


@dataclass(frozen=True)
class _LosesAMachine:
    """A cluster of three machines, one of which is killed while the named work is done for the first time."""

    cluster: Any
    work: str
    lost: list[str] = field(default_factory=list)

    def map(self, work: Any, items: Any) -> Iterator[tuple[int, Any]]:
        for count, result in enumerate(RayCluster().map(work, items)):
            if count == 0 and work.func.__name__ == self.work and not self.lost:
                self.cluster.remove_node(self.cluster.list_all_nodes()[-1], allow_graceful=False)
                self.lost.append(self.work)
            yield result


@pytest.mark.filterwarnings("ignore")
def test_three_machines_of_which_one_is_lost_write_the_bytes_of_one_process(cluster: Any, tmp_path: Path):
    assert in_order(RayCluster(), tasks.doubled, list(range(7))) == [0, 2, 4, 6, 8, 10, 12]
    with pytest.raises(KeyError, match="task 1 is wrong"):
        list(RayCluster().map(tasks.fails, [1]))
    people(3000).to_parquet(tmp_path / "table.parquet", row_group_size=500)
    machines = len(cluster.list_all_nodes())
    executors: dict[str, Executor] = {"one": InProcess(), "cluster": _LosesAMachine(cluster, "group_cell")}
    for name, executor in executors.items():
        source = tmp_path / "table.parquet"
        protect_files(source, SCHEMA, tmp_path / name, k=5, cell=200, part=700, rng=Seeded(7), executor=executor)
    assert (machines, len(cluster.list_all_nodes())) == (3, 2)
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "cluster")


def _objects(ray: Any) -> int:
    """Return how many objects the stores of all machines hold."""
    from ray._private.internal_api import node_stats

    machines = [node for node in ray.nodes() if node["Alive"]]
    replies = [node_stats(node["NodeManagerAddress"], node["NodeManagerPort"]) for node in machines]
    return sum(int(reply.store_stats.num_local_objects) for reply in replies)


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ending", ["all results", "an error", "one result"])
def test_no_object_outlives_a_call_on_any_machine(cluster: Any, ending: str):
    import ray

    _wait(lambda: _objects(ray) == 0)
    # Large enough for the object store.
    records = np.arange(1_000_000)
    results = RayCluster().map(
        partial(tasks.fails_at if ending == "an error" else tasks.entry, records), list(range(9))
    )
    seen = [next(results)]
    assert _objects(ray) > 0
    if ending == "one result":
        results.close()
    else:
        with pytest.raises(KeyError) if ending == "an error" else nullcontext() as error:
            seen += results
        assert (sorted(seen) == [(i, i) for i in range(9)]) is (error is None)
    # Also while somebody still holds the error.
    _wait(lambda: _objects(ray) == 0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("lost", ["_sums", "_pairs", "_count_chunk", "_train_one"])
def test_sums_and_references_are_those_of_one_process_also_when_a_machine_is_lost(
    cluster: Any, tmp_path: Path, lost: str, monkeypatch: pytest.MonkeyPatch
):
    while len(cluster.list_all_nodes()) < 3:
        cluster.add_node(num_cpus=1)
    monkeypatch.setattr(chunks_of, "__kwdefaults__", {"rows": 300})
    monkeypatch.setattr(record_parts, "ROWS", 300)
    frame = people(1500)
    frame["person"] = [f"P{i % 600}" for i in range(1500)]
    frame.to_parquet(tmp_path / "table.parquet", row_group_size=300)
    losing = _LosesAMachine(cluster, lost)
    data = Dataset.read(tmp_path / "table.parquet", SCHEMA)
    first, second = (_made(lost, tmp_path / "table.parquet", data, executor) for executor in (InProcess(), losing))
    assert losing.lost == [lost]
    assert len(cluster.list_all_nodes()) == 2
    np.testing.assert_array_equal(first, second)


def _made(work: str, path: Path, data: Dataset, executor: Executor) -> Any:
    if work == "_sums":
        method = PrivateTrees(1.0, 0.0, 2)
        return method.pretrain_files(path, SCHEMA, rng=Seeded(7), executor=executor, part=300)[0].scores
    if work == "_pairs":
        return DPSynthesis(4.0).protect_files(path, SCHEMA, rng=Seeded(7), executor=executor, part=300).X
    if work == "_count_chunk":
        return ExactTrees(most_cells=100).count_files(path, SCHEMA, executor=executor).model.scores
    halves = complementary_halves(np.zeros(len(data), dtype=np.int64), 6, np.random.default_rng(1))
    recipe = Retrain(XGBoostLearner(threads=1), effort=2)
    return train_references(recipe, data, halves, seed=3, executor=executor).probabilities
