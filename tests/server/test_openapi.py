"""What OpenAPI says is so: schemathesis calls every operation with what its schema allows, and with what not."""

from __future__ import annotations

import collections

import pytest
from fake_core import DIGEST, FakeCore
from hypothesis import HealthCheck, Phase, given, settings

from smoothcert.server import schema
from smoothcert.server.app import OPERATIONS, application

schemathesis = pytest.importorskip("schemathesis")
from schemathesis import checks  # noqa: E402

AS_SAID = (
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
)
BOUNDED = settings(
    max_examples=25, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


@pytest.mark.parametrize("mode", schemathesis.GenerationMode)
def test_every_operation_answers_as_it_says(mode, port: int) -> None:
    call_every_operation(mode, port, DIGEST)


def call_every_operation(mode, port: int, version: str) -> None:
    """Of the service `tiny` at this port."""
    true = {"name": "tiny", "version": version}  # by chance no path finds the model
    document = schemathesis.openapi.from_url(f"http://127.0.0.1:{port}/openapi.json")
    operations = [found.ok() for found in document.get_all_operations()]
    assert len(operations) == sum(len(operation.paths) for operation in OPERATIONS)
    parsed = collections.Counter()  # statuses of bodies that were looked at
    for operation in operations:

        @BOUNDED
        @given(operation.as_strategy(generation_mode=mode))
        def call(case) -> None:
            case.call_and_validate(checks=AS_SAID)
            case.path_parameters = {name: true.get(name, value) for name, value in case.path_parameters.items()}
            status = case.call_and_validate(checks=AS_SAID).status_code
            parsed.update([status] if case.method == "POST" else [])

        if mode is schemathesis.GenerationMode.POSITIVE or operation.body:  # any text is a good path
            call()
    assert set(parsed) <= {200, 400} and parsed[400], parsed


def test_the_document_names_every_operation_and_refusal() -> None:
    core = FakeCore()
    document = application(core, None).openapi()
    assert set(document["paths"]) == {path for operation in OPERATIONS for path in operation.paths}
    for methods in document["paths"].values():
        for operation in methods.values():
            assert {"200", "400", "500", "default"} <= set(operation["responses"])
            assert "422" not in operation["responses"]
            assert ("401" in operation["responses"]) == ("security" in operation)
    assert document["components"]["schemas"]["InferRequest"]["examples"] == [schema.example(core.model)]
