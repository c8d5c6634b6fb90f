"""Printing: what is shown loads again, and kube-scheduler's form has nothing of ours."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from config import FeatureGates, configz, to_data, to_yaml, upstream_form
from config.document import parse, plain
from tests.unit.config.doubles import AVAILABLE, HEADER, body, load, plugin

CUSTOM = plugin("example.com/Rack", "filter score")

RICH = """\
parallelism: 4
extenders:
- urlPrefix: https://a
  enableHTTPS: true
  prioritizeVerb: rank
  weight: 2
  tlsConfig: {insecure: true}
  managedResources: [{name: a.com/x, ignoredByScheduler: true}]
profiles:
- schedulerName: a
  percentageOfNodesToScore: 5
  plugins:
    multiPoint: {enabled: [{name: NodeResourcesFit, weight: 10}, {name: example.com/Rack}]}
    score: {disabled: [{name: ImageLocality}, {name: example.com/Rack}]}
  pluginConfig:
  - {name: DefaultPreemption, args: {evictOtherSchedulers: true}}
  - {name: PodTopologySpread, args: {defaultConstraints: [{maxSkew: 1, fallbackCriteria: []}]}}
- schedulerName: b
  kubestow: {tieBreaking: NodeName}
kubestow: {seed: 3, schedulingTimeSlice: 2ms}
"""


def test_what_is_shown_loads_again_as_the_same() -> None:
    configuration = body(RICH, CUSTOM)
    again = load(to_yaml(to_data(configuration)), CUSTOM)
    assert again.profiles == configuration.profiles
    assert to_data(again) == to_data(configuration)


def test_the_effective_configuration_is_complete() -> None:
    data = to_data(load(None))
    assert data["leaderElection"] == {
        "leaderElect": True,
        "leaseDuration": "15s",
        "renewDeadline": "10s",
        "retryPeriod": "2s",
        "resourceLock": "leases",
        "resourceName": "kubestow",
        "resourceNamespace": "kubestow-system",
    }
    (profile,) = data["profiles"]
    assert list(profile["plugins"]) == ["multiPoint"]
    assert {"name": "TaintToleration", "weight": 3} in profile["plugins"]["multiPoint"]["enabled"]
    assert {
        "name": "DynamicResources",
        "args": {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "DynamicResourcesArgs",
            "filterTimeout": "10s",
            "bindingTimeout": "10m0s",
        },
    } in profile["pluginConfig"]
    assert data["kubestow"]["bindTimeout"] == "4s"


def test_the_form_for_kube_scheduler_has_nothing_of_ours() -> None:
    data = upstream_form(body(RICH, CUSTOM))
    text = to_yaml(data)
    for word in (
        "kubestow:",
        "Rack",
        "evictOtherSchedulers",
        "fallbackCriteria",
        "seed",
        "tieBreaking",
    ):
        assert word not in text
    first = data["profiles"][0]
    assert first["plugins"]["score"] == {"disabled": [{"name": "ImageLocality"}]}
    spread = next(one for one in first["pluginConfig"] if one["name"] == "PodTopologySpread")
    assert spread["args"]["defaultConstraints"] == [{"maxSkew": 1}]


def test_arguments_of_a_gate_that_is_off_are_not_shown() -> None:
    gates = FeatureGates({"DRASchedulerFilterTimeout": False})
    configuration = load(None, feature_gates=gates)
    text = to_yaml(to_data(configuration))
    assert "filterTimeout" not in text
    assert load(text, feature_gates=gates).profiles == configuration.profiles


def test_references_are_shown_as_they_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from types import ModuleType

    module: Any = ModuleType("shown_for_test")
    module.Rack = CUSTOM
    monkeypatch.setitem(sys.modules, "shown_for_test", module)
    reference = "{multiPoint: {enabled: [{name: 'shown_for_test:Rack', weight: 4}]}}"
    configuration = body(f"profiles: [{{plugins: {reference}}}]")
    text = to_yaml(to_data(configuration))
    assert "name: shown_for_test:Rack" in text
    assert load(text).profiles == configuration.profiles


def test_configz_shows_no_secrets_of_extenders() -> None:
    configuration = body(
        "extenders:\n"
        "- urlPrefix: https://u:secret@h/x\n"
        "  tlsConfig: {keyData: YQ==, certData: YQ==}\n"
        "- urlPrefix: http://plain/a@b\n"
    )
    first, second = configz(configuration)["componentconfig"]["extenders"]
    assert first["urlPrefix"] == "https://[redacted]@h/x"
    assert (first["tlsConfig"]["keyData"], first["tlsConfig"]["certData"]) == ("[redacted]", "YQ==")
    assert second["urlPrefix"] == "http://plain/a@b"


def test_configz_wraps_the_effective_configuration() -> None:
    configuration = load(None)
    assert configz(configuration) == {"componentconfig": to_data(configuration)}


@pytest.mark.parametrize("text", ["y", "N", "yes", "1e3", "0o17", "2024-01-01", "5", "null", "~"])
def test_texts_that_look_like_something_else_are_quoted(text: str) -> None:
    # kube-scheduler v1.36 was seen to read a bare y as true and 1e3 as a number.
    assert to_yaml({"a": text}) == f"a: '{text}'\n"


@given(st.text())
def test_any_text_survives_printing(text: str) -> None:
    assert plain(parse(to_yaml({"a": text})).root) == {"a": text}


NAMES = st.sampled_from([one.name for one in AVAILABLE])
SET = st.fixed_dictionaries(
    {},
    optional={
        "enabled": st.lists(
            st.fixed_dictionaries({"name": NAMES}, optional={"weight": st.integers(0, 9)}),
            unique_by=lambda entry: str(entry["name"]),
            max_size=3,
        ),
        "disabled": st.lists(
            st.fixed_dictionaries({"name": NAMES}), max_size=3, unique_by=lambda one: one["name"]
        ),
    },
)


@given(SET, st.lists(st.sampled_from(["*", "ImageLocality", "NodeAffinity"]), max_size=2))
def test_any_profile_survives_a_round_through_its_printed_form(
    multi: dict[str, Any], score_off: list[str]
) -> None:
    # What every profile needs stays on, so that each example loads.
    needed = {"PrioritySort", "DefaultBinder"}
    kept = [one for one in multi.get("disabled", []) if one["name"] not in needed]
    plugins = {
        "multiPoint": multi | {"disabled": kept},
        "score": {"disabled": [{"name": name} for name in score_off]},
    }
    text = HEADER + yaml.safe_dump({"profiles": [{"schedulerName": "s", "plugins": plugins}]})
    configuration = load(text)
    again = load(to_yaml(to_data(configuration)))
    assert again.profiles == configuration.profiles
    assert to_data(again) == to_data(configuration)
