"""Wrong values: each is refused with its path, what is wrong, and what is right.

Helm checks the schema first and reports all violations at once; templates check what a schema
cannot say. Cases for every limit of the schema are demanded here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from tests.chart.conftest import CHART, Helm
from tests.chart.test_templates import Document, switch
from tests.unit.repository.tree import ROOT

pytestmark = pytest.mark.chart

SCHEMA: Final[Document] = json.loads((CHART / "values.schema.json").read_text())
LIMITS: Final = ("pattern", "enum", "minimum", "maximum", "minLength", "minItems", "required")
WRONG_OF_TYPE: Final = {
    "string": 1, "boolean": "yes", "integer": "two", "array": "x", "object": "x",
}  # fmt: skip
"""A value for each type of JSON that has another type."""


def described(schema: Document, path: str = "") -> Iterator[tuple[str, Document]]:
    """Yield path and schema of every value, `config` and `global` apart; items are `0`."""
    for name, below in schema.get("properties", {}).items():
        if name in {"config", "global"}:
            continue
        here = f"{path}/{name}"
        yield here, below
        yield from described(below, here)
        if "items" in below:
            yield f"{here}/0", below["items"]
            yield from described(below["items"], f"{here}/0")
        for part in (
            below.get("additionalProperties"),
            *below.get("patternProperties", {}).values(),
        ):
            if isinstance(part, dict):
                yield f"{here}/KEY", part


ALL: Final = dict(described(SCHEMA))
LEAVES: Final = {path: each for path, each in ALL.items() if "properties" not in each}


def nested(path: str, value: object) -> Document:
    """Return values that have `value` at `path`."""
    for name in reversed(path.strip("/").split("/")):
        value = [value] if name == "0" else {"a.py" if name == "KEY" else name: value}
    assert isinstance(value, dict)
    return value


def wrong_type(schema: Document) -> object:
    """Return a value that has none of the types of a schema."""
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return next(
        value
        for kind, value in [*WRONG_OF_TYPE.items(), ("none", True)]
        if kind not in types and not _is_of(value, types)
    )


def _is_of(value: object, types: list[str]) -> bool:
    names = {str: {"string"}, bool: {"boolean"}, int: {"integer", "number"}}
    return bool(names[type(value)] & set(types))


@pytest.mark.parametrize("path", LEAVES)
def test_a_value_of_another_type_is_refused(helm: Helm, path: str) -> None:
    message = helm.refusal(nested(path, wrong_type(LEAVES[path])))
    (line,) = [
        each for each in message.splitlines() if f"at '{path.replace('KEY', 'a.py')}'" in each
    ]
    assert ", want " in line
    assert line.count("at '") == 1


@pytest.mark.parametrize("path", ["", *(path for path in ALL if "properties" in ALL[path])])
def test_an_unknown_name_is_refused(helm: Helm, path: str) -> None:
    required = ALL[path].get("required", []) if path else []
    given = {name: right(ALL[f"{path}/{name}"]) for name in required}
    values = nested(path, {**given, "unknown": 1}) if path else {"unknown": 1}
    assert f"at '{path}': additional properties 'unknown' not allowed" in helm.refusal(values)


def right(schema: Document) -> object:
    """Return a value that a schema admits."""
    kinds = {"string": "a", "integer": 1, "array": ["a"]}
    return schema["enum"][0] if "enum" in schema else kinds[schema["type"]]


CONSTRAINT: Final = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
OUT_OF_LIMITS: Final[list[tuple[str, object]]] = [
    ("/name", "Upper"),
    ("/mode", "walk"),
    ("/shadow/of", []),
    ("/shadow/of/0", ""),
    ("/image/repository", "a:tag"),
    ("/image/tag", "a b"),
    ("/image/digest", "abc"),
    ("/image/pullPolicy", "Sometimes"),
    ("/image/pullSecrets/0", {}),
    ("/image/pullSecrets/0/name", ""),
    ("/replicas", -1),
    ("/replicas", 11),
    ("/extraArgs/0", "config"),
    ("/extraEnv/0", {}),
    ("/extraEnv/0/name", "1A"),
    ("/resources/requests/KEY", "much"),
    ("/resources/limits/KEY", "1 Gi"),
    ("/priorityClassName", "Not a name"),
    ("/criticalPodsQuota/pods", 0),
    ("/topologySpreadConstraints/0", {}),
    *(
        (f"/topologySpreadConstraints/0/{name}", value)
        for name, value in (
            ("maxSkew", 0),
            ("topologyKey", ""),
            ("whenUnsatisfiable", "Never"),
            ("minDomains", 0),
            ("nodeAffinityPolicy", "Maybe"),
            ("nodeTaintsPolicy", "Maybe"),
        )
    ),
    ("/tolerations/0/operator", "Is"),
    ("/tolerations/0/effect", "Evict"),
    ("/podDisruptionBudget/maxUnavailable", -1),
    ("/podDisruptionBudget/maxUnavailable", "half"),
    ("/networkPolicy/egress/ports", []),
    ("/networkPolicy/egress/ports/0", 0),
    ("/networkPolicy/egress/ports/0", 65536),
    ("/tracing/endpoint", "grpc://collector:4317"),
    ("/tracing/samplingRatePerMillion", -1),
    ("/tracing/samplingRatePerMillion", 1_000_001),
    ("/rbac/extraRules/0", {}),
    ("/rbac/extraRules/0/verbs", []),
    ("/monitoring/prometheusRule/runbookPrefix", "https://git.example.com"),
]


@pytest.mark.parametrize(
    ("path", "value"), OUT_OF_LIMITS, ids=[str(each) for each in OUT_OF_LIMITS]
)
def test_a_value_out_of_limits_is_refused(helm: Helm, path: str, value: object) -> None:
    message = helm.refusal(nested(path, value))
    (line,) = [
        each
        for each in message.splitlines()
        if f"at '{path.replace('KEY', 'a.py')}'" in each and "validation failed" not in each
    ]
    assert any(
        text in line
        for text in ("does not match pattern", "must be one of", ", want ", "missing propert")
    ), line


def test_every_limit_of_the_schema_has_a_case() -> None:
    limited = {path for path, each in ALL.items() if set(LIMITS) & set(each)}
    assert limited == {path for path, _ in OUT_OF_LIMITS}


CONFIGURATIONS: Final[dict[str, tuple[Document, str]]] = {
    "unknown": (
        {"podMaxBackofSeconds": 3},
        "at '/config': additional properties 'podMaxBackofSeconds' not allowed",
    ),
    "type": (
        {"podInitialBackoffSeconds": "x"},
        "at '/config/podInitialBackoffSeconds': got string, want integer",
    ),
    "version": (
        {"apiVersion": "kubescheduler.config.k8s.io/v1beta3"},
        "at '/config/apiVersion': value must be 'kubescheduler.config.k8s.io/v1'",
    ),
    "arguments of a plugin": (
        {
            "profiles": [
                {
                    "schedulerName": "a",
                    "pluginConfig": [
                        {
                            "name": "NodeResourcesFit",
                            "args": {"scoringStrategy": {"type": "Most"}},
                        }
                    ],
                }
            ]
        },
        "/args/scoringStrategy/type': value must be one of 'LeastAllocated', 'MostAllocated'",
    ),
}


@pytest.mark.parametrize("case", CONFIGURATIONS)
def test_a_wrong_configuration_is_refused_at_installation(helm: Helm, case: str) -> None:
    config, message = CONFIGURATIONS[case]
    assert message in helm.refusal({"config": config})


@pytest.mark.parametrize(
    "file",
    [*(ROOT / "config" / "profiles").glob("*.yaml"), *ROOT.glob("examples/*/config.yaml")],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_configurations_of_the_repository_are_values(helm: Helm, file: Any) -> None:
    config = yaml.safe_load(file.read_text())
    assert "ConfigMap" in {each["kind"] for each in helm.objects({"config": config})}


WRONG: Final[dict[str, tuple[Document, str]]] = {
    "plugin": (
        {"plugins": {"not-a-module": ""}},
        "at '/plugins': additional properties 'not-a-module' not allowed",
    ),
    "flag": ({"extraArgs": ["--config=x"]}, "use the values config, plugins and shadow.of"),
    "scraping a shadow": (
        {"mode": "shadow", **switch("monitoring.serviceMonitor")},
        "monitoring.serviceMonitor.enabled: it scrapes HTTPS",
    ),
    "bridge of a shadow": (
        {"mode": "shadow", **switch("nodeProvisioningBridge")},
        "nodeProvisioningBridge.enabled: the bridge writes conditions",
    ),
    "profiles of a shadow": (
        {
            "mode": "shadow",
            "config": {
                "profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": "b"}]
            },
        },
        "config.profiles[1].schedulerName: b is not followed (shadow.of)",
    ),
    "replicas": (
        {"config": {"leaderElection": {"leaderElect": False}}},
        "set replicas to 1 or leave leader election on",
    ),
    "profiles": ({"config": {"profiles": []}}, "config.profiles: empty"),
    "profile": ({"config": {"profiles": [{}]}}, "config.profiles[0].schedulerName: missing"),
    "the name of the cluster's scheduler": (
        {"config": {"profiles": [{"schedulerName": "a"}, {"schedulerName": "default-scheduler"}]}},
        "config.profiles[1].schedulerName: default-scheduler is the cluster's own scheduler",
    ),
    "the Lease of the cluster's scheduler": (
        {"config": {"leaderElection": {"resourceName": "kube-scheduler"}}},
        "config.leaderElection.resourceName: kube-scheduler is the Lease of the cluster's own",
    ),
    "namespace": (
        {"config": {"leaderElection": {"resourceNamespace": "elsewhere"}}},
        "config.leaderElection.resourceNamespace: elsewhere",
    ),
    "mark": (switch("deferredQuota.mark"), "set deferredQuota.policies.enabled=true as well"),
    "immutable": (
        switch("topologySpreadFallback.immutable"),
        "set topologySpreadFallback.policies.enabled=true as well",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_value_is_refused_by_its_path(helm: Helm, case: str) -> None:
    values, message = WRONG[case]
    assert message in helm.refusal(values)


def test_all_wrong_values_are_named_at_once(helm: Helm) -> None:
    config = {"profiles": [{}, {"schedulerName": "default-scheduler"}]}
    refusal = helm.refusal({"config": config, **switch("deferredQuota.mark")})
    assert "config.profiles[0].schedulerName: missing" in refusal
    assert "\nconfig.profiles[1].schedulerName: default-scheduler is" in refusal
    assert "\ndeferredQuota.mark.enabled: works beside" in refusal


def test_the_name_of_the_clusters_scheduler_is_allowed_to_who_replaces_it(helm: Helm) -> None:
    config = {"profiles": [{"schedulerName": "default-scheduler"}]}
    flag = "--replace-default-scheduler"
    assert helm.objects({"config": config, "extraArgs": [flag]})
    assert helm.objects({"config": config, "mode": "shadow"})
