"""Owners whose pods the scheduler does not know: what the cluster says about them."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
import pytest

from scheduler.cli.endpoint import Endpoint
from scheduler.cli.exit_codes import NO_SUCH_POD, UNREACHABLE, CommandError
from scheduler.cli.owner_object import MAX_NAMES, NAMES_ONLY
from scheduler.cli.owner_status import MAX_MESSAGE
from scheduler.explain.records import WaitingGroup, WaitingPage
from tests.unit.cli.command_line import Shell

GONE: Final = (404, {"kind": "Status", "reason": "NotFound"})
SHOP: Final = "/api/v1/namespaces/shop"
TODAY: Final = "the scheduler knows no pod of Deployment/mis in namespace shop"


class Cluster:
    """An API server with what a test puts in, and a scheduler that knows no pod."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[int, Any]] = {SHOP: (200, {"kind": "Namespace"})}
        self.asked: list[tuple[str, str]] = []
        #: What the scheduler knows of the owner.
        self.waiting = WaitingPage(
            now=1.0, leading=True, namespace="shop", total=0, headline="", causes=[], selected=0,
            group_total=0, groups=[], pods=[], placed=0,
        )  # fmt: skip

    def read(self, target: str, accept: str) -> tuple[int, bytes]:
        """Return an object."""
        self.asked.append((target, accept))
        status, found = self.objects.get(target, GONE)
        return status, found if isinstance(found, bytes) else json.dumps(found).encode()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()

    def get(_: Endpoint, path: str, __: object) -> bytes:
        if path == "/debug/waiting":
            return msgspec.json.encode(made.waiting)
        raise CommandError("no such page", NO_SUCH_POD)

    monkeypatch.setattr(Endpoint, "get", get)
    monkeypatch.setattr(Endpoint, "read_cluster", lambda _, *what: made.read(*what))
    return made


@pytest.mark.parametrize(
    ("owner", "target"),
    [
        ("deploy/mis", "/apis/apps/v1/namespaces/shop/deployments"),
        ("rs/mis", "/apis/apps/v1/namespaces/shop/replicasets"),
        ("sts/mis", "/apis/apps/v1/namespaces/shop/statefulsets"),
        ("ds/mis", "/apis/apps/v1/namespaces/shop/daemonsets"),
        ("job/mis", "/apis/batch/v1/namespaces/shop/jobs"),
        ("cj/mis", "/apis/batch/v1/namespaces/shop/cronjobs"),
        ("rc/mis", "/api/v1/namespaces/shop/replicationcontrollers"),
    ],
)
def test_an_owner_that_does_not_exist_is_asked_for_once_and_names_like_it_once(
    owner: str, target: str, cluster: Cluster, shell: Shell
) -> None:
    ended = shell("explain", owner, "-n", "shop")
    assert (ended.code, ended.out) == (NO_SUCH_POD, "")
    plural = target.rpartition("/")[2]
    assert " mis in namespace shop\n" in ended.err
    assert f"kubectl get {plural} -A" in ended.err
    assert cluster.asked == [
        (f"{target}/mis", "application/json"),
        (SHOP, "application/json"),
        (f"{target}?limit={MAX_NAMES}", NAMES_ONLY),
    ]


def test_a_name_that_may_be_meant(cluster: Cluster, shell: Shell) -> None:
    names = ["miss", "web", 1, None, "mis\x1b"]
    items = [{"metadata": {"name": each}} for each in names] + [1]
    path = f"/apis/apps/v1/namespaces/shop/deployments?limit={MAX_NAMES}"
    cluster.objects[path] = (200, {"items": items})
    ended = shell("explain", "deployment/mis", "-n", "shop")
    assert "there is no Deployment mis in namespace shop; did you mean miss?\n" in ended.err


@pytest.mark.parametrize(
    ("status", "reason", "named"),
    [(404, "NotFound", True), (404, "", False), (403, "Forbidden", False)],
)
@pytest.mark.parametrize(
    "words",
    [("explain", "mis"), ("explain", "job/mis"), ("explain", "--group", "mis"), ("whatif", "mis")],
)
def test_a_namespace_that_does_not_exist_is_named_to_who_may_get_it(
    words: tuple[str, ...],
    status: int,
    reason: str,
    named: bool,
    cluster: Cluster,
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def post(*_: object, **__: object) -> bytes:
        raise CommandError("no such pod", NO_SUCH_POD)

    monkeypatch.setattr(Endpoint, "post", post)
    cluster.objects["/api/v1/namespaces/shpo"] = (status, {"kind": "Status", "reason": reason})
    absent = 'there is no namespace "shpo"'
    ended = shell(*words, "-n", "shpo")
    assert (ended.code, absent in ended.err) == (NO_SUCH_POD, named)
    # Who may not list them learns no other name.
    assert "did you mean" not in ended.err
    items = [{"metadata": {"name": "shop"}}]
    cluster.objects[f"/api/v1/namespaces?limit={MAX_NAMES}"] = (200, {"items": items})
    ended = shell(*words, "-n", "shpo")
    assert (f"{absent}; did you mean shop?" in ended.err) is named


@pytest.mark.parametrize(
    ("owner", "path", "above"),
    [
        ("deployment/mis", "apps/v1/namespaces/shop/deployments/mis", ()),
        ("job/mis", "batch/v1/namespaces/shop/jobs/mis", ()),
        ("cronjob/mis", "batch/v1/namespaces/shop/cronjobs/mis", ("jobTemplate", "spec")),
    ],
)
def test_an_owner_without_pods_and_the_scheduler_that_they_will_ask_for(
    owner: str, path: str, above: tuple[str, ...], cluster: Cluster, shell: Shell
) -> None:
    spec: dict[str, Any] = {"template": {"spec": {"schedulerName": "kubestw\x1b\r\n" + "y" * 9999}}}
    for each in reversed(above):
        spec = {each: spec}
    kind = {"deployment": "Deployment", "job": "Job"}.get(owner.partition("/")[0], "CronJob")
    cluster.objects[f"/apis/{path}"] = (200, {"kind": kind, "spec": spec})
    ended = shell("explain", owner, "-n", "shop")
    assert (ended.code, ended.err, len(cluster.asked)) == (0, "", 1)
    assert ended.out.startswith(f"shop/{kind}/mis: no pod waits or has a node\n")
    field = ".".join(("spec", *above, "template.spec.schedulerName"))
    assert f'Its pods ask for scheduler "kubestw? {"y" * 90}…" ({field}).' in ended.out
    assert f"kubectl -n shop describe {kind.lower()} mis" in ended.out


@pytest.mark.parametrize(
    ("asked", "hint"),
    [("kubstow", "; did you mean kubestow?"), ("kubestow", "."), ("volcano", ".")],
)
def test_a_slip_in_the_scheduler_of_an_owner_without_pods(
    asked: str, hint: str, cluster: Cluster, shell: Shell
) -> None:
    spec = {"replicas": 0, "template": {"spec": {"schedulerName": asked}}}
    target = "/apis/apps/v1/namespaces/shop/deployments/mis"
    cluster.objects[target] = (200, {"kind": "Deployment", "spec": spec})
    ended = shell("explain", "deployment/mis", "-n", "shop")
    assert ended.code == 0
    assert "It asks for no pods: spec.replicas is 0.\n" in ended.out
    path = "(spec.template.spec.schedulerName)"
    assert f'Its pods ask for scheduler "{asked}" {path}{hint}\n' in ended.out


@pytest.mark.parametrize(
    "answer",
    [
        (403, {"kind": "Status", "reason": "Forbidden"}),
        (404, b"404 page not found"),
        (404, {"kind": "Status"}),
        (200, b"<html>"),
        (200, b"[" * 10_000),
        (200, {"kind": "Deployment", "spec": {"template": [1]}}),
        (200, {"kind": "Pod"}),
        (200, [1]),
    ],
)
def test_an_answer_that_says_nothing_changes_nothing(
    answer: tuple[int, Any], cluster: Cluster, shell: Shell
) -> None:
    cluster.objects["/apis/apps/v1/namespaces/shop/deployments/mis"] = answer
    ended = shell("explain", "deployment/mis", "-n", "shop")
    assert ended.code == NO_SUCH_POD
    assert TODAY in ended.err


@pytest.mark.parametrize("owner", ["shop/RayCluster/mis", "shop/job/a%2F", "shop/job/.."])
def test_what_has_no_known_path_is_not_asked_for(
    owner: str, cluster: Cluster, shell: Shell
) -> None:
    assert shell("explain", owner).code == NO_SUCH_POD
    assert {target for target, _ in cluster.asked} <= {SHOP}


@pytest.mark.parametrize("error", [OSError("gone"), CommandError("no cluster", UNREACHABLE)])
def test_without_an_api_server_the_text_stays(
    error: Exception, cluster: Cluster, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(Endpoint, "read_cluster", fail)
    ended = shell("explain", "deployment/mis", "-n", "shop")
    assert (ended.code, cluster.asked) == (NO_SUCH_POD, [])
    assert TODAY in ended.err


@pytest.mark.parametrize(
    ("replicas", "waiting", "placed", "helps"),
    [(5, 2, 3, True), (4, 2, 3, False), (2, 2, 0, False), (3, 0, 3, False), (None, 2, 3, False)],
)
def test_a_deployment_is_told_with_how_many_replicas_none_would_wait(
    cluster: Cluster, shell: Shell, replicas: int | None, waiting: int, placed: int, helps: bool
) -> None:
    groups = [WaitingGroup("shop", "Deployment/web", "lack CPU", waiting, "web-1", 1.0)]
    cluster.waiting = msgspec.structs.replace(
        cluster.waiting, selected=waiting, placed=placed, groups=groups if waiting else [],
        group_total=int(waiting > 0),
    )  # fmt: skip
    target = "/apis/apps/v1/namespaces/shop/deployments/web"
    found = {"kind": "Deployment", "spec": {"replicas": replicas}}
    cluster.objects[target] = (200, found) if replicas else GONE
    ended = shell("explain", "deployment/web", "-n", "shop")
    page = json.loads(shell("explain", "deployment/web", "-n", "shop", "-o", "json").out)
    assert bool(page["fewer"]) is helps
    line = "\nNone would wait with 3 replicas:  kubectl -n shop scale deployment web --replicas=3\n"
    assert ended.code == 0
    assert ended.out.endswith(line) is helps
    assert "replicas" not in shell("explain", "deploy/web", "-n", "shop", "--remedies", "none").out


QUOTA: Final = (
    'pods "quota-5d-" is forbidden: exceeded quota: q, requested: pods=1, limited: pods=2'
)


def refused(kind: str, wanted: int, exist: int, message: str = QUOTA) -> dict[str, Any]:
    """Return an owner whose pods a quota refuses."""
    condition = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}
    status = {"replicas": exist} if exist else {}
    conditions = [1, {"type": "Available", "status": "True"}, {**condition, "message": message}]
    return {
        "kind": kind,
        "spec": {"replicas": wanted, "template": {"spec": {"schedulerName": "kubestow"}}},
        "status": {**status, "conditions": conditions},
    }


def test_the_cause_why_pods_do_not_exist_is_named(cluster: Cluster, shell: Shell) -> None:
    cluster.waiting = msgspec.structs.replace(cluster.waiting, placed=2)
    target = "/apis/apps/v1/namespaces/shop/deployments/quota"
    cluster.objects[target] = (200, refused("Deployment", 5, 2))
    ended = shell("explain", "deployment/quota", "-n", "shop", "--remedies", "none")
    assert ended.code == 0
    assert [target] == [asked for asked, _ in cluster.asked]
    title, *rest = ended.out.splitlines()
    assert title == "shop/Deployment/quota: 2 pods, 2 have a node, 0 wait"
    numbers = "5 pods are wanted, 2 exist"
    said = f"{numbers}: the ReplicaSet cannot create the others: FailedCreate: {QUOTA}"
    assert " ".join(rest) == said
    page = json.loads(shell("explain", "deployment/quota", "-n", "shop", "-o", "json").out)
    assert (page["kind"], page["lacking"]) == ("OwnerExplanation", said)


def test_the_cause_is_named_where_none_was_created(cluster: Cluster, shell: Shell) -> None:
    target = "/apis/apps/v1/namespaces/shop/deployments/quota"
    cluster.objects[target] = (200, refused("Deployment", 5, 0))
    ended = shell("explain", "deployment/quota", "-n", "shop")
    assert ended.code == 0
    shown = " ".join(ended.out.split())
    assert "5 pods are wanted, none exists: the ReplicaSet cannot create them: F" in shown
    assert QUOTA in shown
    assert "Has it made any?" not in shown


@pytest.mark.parametrize("known", [0, 2])
def test_a_message_of_a_controller_is_one_short_line(
    known: int, cluster: Cluster, shell: Shell
) -> None:
    cluster.waiting = msgspec.structs.replace(cluster.waiting, placed=known)
    target = "/apis/apps/v1/namespaces/shop/deployments/quota"
    message = "\x1b[2J\r\n[bold]" + "y" * 9999
    cluster.objects[target] = (200, refused("Deployment", 5, known, message))
    ended = shell("explain", "deployment/quota", "-n", "shop")
    said = "".join((ended.out + ended.err).split())
    assert "FailedCreate:?[2J[bold]yyy" in said
    assert said.count("y") < MAX_MESSAGE + 10


@pytest.mark.parametrize("exist", [None, 3])
def test_an_owner_with_all_its_pods_has_no_further_line(
    exist: int | None, cluster: Cluster, shell: Shell
) -> None:
    cluster.waiting = msgspec.structs.replace(cluster.waiting, placed=3)
    found = {"kind": "Deployment", "spec": {"replicas": 3}, "status": {"replicas": exist}}
    cluster.objects["/apis/apps/v1/namespaces/shop/deployments/web"] = (200, found)
    ended = shell("explain", "deployment/web", "-n", "shop")
    assert ended.out == "shop/Deployment/web: 3 pods, 3 have a node, 0 wait\n"


@pytest.mark.parametrize(
    ("word", "kind", "group", "fields"),
    [
        ("job", "Job", "batch/v1", ({"parallelism": 5}, {"active": 2})),
        ("sts", "StatefulSet", "apps/v1", ({"replicas": 5}, {"replicas": 2})),
        (
            "ds", "DaemonSet", "apps/v1",
            ({}, {"desiredNumberScheduled": 5, "currentNumberScheduled": 2}),
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("known", [0, 2])
def test_the_newest_event_about_pods_that_were_not_created_is_the_cause(
    cluster: Cluster, shell: Shell, known: int, word: str, kind: str, group: str,
    fields: tuple[dict[str, Any], dict[str, Any]],
) -> None:  # fmt: skip
    cluster.waiting = msgspec.structs.replace(cluster.waiting, placed=known)
    spec, status = fields
    spec = {**spec, "template": {"spec": {"schedulerName": "kubestow"}}}
    found = {"kind": kind, "metadata": {"uid": "u/1"}, "spec": spec, "status": status}
    path = f"/apis/{group}/namespaces/shop/{kind.lower()}s/q"
    cluster.objects[path] = (200, found)
    events = [
        {"reason": "FailedCreate", "lastTimestamp": time, "message": message}
        for time, message in (("2026-01-02T00:00:00Z", QUOTA), ("2026-01-01T00:00:00Z", "older"))
    ]
    selector = "involvedObject.uid%3Du%2F1%2Creason%3DFailedCreate"
    about = f"/api/v1/namespaces/shop/events?fieldSelector={selector}&limit=250"
    cluster.objects[about] = (200, {"items": [1, *events, {"lastTimestamp": 7}]})
    ended = shell("explain", f"{word}/q", "-n", "shop", "--remedies", "none")
    assert [asked for asked, _ in cluster.asked] == [path, about]
    said = " ".join((ended.out + ended.err).split())
    numbers = "5 pods are wanted, 2 exist"
    text = f"{numbers}: the {kind} could not create the others: FailedCreate: {QUOTA}"
    assert text in said


@pytest.mark.parametrize(
    "answer", [GONE, (403, {}), (200, {"items": 1}), (200, {"items": []}), (200, {"items": [1]})]
)
def test_without_events_they_are_pointed_to(
    answer: tuple[int, Any], cluster: Cluster, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"parallelism": 5, "template": {"spec": {"schedulerName": "kubestow"}}}
    found = {"kind": "Job", "metadata": {"uid": "u"}, "spec": spec, "status": {"active": 2}}
    job = (200, json.dumps(found).encode())
    other = (answer[0], json.dumps(answer[1]).encode())
    monkeypatch.setattr(Endpoint, "read_cluster", lambda _, at, __: other if "ev" in at else job)
    ended = shell("explain", "job/q", "-n", "shop")
    assert "2 exist; its events may say why:  kubectl -n shop describe job q" in ended.out
