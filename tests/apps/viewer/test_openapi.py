"""The OpenAPI document is true: nothing that fits it makes the server fail, and answers are as it states."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

pytestmark = pytest.mark.slow

ROUTES = [
    ("GET", "/api/archive"),
    ("GET", "/api/slides"),
    ("GET", "/api/facets"),
    ("GET", "/api/slides/{key}"),
    ("GET", "/api/slides/{key}/thumbnail"),
    ("GET", "/api/slides/{key}/tiles/{level}/{column}/{row}"),
    ("GET", "/api/slides/{key}/field"),
    ("GET", "/api/slides/{key}/patches"),
    ("GET", "/api/slides/{key}/collections"),
    ("GET", "/api/slides/{key}/annotations"),
    ("PUT", "/api/slides/{key}/annotations"),
    ("GET", "/api/completions"),
    ("GET", "/api/files"),
    ("GET", "/api/readiness"),
    ("GET", "/api/searches"),
    ("GET", "/api/table"),
    ("GET", "/api/collections"),
    ("POST", "/api/collections"),
    ("PUT", "/api/collections/{number}"),
    ("DELETE", "/api/collections/{number}"),
    ("PUT", "/api/collections/{number}/slides/{key}"),
    ("DELETE", "/api/collections/{number}/slides/{key}"),
    ("POST", "/api/places"),
    ("POST", "/api/calibration"),
    ("POST", "/api/report"),
    ("POST", "/api/hits"),
    ("POST", "/api/geojson"),
    ("POST", "/api/search"),
    ("POST", "/api/explain"),
    ("POST", "/api/patches"),
    ("GET", "/api/patches/{patch}"),
]
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def document(client):
    return client.get("/api/openapi.json").json()


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_no_example_makes_the_server_fail(document, viewer, slides, method, path):
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=viewer.origin)
    known = [slide["key"] for slide in slides.values()]
    headers = {"authorization": f"Bearer {viewer.token}"}

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
    @given(case=schema[path][method].as_strategy())
    def check(case):
        case.call_and_validate(headers=headers, checks=CHECKS)
        # Once more with a slide that is there: made-up keys find nothing.
        if "key" in (case.path_parameters or {}):
            case.path_parameters["key"] = known[0]
        for slot in _slots(case.body):
            slot["slide" if "slide" in slot else "hit"] = known[1]
        case.call_and_validate(headers=headers, checks=CHECKS)

    check()


def _slots(body):
    """Return the parts of a body that name a slide."""
    found = [body, body.get("query")] if isinstance(body, dict) else []
    return [part for part in found if isinstance(part, dict) and ("slide" in part or "hit" in part)]


def test_the_routes_are_all_here(document):
    assert {(method.upper(), path) for path, routes in document["paths"].items() for method in routes} == set(ROUTES)


def test_every_route_is_described_and_asks_for_the_token(document):
    assert document["security"] == [{"token": []}] and "token" in document["components"]["securitySchemes"]
    for path, routes in document["paths"].items():
        for method, route in routes.items():
            assert route.get("summary") and route.get("description"), (method, path)
            assert {"401", "404", "422", "503"} <= set(route["responses"]), (method, path)
