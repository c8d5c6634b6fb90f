"""The component `monitoring`: expressions use metrics and labels that exist, alerts have runbooks.

The expressions are not parsed here; names are found by their form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from plugins import preemption_loops
from scheduler.metrics import DEFINITIONS
from scheduler.metrics.definitions import Kind
from scheduler.service.serving.slis import HEALTHCHECK, HEALTHCHECKS_TOTAL
from tests.unit.repository.tree import ROOT

COMPONENT: Final = ROOT / "manifests" / "components" / "monitoring"
TROUBLESHOOTING: Final = ROOT / "docs" / "troubleshooting.md"

TARGET_LABELS: Final = frozenset({"job", "namespace", "instance", "metrics_path"})
"""Added by the ServiceMonitor to every series."""

RECORDED: Final = {"kubestow:pending_pods": frozenset({"queue"})}
"""Recording rules and the labels of their results beside the namespace."""


def labels_by_series() -> dict[str, frozenset[str]]:
    """Return the labels of every series that Prometheus may have of kubestow."""
    series = {"up": frozenset[str](), **RECORDED}
    for each in (*DEFINITIONS, HEALTHCHECK, HEALTHCHECKS_TOTAL):
        if each.kind is Kind.HISTOGRAM:
            series |= {f"{each.name}_{part}": frozenset(each.labels) for part in ("sum", "count")}
            series[f"{each.name}_bucket"] = frozenset(each.labels) | {"le"}
        else:
            series[each.name] = frozenset(each.labels)
    series |= {each.name: frozenset(each.labels) for each in preemption_loops.METRICS}
    return {name: labels | TARGET_LABELS for name, labels in series.items()}


SERIES: Final = labels_by_series()

OF_TENANTS: Final = {each.name for each in DEFINITIONS if "namespace" in each.labels}
"""Metrics whose label `namespace` is not that of the scheduler (`honorLabels`)."""


def rules(kind: str) -> list[dict[str, Any]]:
    """Return the rules that have the key `kind`: `alert` or `record`."""
    document = yaml.safe_load((COMPONENT / "rules.yaml").read_text())
    return [rule for group in document["spec"]["groups"] for rule in group["rules"] if kind in rule]


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana gets it."""
    document = yaml.safe_load((COMPONENT / "dashboard.yaml").read_text())
    found: dict[str, Any] = json.loads(document["data"]["kubestow.json"])
    return found


def panels() -> list[dict[str, Any]]:
    """Return the panels of the dashboard."""
    found: list[dict[str, Any]] = dashboard()["panels"]
    return found


def expressions() -> Iterator[tuple[str, str]]:
    """Yield the name of each rule or panel and its expression."""
    for rule in rules("alert") + rules("record"):
        yield rule.get("alert") or rule["record"], rule["expr"]
    for panel in panels():
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])


def problems(expression: str) -> list[str]:
    """Return what is wrong with the series and labels of an expression."""
    found: list[str] = []
    used: set[str] = set()
    for name, matchers in re.findall(r"([a-z_:]+)\{([^}]*)\}", expression):
        if name not in SERIES:
            found.append(f"no metric {name}")
            continue
        used |= SERIES[name]
        labels = re.findall(r"([a-z_]+)(?:=~|!~|!=|=)", re.sub(r'"[^"]*"', "", matchers))
        found += [f"{name} has no label {label}" for label in labels if label not in SERIES[name]]
    if not used:
        found.append("no metric at all")
    for listed in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression):
        grouped = [label.strip() for label in listed.split(",")]
        found += [f"no series has the label {label}" for label in grouped if label not in used]
    return found


@pytest.mark.parametrize(("name", "expression"), list(expressions()), ids=lambda text: text[:30])
def test_series_and_labels_of_every_expression_exist(name: str, expression: str) -> None:
    assert problems(expression) == [], name


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ('kubestow_nothing_total{job="kubestow"} > 0', "no metric kubestow_nothing_total"),
        ('scheduler_pending_pods{node="n"}', "scheduler_pending_pods has no label node"),
        ("sum by (plugin) (scheduler_pending_pods{})", "no series has the label plugin"),
    ],
)
def test_what_does_not_exist_is_found(expression: str, problem: str) -> None:
    assert problem in problems(expression)


@pytest.mark.parametrize("alert", rules("alert"), ids=lambda rule: str(rule["alert"]))
def test_an_alert_says_how_bad_what_and_what_to_do(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
    page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
    assert page == str(TROUBLESHOOTING.relative_to(ROOT))
    assert anchor == alert["alert"].lower()


def test_runbooks_and_alerts_are_the_same() -> None:
    headings = re.findall(r"^### (Kubestow\w+)$", TROUBLESHOOTING.read_text(), re.MULTILINE)
    assert headings == [alert["alert"] for alert in rules("alert")]


def test_the_alerts_that_are_no_warnings_are_listed() -> None:
    _, _, chapter = TROUBLESHOOTING.read_text().partition("## Alerts")
    for severity, words in (("critical", "are critical"), ("info", "are for information")):
        (sentence,) = re.findall(rf"\.\s([^.]*) {words}\.", chapter)
        expected = [
            each["alert"] for each in rules("alert") if each["labels"]["severity"] == severity
        ]
        assert re.findall(r"Kubestow\w+", sentence) == expected


def test_every_recorded_name_is_known_to_the_other_tests() -> None:
    assert {rule["record"] for rule in rules("record")} == set(RECORDED)


def test_panels_do_not_overlap() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels()]
    assert len(set(places)) == len(places)
    assert len({panel["id"] for panel in panels()}) == len(places)


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: str(panel["title"]))
def test_a_panel_says_what_it_shows_and_follows_the_variables(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    for target in panel["targets"]:
        selectors = re.findall(r"(\w+)\{([^}]*)\}", target["expr"])
        assert selectors
        for name, matchers in selectors:
            assert 'instance=~"$instance"' in matchers
            # Of a metric with a label `namespace` of its own, that is a tenant's.
            assert ('namespace=~"$namespace"' in matchers) != (name in OF_TENANTS)


def test_metrics_named_in_the_documents_exist() -> None:
    named = set[str]()
    for page in ("monitoring.md", "troubleshooting.md"):
        text = (ROOT / "docs" / page).read_text()
        named |= set(re.findall(r"`((?:scheduler|kubestow|rest_client)_[a-z_]+)[`{]", text))
    assert named, "the pattern finds names"
    assert named <= {each.name for each in DEFINITIONS}


def test_the_service_monitor_selects_the_service_and_its_port() -> None:
    service, monitor = yaml.safe_load_all((COMPONENT / "scraping.yaml").read_text())
    assert monitor["spec"]["selector"]["matchLabels"] == service["metadata"]["labels"]
    assert service["metadata"]["labels"][monitor["spec"]["jobLabel"]] == "kubestow"
    endpoints = monitor["spec"]["endpoints"]
    assert {each["port"] for each in endpoints} == {
        each["name"] for each in service["spec"]["ports"]
    }
    assert [each.get("path", "/metrics") for each in endpoints] == ["/metrics", "/metrics/slis"]
    relabeled = [rule["targetLabel"] for each in endpoints for rule in each["relabelings"]]
    assert relabeled == ["metrics_path"] * 2, "without it both write the same series of `up`"
