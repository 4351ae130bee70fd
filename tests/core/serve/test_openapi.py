"""The OpenAPI document is true: nothing that fits it makes the server fail, and answers are as it states."""

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)


@pytest.fixture(scope="module")
def api(client, viewer):
    made = schemathesis.openapi.from_dict(client.get("/api/openapi.json").json())
    made.config.update(base_url=viewer.origin)
    return made


schema = schemathesis.pytest.from_fixture("api")


@schema.parametrize()
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_no_example_makes_the_server_fail(case, viewer):
    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
    case.call_and_validate(headers={"authorization": f"Bearer {viewer.token}"}, checks=checks)


def test_every_route_is_described_and_asks_for_the_token(client):
    told = client.get("/api/openapi.json").json()
    assert told["security"] == [{"token": []}] and "token" in told["components"]["securitySchemes"]
    for path, routes in told["paths"].items():
        for method, route in routes.items():
            assert route.get("summary") and route.get("description"), (method, path)
            assert {"401", "404", "422", "503"} <= set(route["responses"]), (method, path)
