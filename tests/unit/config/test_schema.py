"""The JSON Schema: current, accepting every configuration we ship, and strict as the decoder is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from config import configuration_schema, load_configuration, to_data
from config.document import parse, plain
from config.schema import DURATION, LIMITS
from plugins import DEFAULT_PLUGINS, in_tree
from scheduler.framework import Registry
from scheduler.framework.status import ConfigurationError
from scheduler.sanitizing.go_values import parse_duration
from tests.unit.config.doubles import HEADER
from tests.unit.config.json_schema import Validator

ROOT: Final = Path(__file__).parents[3]
SCHEMA: Final = configuration_schema(Registry(in_tree()))


def rejected(text: str) -> list[str]:
    return Validator(SCHEMA).problems(plain(parse(text).root))


def loads(text: str) -> bool:
    try:
        load_configuration(text, registry=Registry(in_tree()), default_plugins=DEFAULT_PLUGINS)
    except ConfigurationError:
        return False
    return True


def shipped() -> dict[str, str]:
    """Every configuration in the repository, by where it stands."""
    found = {}
    for folder in ("config", "examples", "manifests"):
        for path in sorted((ROOT / folder).rglob("*.yaml")):
            for document in yaml.safe_load_all(path.read_text()):
                name = str(path.relative_to(ROOT))
                if document and document.get("kind") == "KubeSchedulerConfiguration":
                    found[name] = path.read_text()
                elif document and document.get("kind") == "ConfigMap":
                    for key, text in document.get("data", {}).items():
                        if "kind: KubeSchedulerConfiguration" in text:
                            found[f"{name} {key}"] = text
    for path in [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]:
        for number, text in enumerate(
            re.findall(r"```yaml\n(.*?)```", path.read_text(), re.DOTALL)
        ):
            if re.search(r"^kind: KubeSchedulerConfiguration", text, re.MULTILINE):
                found[f"{path.name} {number}"] = text
    return found


def test_the_published_schema_is_current() -> None:
    published = json.loads((ROOT / "docs" / "kubestow.schema.json").read_text())
    assert published == SCHEMA, "run: make references"


def test_every_shipped_configuration_is_valid() -> None:
    texts = shipped()
    assert len(texts) >= 10, list(texts)
    assert {where: found for where, text in texts.items() if (found := rejected(text))} == {}


def test_the_effective_default_configuration_is_valid() -> None:
    effective = load_configuration(
        None, registry=Registry(in_tree()), default_plugins=DEFAULT_PLUGINS
    )
    assert Validator(SCHEMA).problems(to_data(effective)) == []


FIT: Final = "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: "
INTER: Final = "profiles: [{pluginConfig: [{name: InterPodAffinity, args: "
PREEMPTION: Final = "profiles: [{pluginConfig: [{name: DefaultPreemption, args: "
SPREAD: Final = "profiles: [{pluginConfig: [{name: PodTopologySpread, args: "


@pytest.mark.parametrize(
    "body",
    [
        "paralelism: 1",
        "parallelism: 0",
        "parallelism: many",
        "parallelism: 4294967296",
        "percentageOfNodesToScore: 101",
        "podInitialBackoffSeconds: 0",
        "enableProfiling: 1",
        "leaderElection: {leaderElected: true}",
        "leaderElection: {leaseDuration: 15}",
        "leaderElection: {leaseDuration: 15 seconds}",
        "leaderElection: {resourceLock: endpoints}",
        "clientConnection: {burst: -1}",
        "clientConnection: []",
        "profiles: {}",
        "profiles: [null]",
        "profiles: [{plugins: {scores: {}}}]",
        "profiles: [{plugins: {score: {enabled: [NodeAffinity]}}}]",
        "profiles: [{plugins: {score: {enabled: [{name: NodeAffinity, weight: -1}]}}}]",
        "profiles: [{plugins: {filter: {enabled: [{name: EBSLimits}]}}}]",
        "profiles: [{pluginConfig: [{args: {}}]}]",
        "profiles: [{pluginConfig: [{name: NodeName, args: {a: 1}}]}]",
        FIT + "{scoringStrategy: {type: BinPack}}}]}]",
        FIT + "{scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 101}]}}}]}]",
        FIT + "{scoringStrategi: {}}}]}]",
        FIT + "{kind: NodeAffinityArgs}}]}]",
        FIT + "[]}]}]",
        SPREAD + "{defaultingType: Lists}}]}]",
        SPREAD + "{fallbackStrategy: Both}}]}]",
        SPREAD + "{defaultingType: List, defaultConstraints: [{maxSkew: 0, topologyKey: zone, "
        "whenUnsatisfiable: ScheduleAnyway}]}}]}]",
        "profiles: [{pluginConfig: [{name: ResourceQuota, args: {quotaMode: All}}]}]",
        INTER + "{hardPodAffinityWeight: 101}}]}]",
        PREEMPTION + "{minCandidateNodesPercentage: -1}}]}]",
        "extenders: [{enableHttps: true}]",
        "kubestow: {slice: 5ms}",
        "kubestow: {bindConcurrency: 0}",
        "kubestow: {eventsPerSecond: 0}",
        "kubestow: {nodeProvisioningBridge: {mode: Sometimes}}",
    ],
)
def test_what_the_decoder_refuses_the_schema_refuses(body: str) -> None:
    assert not loads(HEADER + body)
    assert rejected(HEADER + body)


@pytest.mark.parametrize(
    "text",
    [
        "kind: KubeSchedulerConfiguration",
        "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: Pod",
    ],
)
def test_another_version_or_kind_is_refused(text: str) -> None:
    assert not loads(text)
    assert rejected(text)


@pytest.mark.parametrize(
    "body",
    [
        "profiles: null",
        "parallelism: 1.0",
        "leaderElection: {leaseDuration: 1m0.5s, renewDeadline: null}",
        "profiles: [{pluginConfig: [{name: NodeName, args: {kind: NodeNameArgs}}]}]",
        FIT + "{apiVersion: kubescheduler.config.k8s.io/v1, kind: NodeResourcesFitArgs}}]}]",
        "kubestow: {seed: null, nodeProvisioningBridge: {mode: Auto}}",
    ],
)
def test_what_the_decoder_takes_the_schema_takes(body: str) -> None:
    assert loads(HEADER + body)
    assert rejected(HEADER + body) == []


@pytest.mark.parametrize("text", ["0", "-1.5h", "1m30s", "5µs", ".5s", "1", "1 s", "s", "", "1d"])
def test_the_pattern_of_durations_is_that_of_the_reader(text: str) -> None:
    try:
        parse_duration(text)
        good = True
    except ValueError:
        good = False
    assert (re.search(DURATION["pattern"], text) is not None) is good


def test_every_limit_is_about_an_existing_field() -> None:
    for place in LIMITS:
        name, _, key = place.partition(".")
        assert key in SCHEMA["$defs"][name]["properties"], place


def test_fields_are_described_for_the_hover_of_editors() -> None:
    options: dict[str, Any] = SCHEMA["$defs"]["KubestowConfiguration"]["properties"]
    assert options["bindTimeout"]["description"].startswith("Timeout of one bind request.")
    quota = SCHEMA["$defs"]["ResourceQuotaArgs"]["properties"]
    assert quota["claimPending"]["description"].startswith("Whether a deferred pod")
