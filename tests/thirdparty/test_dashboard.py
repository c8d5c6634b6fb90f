"""The dashboard of `manifests/components/monitoring`, checked by Grafana's published schema.

The program `dashboard` decodes it strictly into the Go types that Grafana generates from its
schema. Queries are evaluated in `test_alert_rules`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.thirdparty.build import BUILD_DIRECTORY
from tests.unit.repository.test_monitoring import dashboard

pytestmark = pytest.mark.thirdparty("dashboard")

Document = dict[str, Any]


def _problems(document: Document) -> list[str]:
    done = subprocess.run(
        [BUILD_DIRECTORY / "dashboard"],
        input=json.dumps(document),
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    return done.stdout.splitlines()


def test_the_dashboard_follows_the_schema() -> None:
    assert _problems(dashboard()) == []


def _unknown_option(document: Document) -> None:
    document["panels"][0]["options"]["colourMode"] = "value"


def _unknown_field_of_a_query(document: Document) -> None:
    document["panels"][0]["targets"][0]["legend"] = "Leaders"


def _wrong_type(document: Document) -> None:
    document["panels"][0]["fieldConfig"]["defaults"]["unit"] = 3


def _no_query(document: Document) -> None:
    del document["panels"][0]["targets"][0]["expr"]


FAULTS: Final[dict[Callable[[Document], None], str]] = {
    _unknown_option: "panels[0].options.Options: unexpected field 'colourMode'",
    _unknown_field_of_a_query: "panels[0].targets[0].Dataquery: unexpected field 'legend'",
    _wrong_type: "panels[0].fieldConfig: json: cannot unmarshal number into Go struct field ",
    _no_query: "panels[0].targets[0].expr: required field is missing from input",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__.strip("_"))
def test_a_fault_is_found(fault: Callable[[Document], None]) -> None:
    document = dashboard()
    fault(document)
    (problem,) = _problems(document)
    assert problem.startswith(FAULTS[fault])
