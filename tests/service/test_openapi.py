"""The description of the API holds: whatever is sent, the answer is a documented one, and never an error of ours.

``EUPG_API_EXAMPLES`` sets the number of calls per operation.
"""

import os

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from eupg.service.access import ServiceRole
from serving import running, settings_for

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = int(os.environ.get("EUPG_API_EXAMPLES", "12"))


@pytest.fixture(scope="module")
def described(trained, tmp_path_factory):
    """A service with one request in it, which every role may call."""
    import shutil

    folder = tmp_path_factory.mktemp("described") / "models"
    shutil.copytree(trained, folder)
    for live in running(settings_for(folder)):
        live.key("everything", *ServiceRole)
        live.file("somebody")
        yield live


@pytest.fixture(scope="module")
def api(described):
    return schemathesis.openapi.from_asgi("/v1/openapi.json", described.client.app)


def test_every_answer_is_documented(api, described):
    operations = [result.ok() for result in api.get_all_operations()]
    assert len(operations) > 25
    for operation in operations:

        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
        @given(case=operation.as_strategy())
        def call(case):
            case.call_and_validate(headers=described.key("everything"), checks=CHECKS)

        call()


def test_every_operation_has_a_summary_and_its_problems(described):
    document = described.client.get("/v1/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], (method, path)
            assert operation["description"], (method, path)
            if path.startswith("/v1"):
                assert {"401", "403", "422", "429"} <= set(operation["responses"]) or path in (
                    "/v1/key",
                    "/v1/certificates/verify",
                )
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    assert set(response["content"]) == {"application/problem+json"}, (method, path, status)
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if body is not None:
                where = body["schema"].get("$ref", "").rpartition("/")[2]
                schema = document["components"]["schemas"].get(where, body["schema"])
                assert "example" in schema or "examples" in schema or "examples" in body, (method, path)


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b'{"identities": {"subject": "1"}}' + b" " * 300_000, 413),
        (b'{"identities": ' + b"[" * 5000 + b"]" * 5000 + b"}", 422),
        (b"not JSON", 422),
        (b'{"identities": {"subject": "\\ud800"}}', 422),
        (b'{"identities": {"subject": "a\\u0000b"}}', 422),
        (b'{"identities": {"subject": "' + b"x" * 501 + b'"}}', 422),
        (b'{"identities": {}}', 422),
        (b'{"identities": {"subject": "1"}, "more": 1}', 422),
    ],
)
def test_what_cannot_be_read_is_a_problem_that_repeats_nothing(empty, content, status):
    headers = empty.as_role(ServiceRole.INTAKE) | {"Content-Type": "application/json"}
    answer = empty.client.post("/v1/requests", content=content, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "detail"} <= set(answer.json())
    assert "xxxx" not in answer.text


def test_unknown_addresses_and_methods_are_problems(empty):
    for method, path, status in (("GET", "/v1/nothing", 404), ("PUT", "/v1/requests", 405)):
        answer = empty.client.request(method, path, headers=empty.as_role(ServiceRole.INTAKE))
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


def test_an_unexpected_error_says_nothing_about_its_cause(empty, monkeypatch, caplog):
    from eupg.service.requests import Requests

    def fail(*_):
        raise RuntimeError("person 4711")

    monkeypatch.setattr(Requests, "search", fail)
    answer = empty.client.get("/v1/requests", headers=empty.as_role(ServiceRole.REVIEW))
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "4711" not in answer.text
