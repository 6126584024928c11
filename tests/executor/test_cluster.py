"""A Ray cluster gives the same bytes as one process, also when a machine is lost; skipped where Ray is absent."""

import importlib.util
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tasks
from eupg.errors import MissingFramework
from eupg.executor import Executor, InProcess, RayCluster
from eupg.executor.executor import in_order
from eupg.protect import protect_files
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
    """A cluster of three machines, one of which is killed while cells are grouped."""

    cluster: Any

    def map(self, work: Any, items: Any) -> Iterator[tuple[int, Any]]:
        for count, result in enumerate(RayCluster().map(work, items)):
            if count == 0 and work.func.__name__ == "group_cell":
                self.cluster.remove_node(self.cluster.list_all_nodes()[-1], allow_graceful=False)
            yield result


@pytest.mark.filterwarnings("ignore")
def test_three_machines_of_which_one_is_lost_write_the_bytes_of_one_process(cluster: Any, tmp_path: Path):
    assert in_order(RayCluster(), tasks.doubled, list(range(7))) == [0, 2, 4, 6, 8, 10, 12]
    with pytest.raises(KeyError, match="task 1 is wrong"):
        list(RayCluster().map(tasks.fails, [1]))
    people(3000).to_parquet(tmp_path / "table.parquet", row_group_size=500)
    machines = len(cluster.list_all_nodes())
    executors: dict[str, Executor] = {"one": InProcess(), "cluster": _LosesAMachine(cluster)}
    for name, executor in executors.items():
        source = tmp_path / "table.parquet"
        protect_files(source, SCHEMA, tmp_path / name, k=5, cell=200, part=700, rng=Seeded(7), executor=executor)
    assert (machines, len(cluster.list_all_nodes())) == (3, 2)
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "cluster")
