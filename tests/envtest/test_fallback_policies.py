"""KEP-3990 on a stock API server: the field, the annotation, and mistakes in it.

A42, A43 (as far as the API goes) and A44; the policies of manifests/components accept the same
annotations as the scheduler.
"""

from __future__ import annotations

import http
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from devtools.control_plane.control_plane import ControlPlane, KubectlError
from plugins.pod_topology_spread.fallback_annotation import (
    FallbackAnnotationError,
    parse_fallback_annotation,
)
from tests.envtest.workload import until

pytestmark = pytest.mark.envtest

COMPONENTS: Final = Path(__file__).parents[2] / "manifests" / "components"
KEY: Final = "kubestow.io/topology-spread-fallback"
ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
SOFT: Final = "example.com/rack"
NPF, PF = "NodeProvisioningFailed", "PreemptionFailed"
GOOD: Final = f"{ZONE}={NPF}"
BAD: Final = f"{ZONE}=Nope"


def constraint(key: str, when: str = "DoNotSchedule", **more: object) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "a"}},
        **more,
    }


CONSTRAINTS: Final = [constraint(ZONE), constraint(HOST), constraint(SOFT, "ScheduleAnyway")]


def template(annotation: str | None, constraints: list[dict[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "metadata": {"labels": {"app": "a"}},
        "spec": {
            "schedulerName": "nobody",
            "containers": [{"name": "c", "image": "i"}],
            "topologySpreadConstraints": constraints,
        },
    }
    if annotation is not None:
        made["metadata"]["annotations"] = {KEY: annotation}
    return made


def pod(name: str, annotation: str | None, *constraints: dict[str, Any]) -> dict[str, Any]:
    made = template(annotation, list(constraints or CONSTRAINTS))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        **made,
        "metadata": {**made["metadata"], "name": name},
    }


def workload(kind: str, annotation: str | None) -> dict[str, Any]:
    inner = template(annotation, CONSTRAINTS)
    spec: dict[str, Any] = {"template": inner, "selector": {"matchLabels": {"app": "a"}}}
    version = "apps/v1"
    if kind in ("Job", "CronJob"):
        inner["spec"]["restartPolicy"] = "Never"
        version, spec = "batch/v1", {"template": inner}
    if kind == "CronJob":
        spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": spec}}
    if kind == "StatefulSet":
        spec["serviceName"] = "s"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "w"}, "spec": spec}


def dry_run(
    plane: ControlPlane, obj: dict[str, Any], *, query: str = "dryRun=All"
) -> tuple[int, str]:
    """POST an object, as a dry run by default; return the code and the body."""
    group = obj["apiVersion"]
    base = "/api/v1" if group == "v1" else f"/apis/{group}"
    path = f"{base}/namespaces/default/{obj['kind'].lower()}s?{query}"
    return plane.admin.exchange("POST", path, obj)


def apply(plane: ControlPlane, folder: Path, component: str, verb: str = "apply") -> None:
    """Build an overlay of one component only, and apply it."""
    path = os.path.relpath(COMPONENTS / component, folder.resolve())
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "components": [path],
    }
    (folder / "kustomization.yaml").write_text(json.dumps(overlay))
    plane.kubectl(verb, "-k", str(folder))


@pytest.fixture(scope="module")
def guarded(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """Return the shared control plane with the policies in force."""
    folder = tmp_path_factory.mktemp("policies")
    apply(control_plane, folder, "topology-spread-fallback-policies")
    mistakes = (pod("a", BAD), workload("Deployment", BAD), workload("CronJob", BAD))
    until(
        lambda: all(dry_run(control_plane, each)[0] == 422 for each in mistakes),
        "all policies are in force",
    )
    yield control_plane
    apply(control_plane, folder, "topology-spread-fallback-policies", "delete")


# ------------------------------------------------------------------------------ the field itself


NATIVE: Final = pod("native", None, constraint(ZONE, fallbackCriteria=[NPF]))
FIELD: Final = "spec.topologySpreadConstraints[0].fallbackCriteria"


def test_a42_kubectl_rejects_the_field(control_plane: ControlPlane) -> None:
    with pytest.raises(KubectlError) as error:
        control_plane.kubectl("create", "-f", "-", stdin=json.dumps(NATIVE))
    assert f'strict decoding error: unknown field "{FIELD}"' in str(error.value)


def test_a42_a_plain_client_loses_it_with_a_warning_at_most(control_plane: ControlPlane) -> None:
    for query in ("dryRun=All", "dryRun=All&fieldValidation=Warn"):
        status, body = dry_run(control_plane, NATIVE, query=query)
        assert status == http.HTTPStatus.CREATED
        assert "fallbackCriteria" not in json.loads(body)["spec"]["topologySpreadConstraints"][0]


def test_a42_server_side_apply_always_rejects_it(control_plane: ControlPlane) -> None:
    for validate in ("true", "false"):
        with pytest.raises(KubectlError) as error:
            control_plane.kubectl(
                "apply", "--server-side", f"--validate={validate}", "-f", "-",
                stdin=json.dumps(NATIVE),
            )  # fmt: skip
        message = str(error.value)
        assert "field not declared in schema" in message or "unknown field" in message
    assert ".fallbackCriteria: field not declared in schema" in message


# ---------------------------------------------------------------------------------- the policies

MISTAKES: Final = {
    "unknown criterion": (f"{ZONE}=Nope", "want <topologyKey|*>=<criterion>"),
    "no criterion": (f"{ZONE}=", "want <topologyKey|*>=<criterion>"),
    "empty": ("", "want <topologyKey|*>=<criterion>"),
    "unknown key": (f"example.com/other={NPF}", f"here: {ZONE}, {HOST}"),
    "soft key": (f"{SOFT}={NPF}", f"here: {ZONE}, {HOST}"),
    "duplicate key": (f"{ZONE}={NPF};{ZONE}={PF}", "name each topology key once"),
    "duplicate criterion": (f"{ZONE}={NPF}+{NPF}", "name each criterion once"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize(
    "kind", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"]
)
def test_a44_a_mistake_is_rejected_at_the_workload(
    guarded: ControlPlane, kind: str, mistake: str
) -> None:
    value, wanted = MISTAKES[mistake]
    status, body = dry_run(guarded, workload(kind, value))
    assert status == http.HTTPStatus.UNPROCESSABLE_ENTITY
    message = json.loads(body)["message"]
    assert f'template.metadata.annotations[{KEY}]: Invalid value: "{value}"' in message
    assert wanted in message


def test_a44_kubectl_apply_shows_it(guarded: ControlPlane) -> None:
    with pytest.raises(KubectlError) as error:
        guarded.kubectl("apply", "-f", "-", stdin=json.dumps(workload("Deployment", BAD)))
    message = str(error.value)
    assert "ValidatingAdmissionPolicy 'tsf-templates.kubestow.io'" in message
    assert f'Invalid value: "{BAD}"' in message


@pytest.mark.parametrize("kind", ["Deployment", "Job", "CronJob"])
@pytest.mark.parametrize("value", [None, GOOD, f"*={NPF}+{PF}"])
def test_a_valid_or_absent_annotation_is_accepted(
    guarded: ControlPlane, kind: str, value: str | None
) -> None:
    assert dry_run(guarded, workload(kind, value))[0] == http.HTTPStatus.CREATED


VALUES: Final = [
    *(value for value, _ in MISTAKES.values()),
    GOOD,
    f" {ZONE} = {NPF} + {PF} ; {HOST} = {PF} ",
    f"{ZONE}\t=\t{NPF}",
    f"{ZONE}={NPF};",
    f";{ZONE}={NPF}",
    f"{ZONE}={NPF};;{HOST}={PF}",
    f"={NPF}",
    f" ={NPF}",
    ZONE,
    f"{ZONE}={NPF}+",
    f"{ZONE}=+{NPF}",
    f"{ZONE}={NPF}={PF}",
    f"{ZONE}={NPF},{PF}",
    f"{ZONE}=nodeprovisioningfailed",
    f"*={NPF}",
    f"*={NPF};{ZONE}={PF}",
    f"*={NPF};*={PF}",
    f"**={NPF}",
    f"{ZONE},{HOST}={NPF}",
    f"{ZONE}={NPF}\n;{HOST}={PF}",
    f"{ZONE}\u00a0={NPF}",
    "{}",
    "ü=é",
]


def generated(count: int) -> list[str]:
    """Return random sequences of tokens of the grammar, valid and invalid ones."""
    random = Random(3990)
    tokens = [ZONE, HOST, SOFT, "*", "=", "=", "=", "+", ";", NPF, PF, " "]
    lengths = itertools.cycle(range(1, 10))
    signatures = ("{k}={c}", "{k}={c}+{d}", "{k}={c};{l}={d}", "{k} = {c} ;{l}= {d}+{c}")
    values = []
    for number, length in zip(range(count), lengths, strict=False):
        if number % 2:
            values.append("".join(random.choices(tokens, k=length)))
        else:
            k, l = random.choices([ZONE, HOST, SOFT, "*"], [4, 4, 1, 2], k=2)  # noqa: E741
            c, d = random.choices([NPF, PF, "Nope"], [4, 4, 1], k=2)
            values.append(random.choice(signatures).format(k=k, l=l, c=c, d=d))
    return values


@pytest.mark.parametrize(
    "constraints",
    [CONSTRAINTS, [constraint(ZONE)], [constraint(SOFT, "ScheduleAnyway")]],
    ids=["two hard", "one hard", "none hard"],
)
def test_policy_and_scheduler_accept_the_same_values(
    guarded: ControlPlane, constraints: list[dict[str, Any]]
) -> None:
    hard = [
        each["topologyKey"] for each in constraints if each["whenUnsatisfiable"] == "DoNotSchedule"
    ]
    accepted: dict[str, tuple[bool, bool]] = {}
    for value in (*VALUES, *generated(150)):
        try:
            parse_fallback_annotation(value, hard)
            ours = True
        except FallbackAnnotationError:
            ours = False
        status, body = dry_run(guarded, pod("a", value, *constraints))
        assert status in (201, 422), body
        accepted[value] = ours, status == http.HTTPStatus.CREATED
    assert {value: both for value, both in accepted.items() if both[0] != both[1]} == {}
    if hard:
        assert {ours for ours, _ in accepted.values()} == {True, False}


def test_a_huge_value_is_rejected(guarded: ControlPlane) -> None:
    status, _ = dry_run(guarded, pod("a", f"{ZONE}={NPF};" * 3000))
    assert status == http.HTTPStatus.UNPROCESSABLE_ENTITY


def test_a_pod_that_was_there_before_can_lose_its_finalizers(guarded: ControlPlane) -> None:
    """Updates that do not touch an invalid annotation are accepted; new mistakes are not."""
    made = pod("held", GOOD)
    made["metadata"]["finalizers"] = ["example.com/held"]
    base = "/api/v1/namespaces/default/pods"
    guarded.admin.request("POST", base, made)
    status, _ = guarded.admin.exchange(
        "PATCH", f"{base}/held", {"metadata": {"annotations": {KEY: BAD}}}
    )
    assert status == http.HTTPStatus.UNPROCESSABLE_ENTITY
    guarded.admin.request("PATCH", f"{base}/held", {"metadata": {"labels": {"touched": "yes"}}})
    guarded.admin.request("DELETE", f"{base}/held")
    guarded.admin.request("PATCH", f"{base}/held", {"metadata": {"finalizers": None}})


def test_the_annotation_can_be_made_immutable(control_plane: ControlPlane, tmp_path: Path) -> None:
    base = "/api/v1/namespaces/default/pods"
    change = {"metadata": {"annotations": {KEY: f"*={PF}"}}}
    control_plane.admin.request("POST", base, pod("fixed", GOOD))
    control_plane.admin.request("PATCH", f"{base}/fixed", change)
    apply(control_plane, tmp_path, "topology-spread-fallback-immutable")
    undo = {"metadata": {"annotations": {KEY: GOOD}}}
    try:
        until(
            lambda: (
                control_plane.admin.exchange("PATCH", f"{base}/fixed?dryRun=All", undo)[0]
                == http.HTTPStatus.UNPROCESSABLE_ENTITY
            ),
            "in force",
        )
        _, body = control_plane.admin.exchange("PATCH", f"{base}/fixed", undo)
        assert "make a new pod" in json.loads(body)["message"]
        control_plane.admin.request("PATCH", f"{base}/fixed", {"metadata": {"labels": {"x": "y"}}})
    finally:
        apply(control_plane, tmp_path, "topology-spread-fallback-immutable", "delete")
        now = {"gracePeriodSeconds": 0, "kind": "DeleteOptions", "apiVersion": "v1"}
        control_plane.admin.request("DELETE", f"{base}/fixed", now)
