"""Services over two small workspaces, which are trained once and copied."""

import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import create_engine, text

from eupg import Manager
from managed import HELD_OUT, METHOD, RECORDS
from serving import Running, running, settings_for

POSTGRES = os.environ.get("EUPG_TEST_POSTGRES")


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """Two workspaces: one holds persons 0 to 49, the other persons 0 to 24."""
    folder = tmp_path_factory.mktemp("models")
    for name, records in (("all", RECORDS), ("half", RECORDS.select(np.arange(len(RECORDS)) < 75))):
        manager = Manager(folder / name, METHOD)
        manager.train(records, hold_out=HELD_OUT)
        manager.close()
    return folder


@pytest.fixture
def folder(trained, tmp_path) -> Path:
    copy = tmp_path / "models"
    shutil.copytree(trained, copy)
    return copy


@pytest.fixture
def live(folder) -> Iterator[Running]:
    """A service over SQLite."""
    yield from running(settings_for(folder))


@pytest.fixture(scope="module")
def empty(tmp_path_factory) -> Iterator[Running]:
    """A service without models, shared by the tests of a file."""
    yield from running(settings_for(tmp_path_factory.mktemp("empty")))


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param(
            "postgresql",
            marks=pytest.mark.skipif(not POSTGRES, reason="EUPG_TEST_POSTGRES is not set: see .ci/postgres"),
        ),
    ]
)
def database(request) -> Iterator[str | None]:
    """The URL of an empty database, or None for SQLite."""
    if request.param == "sqlite":
        yield None
        return
    name = f"service_{uuid.uuid4().hex}"
    engine = create_engine(str(POSTGRES), isolation_level="AUTOCOMMIT", pool_pre_ping=True)
    with engine.connect() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
    yield f"{POSTGRES}&options=-csearch_path%3D{name}"
    with engine.connect() as connection:
        connection.execute(text(f"DROP SCHEMA {name} CASCADE"))
    engine.dispose()
