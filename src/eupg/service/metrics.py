"""Metrics in the format of Prometheus: calls of this process, and the state of all requests from the database."""

from __future__ import annotations

import os

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from eupg.service.service import Service

CALLS = CollectorRegistry()
CALLS_TOTAL = Counter("eupg_http_calls", "Calls answered.", ["method", "route", "status"], registry=CALLS)
CALL_SECONDS = Histogram("eupg_http_call_seconds", "Time to answer a call.", ["route"], registry=CALLS)


def rendered(service: Service) -> tuple[bytes, str]:
    """Return all metrics, and their content type."""
    registry = CALLS
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry) + generate_latest(_state(service)), CONTENT_TYPE_LATEST


def _state(service: Service) -> CollectorRegistry:
    """Count what is in the database; the same in every process."""
    registry = CollectorRegistry()
    counts = service.database.book.status()
    by_state = Gauge("eupg_requests", "Requests by state.", ["state"], registry=registry)
    for state, number in counts.counts.items():
        by_state.labels(str(state)).set(number)
    Gauge("eupg_requests_overdue", "Open requests whose deadline has passed.", registry=registry).set(counts.overdue)
    Gauge("eupg_models", "Workspaces with a trained model.", registry=registry).set(len(service.models.names()))
    Gauge("eupg_messages_waiting", "Callbacks that wait to be delivered.", registry=registry).set(
        service.messages_waiting()
    )
    seen = service.worker_seen()
    Gauge("eupg_worker_seen_timestamp_seconds", "When a worker was last seen.", registry=registry).set(seen or 0)
    return registry
