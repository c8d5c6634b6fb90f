"""Every vector of every family agrees, and the runner reports a vector that does not."""

from __future__ import annotations

import copy
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from devtools.conformance.comparing import ASPECTS, compare, differences, select_aspects
from devtools.conformance.observing import Observation, observe
from devtools.conformance.reading import FAMILIES, VECTORS, VectorError, VectorFile, find_files
from devtools.conformance.running import run_file
from devtools.conformance.units import SUFFIX, UNIT_FILES
from devtools.conformance.upstream_faults import FAULTS
from devtools.conformance.world import MISSING, World
from tests.conformance.__main__ import main

COUNTS = {
    "basic": 30,
    "resources": 66,
    "taints": 32,
    "nodeaffinity": 48,
    "ports": 30,
    "images": 16,
    "scoring": 50,
    "gates": 6,
    "spread": 72,
    "interpod": 72,
    "volumes": 96,
    "preemption": 81,
    "nominated": 24,
    "dra": 126,
    "mixed": 44,
    "storagescore": 26,
    "csidriver": 20,
    "imagevolumes": 10,
    "pdboverlap": 26,
    "resizing": 26,
    "gatednominated": 10,
    "negativens": 18,
    "devices137": 58,
}


def vector(family: str, number: int) -> dict[str, Any]:
    for each in VectorFile(VECTORS / f"{family}{SUFFIX}", family).vectors():
        if each["id"] == f"shared-{family}-{number:04}":
            return each
    raise AssertionError(f"no vector {number} in {family}")


@pytest.mark.parametrize("family", COUNTS)
def test_every_vector_of_the_family_agrees(family: str) -> None:
    result = run_file(VectorFile(VECTORS / f"{family}{SUFFIX}", family), select_aspects(()))
    assert result.findings == []
    assert (result.agree, result.total) == (COUNTS[family], COUNTS[family])


@pytest.mark.slow
@pytest.mark.parametrize("family", ["resources", "nodeaffinity", "spread", "interpod", "volumes"])
def test_vectors_agree_when_every_pod_is_stored_like_a_large_one(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.api.signatures.interner.PACK_BYTES", 0)
    monkeypatch.setattr("scheduler.api.signatures.unpacked_cache.MAX_UNPACKED_BYTES", 0)
    monkeypatch.setattr("scheduler.api.packed_labels.MAX_PLAIN_LABELS", 0)
    monkeypatch.setattr("scheduler.cache.term_index.MANY_TERMS", 0)
    monkeypatch.setattr("scheduler.cache.selector_counts.MANY_LABELS", 0)
    result = run_file(VectorFile(VECTORS / f"{family}{SUFFIX}", family), select_aspects(()))
    assert (result.findings, result.agree) == ([], COUNTS[family])


def test_all_committed_files_are_found_in_the_order_of_the_table() -> None:
    families = [file.family for file in find_files([VECTORS])]
    assert families == [*FAMILIES, *(f"unit/{name}" for name in sorted(UNIT_FILES))]


def test_a_vector_with_a_fault_of_kube_scheduler_differs_exactly_where_it_shows() -> None:
    documented = (VECTORS.parents[2] / "docs" / "differences.md").read_text()
    for identity, fault in FAULTS.items():
        assert differing(identity) == fault.aspects, identity
        assert fault.issue in documented


def differing(identity: str) -> set[str]:
    """Return the aspects of a vector, or the fields of a unit vector, that differ."""
    if not identity.startswith("shared-"):
        name = identity.rsplit("-", 1)[0]
        file = VectorFile(VECTORS / "unit" / f"{name}{SUFFIX}", f"unit/{name}")
        (given,) = (each for each in file.vectors() if each["id"] == identity)
        return {each.field for each in UNIT_FILES[name](given)}
    family, number = identity.removeprefix("shared-").rsplit("-", 1)
    given = {**vector(family, int(number)), "id": "not exempt"}
    compared = compare(given, observe(World(given)), list(ASPECTS), MISSING)
    return {aspect for aspect, _ in differences(compared)}


def scheduled() -> dict[str, Any]:
    return vector("scoring", 4)


def unschedulable() -> dict[str, Any]:
    return vector("basic", 4)


def narrowed() -> dict[str, Any]:
    return vector("nodeaffinity", 6)


Spoil = Callable[[dict[str, Any]], None]


def put(*path: str, value: Any = "spoilt") -> Spoil:
    def spoil(expected: dict[str, Any]) -> None:
        for key in path[:-1]:
            expected = expected[key]
        expected[path[-1]] = value

    return spoil


@pytest.mark.parametrize(
    ("make", "spoil", "aspect"),
    [
        (scheduled, put("preEnqueue", "code"), "preEnqueue"),
        (scheduled, put("preFilter", "code"), "preFilter.combined"),
        (narrowed, put("preFilter", "nodeNames", value=["node-1"]), "preFilter.combined"),
        (narrowed, put("preFilter", "narrowedBy", value=["NodeName"]), "preFilter.combined"),
        (
            scheduled,
            put("preFilter", "plugins", "NodePorts", value={"code": "Success"}),
            "preFilter.plugins",
        ),
        (
            scheduled,
            put("preFilter", "plugins", "VolumeWeather", value={"code": "Skip"}),
            "preFilter.plugins",
        ),
        (
            unschedulable,
            put("filter", "plugins", "NodeName", "node-1", "reasons", value=["because"]),
            "filter.plugins",
        ),
        (unschedulable, put("filter", "plugins", "NodePorts", value={}), "filter.plugins"),
        (unschedulable, put("filter", "nodes", "node-2", "plugin"), "filter.nodes"),
        (scheduled, put("filter", "nodes", "node-9", value={"code": "Success"}), "filter.nodes"),
        (scheduled, put("feasibleNodes", value=["node-2"]), "feasibleNodes"),
        (scheduled, put("volumePlan", value={"node-2": {}}), "volumePlan"),
        (scheduled, put("score", "skipped", value=[]), "score.skipped"),
        (scheduled, put("score", "plugins", "TaintToleration", "weight", value=1), "score.weight"),
        (
            scheduled,
            put("score", "plugins", "NodeResourcesFit", "raw", "node-2", value=98),
            "score.raw",
        ),
        (
            scheduled,
            put("score", "plugins", "TaintToleration", "normalized", "node-4", value=99),
            "score.normalized",
        ),
        (scheduled, put("score", "total", "node-4", value=475), "score.total"),
        (scheduled, put("selectedNodeOptions", value=["node-2", "node-4"]), "selectedNodeOptions"),
        (scheduled, put("outcome", value="unschedulable"), "outcome"),
        (unschedulable, put("message", value="0/3 nodes are available."), "message-prefix"),
        (unschedulable, put("unschedulablePlugins", value=["NodeName"]), "unschedulablePlugins"),
        (unschedulable, put("postFilter", "code", value="Error"), "postFilter"),
        (unschedulable, put("message", value="something else"), "message"),
    ],
)
def test_a_changed_expectation_is_a_difference(
    make: Callable[[], dict[str, Any]], spoil: Spoil, aspect: str
) -> None:
    given = make()
    observation = observe(World(given))
    selected = select_aspects([aspect])
    before = list(differences(compare(given, observation, selected, MISSING)))
    spoilt = copy.deepcopy(given)
    spoil(spoilt["expected"])
    after = list(differences(compare(spoilt, observation, selected, MISSING)))
    assert after != before
    assert all(name == aspect for name, _ in after)
    assert after


@pytest.mark.parametrize("aspect", ["forms", "reuse"])
def test_contradictory_results_of_kubestow_are_a_difference(aspect: str) -> None:
    observation = Observation()
    assert not list(differences(compare(scheduled(), observation, [aspect], ())))
    getattr(observation, aspect).append("two results")
    found = list(differences(compare(scheduled(), observation, [aspect], ())))
    assert [(name, each.actual) for name, each in found] == [(aspect, "two results")]


def test_a_missing_plugin_is_named_and_is_a_difference_only_if_it_took_part() -> None:
    given = unschedulable()
    observation = Observation(
        actual={
            "preFilter": {
                "plugins": {
                    name: each
                    for name, each in given["expected"]["preFilter"]["plugins"].items()
                    if name != "VolumeZone"
                }
            }
        }
    )
    aspects = ["preFilter.plugins"]
    partial = compare(given, observation, aspects, {"VolumeZone"})["preFilter.plugins"]
    assert (partial.differences, partial.without) == ([], {"VolumeZone"})
    given["expected"]["preFilter"]["plugins"]["VolumeZone"] = {"code": "Success"}
    active = compare(given, observation, aspects, {"VolumeZone"})["preFilter.plugins"]
    assert [str(each.actual) for each in active.differences] == ["<no such plugin>"]
    assert active.without == set()


def test_the_prefix_of_a_message_ends_before_the_text_of_post_filter_plugins() -> None:
    expected = {
        "message": "0/1 nodes are available: 1 Insufficient cpu. preemption: no",
        "postFilter": {"code": "Unschedulable", "reasons": ["preemption: no"]},
    }
    ours = Observation(message_prefix="0/1 nodes are available: 1 Insufficient cpu.")
    compared = compare({"expected": expected}, ours, ["message-prefix"], ())
    assert compared["message-prefix"].differences == []


def test_reasons_are_compared_as_a_multiset() -> None:
    gate = {"code": "Unschedulable", "reasons": ["b", "a", "a"]}
    ours = Observation(actual={"preEnqueue": {"code": "Unschedulable", "reasons": ["a", "b", "a"]}})
    same = compare({"expected": {"preEnqueue": gate}}, ours, ["preEnqueue"], ())
    assert same["preEnqueue"].differences == []
    gate["reasons"] = ["a", "b"]
    other = compare({"expected": {"preEnqueue": gate}}, ours, ["preEnqueue"], ())
    assert len(other["preEnqueue"].differences) == 1


def test_aspects_are_chosen_by_name_and_by_group() -> None:
    assert select_aspects(["filter"]) == ["filter.plugins", "filter.nodes"]
    assert select_aspects(["score.total", "outcome"]) == ["score.total", "outcome"]
    assert select_aspects([]) == list(ASPECTS)
    assert "postFilter" not in select_aspects([], ["postFilter"])
    with pytest.raises(ValueError, match="no aspect weather"):
        select_aspects(["weather"])


# -- the command ---------------------------------------------------------------------------------


def test_the_command_ends_with_the_number_of_vectors_that_agree(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([str(VECTORS), "--families", "gates,unit/toleration"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "conformance: agree 226 of 226"


def test_the_command_fails_and_shows_the_first_differences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vectors = [vector("gates", 1), vector("gates", 2)]
    for each in vectors:
        each["expected"]["outcome"] = "scheduled"
    file = tmp_path / f"gates{SUFFIX}"
    file.write_bytes(gzip.compress(b"\n".join(map(msgspec.json.encode, vectors))))
    assert main([str(file), "--limit-differences", "1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "gates: shared-gates-0001: outcome" in lines
    assert "    outcome: expected 'scheduled', got 'gated'" in lines
    assert "gates: 1 more differences" in lines
    assert lines[-1] == "conformance: agree 0 of 2"
    assert main([str(file), "--aspects", "preEnqueue"]) == 0


def test_a_vector_that_cannot_be_run_is_a_difference_and_the_next_one_is_still_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = vector("gates", 1)
    broken["input"]["objects"]["weather"] = [{}]
    lines = b"\n".join(map(msgspec.json.encode, [broken, vector("gates", 2)]))
    file = tmp_path / f"gates{SUFFIX}"
    file.write_bytes(gzip.compress(lines))
    assert main([str(file)]) == 1
    printed = capsys.readouterr().out
    assert "KeyError: 'weather'" in printed
    assert printed.splitlines()[-1] == "conformance: agree 1 of 2"


def test_missing_or_unreadable_vectors_never_count_as_agreement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def error_of(*arguments: str) -> str:
        assert main(list(arguments)) == 2
        return capsys.readouterr().err

    assert "no such file or directory" in error_of(str(tmp_path / "basic.jsonl.gz"))
    assert "holds no .jsonl.gz files" in error_of(str(tmp_path))
    assert "no vector file for weather" in error_of("--families", "weather")
    assert "no aspect weather" in error_of("--aspects", "weather")
    empty = tmp_path / f"basic{SUFFIX}"
    empty.write_bytes(gzip.compress(b""))
    assert "holds no vectors" in error_of(str(empty))
    empty.write_bytes(b"not gzip")
    assert "cannot be read" in error_of(str(empty))


def test_the_committed_directory_must_be_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in VECTORS.glob(f"*{SUFFIX}"):
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.setattr("devtools.conformance.reading.VECTORS", tmp_path)
    with pytest.raises(VectorError, match=r"no vector file for .*unit/host_port"):
        find_files([tmp_path])
