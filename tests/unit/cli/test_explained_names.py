"""`kubestow explain` of names that are no pod: what may have been meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from devtools.filled_records import filled
from scheduler.cli.endpoint import Endpoint
from scheduler.cli.exit_codes import BAD_INPUT, NO_SUCH_POD, UNREACHABLE, CommandError
from scheduler.cli.page.sources import LiveSource
from scheduler.cli.ui import tell_problem
from scheduler.cli.whatif import field_of
from scheduler.explain.records import (
    ExplainPage,
    NodeList,
    NodeRow,
    PodView,
    WaitingGroup,
    WaitingPage,
    WaitingPod,
)
from tests.unit.cli.command_line import Shell

NOTHING = WaitingPage(
    now=1.0, leading=True, namespace="shop", total=0, headline="", causes=[], selected=0,
    group_total=0, groups=[], pods=[], placed=0,
)  # fmt: skip


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let a scheduler answer that knows the pod shop/cpu and the Deployment shop/web."""
    pods: list[str] = []

    def get(_: Endpoint, path: str, query: Mapping[str, str]) -> bytes:
        if path == "/debug/waiting":
            known = query.get("owner") == "shop/Deployment/web"
            return msgspec.json.encode(msgspec.structs.replace(NOTHING, placed=3 * known))
        if path == "/debug/explain":
            pods.append(query["pod"])
            if query["pod"] == "shop/cpu":
                page: ExplainPage = filled(ExplainPage, lambda _: "x", variant=1)
                return msgspec.json.encode(page)
        raise CommandError(f"no pod {query.get('pod', '')}", NO_SUCH_POD)

    monkeypatch.setattr(Endpoint, "get", get)
    return pods


@pytest.mark.parametrize(
    ("names", "texts"),
    [
        (
            ("web", "-n", "shop"),
            ("Deployment web has pods:  kubestow explain deployment/web -n shop",),
        ),
        (("node/n1",), ("are explained, not nodes", "kubestow explain POD --node n1")),
        (
            ("node/n1", "--context=b"),
            ("kubestow explain POD --node n1 --context=b", "kubestow top --context=b"),
        ),
        (("shop/web-9",), ("no pod shop/web-9",)),
        (
            ("deploymet/web", "--context=b"),
            ("If deploymet was to be a kind:  kubestow explain deployment/web --context=b",),
        ),
    ],
)
@pytest.mark.usefixtures("asked")
def test_a_name_that_no_pod_has(shell: Shell, names: tuple[str, ...], texts: list[str]) -> None:
    ended = shell("explain", *names)
    assert ended.code == NO_SUCH_POD
    assert all(text in ended.err for text in texts), ended.err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("deploy/web", "-n", "shop"), "deploy/web is an owner of pods, and the question is about"),
        (("deployment", "web"), "give a pod, or the manifest of the owner with -f"),
        (("foo/web", "-n", "shop"), "foo is taken for a namespace, and --namespace is shop"),
    ],
)
def test_what_whatif_cannot_be_asked_about(shell: Shell, words: tuple[str, ...], text: str) -> None:
    ended = shell("whatif", *words)
    assert (ended.code, ended.out) == (2, "")
    assert text in " ".join(ended.err.split())


def test_the_namespace_of_a_name_may_be_repeated(shell: Shell, asked: list[str]) -> None:
    assert shell("explain", "shop/cpu", "-n", "shop").code == 0
    assert shell("explain", "shop/pod/cpu", "-n", "shop").code == 0
    assert asked == ["shop/cpu", "shop/cpu"]


@pytest.mark.parametrize(
    ("field", "pointer"),
    [
        ("spec.nodeSelector.a.b/zone", "/spec/nodeSelector/a.b~1zone"),
        ("spec.nodeSelector.disk", "/spec/nodeSelector/disk"),
        ("spec.nodeSelector.a.b", "/spec/nodeSelector/a.b"),
        ("metadata.labels.app~x", "/metadata/labels/app~0x"),
        (
            "spec.containers[1].resources.requests.nvidia.com/gpu",
            "/spec/containers/1/resources/requests/nvidia.com~1gpu",
        ),
        (
            "spec.topologySpreadConstraints[0].labelSelector.matchLabels.a/b",
            "/spec/topologySpreadConstraints/0/labelSelector/matchLabels/a~1b",
        ),
        ("nvidia.com/gpu", "/spec/containers/0/resources/requests/nvidia.com~1gpu"),
    ],
)
def test_a_key_with_dots_is_one_part_of_a_path(field: str, pointer: str) -> None:
    assert field_of(f"{field}=1") == (pointer, 1)


@pytest.mark.parametrize("value", ["", "zone-a"])
@pytest.mark.parametrize(
    ("field", "meant"),
    [
        ("nodeSelector.a.b/zone", "spec.nodeSelector.a.b/zone"),
        ("nodeselector.a.b/zone", "spec.nodeSelector.a.b/zone"),
        ("labels.a.b/c", "metadata.labels.a.b/c"),
        ("nodeSelector.disk", "spec.nodeSelector.disk"),
    ],
)
def test_a_path_without_its_beginning_is_no_resource(
    field: str, meant: str, value: str, shell: Shell
) -> None:
    ended = shell("whatif", "shop/cpu", "--set", f"{field}={value}")
    assert ended.code == 2
    assert f"did you mean {meant}?" in ended.err


@pytest.mark.parametrize(
    ("field", "fault"),
    [
        ("topology.kubernetes.io/zone=b", "a label of the node is spec.nodeSelector.topology."),
        ("example.com/gpu=1.5", "'1.5' is no amount of it"),
        ("cpu=many", "cpu: "),
        ("memory=-1", "-1 memory: must not be negative"),
        ("cpu=true", "cpu: "),
    ],
)
def test_what_is_no_amount_is_not_requested(field: str, fault: str, shell: Shell) -> None:
    ended = shell("whatif", "shop/cpu", "--set", field)
    assert ended.code == 2
    assert fault in ended.err


@pytest.mark.parametrize("value", ["2", "'2'", "1.5", "500m", "1e1"])
def test_an_amount_is_requested(value: str) -> None:
    assert field_of(f"cpu={value}")[0] == "/spec/containers/0/resources/requests/cpu"


def test_a_path_with_a_slash_elsewhere_is_a_pointer(shell: Shell) -> None:
    ended = shell("whatif", "shop/cpu", "--set", "spec.tolerations.a/b=c")
    assert ended.code == 2
    assert "/spec/nodeSelector/topology.kubernetes.io~1zone=b" in ended.err


def elsewhere(query: Mapping[str, str]) -> WaitingPage:
    """Return what waits in all namespaces, with names that are alike, and some that are none."""
    view: PodView = filled(PodView, lambda _: "x")
    pods = [
        WaitingPod(replace(view, namespace=namespace, name=name), "", "lack CPU")
        for namespace in ("s5", "shop", "s1", "s2", "s3", "S-4", "s5")
        for name in ("big", "big-1")
    ]
    groups = [
        WaitingGroup(namespace, owner, "lack CPU", 1, "x", 1.0)
        for namespace in ("a1", "shop")
        for owner in ("Job/big", "ReplicaSet/big", "Job/big-1", "Job\x1b/big")
    ]
    assert query["words"] == "big"
    return msgspec.structs.replace(NOTHING, namespace="", pods=pods, groups=groups)


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("big", ["job/big -n a1", "big -n s1", "big -n s2", "and 2 more"]),
        ("job/big", ["job/big -n a1"]),
        ("rs/big", ["replicaset/big -n a1"]),
        ("sts/big", []),
    ],
)
def test_a_name_in_other_namespaces(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, name: str, commands: list[str]
) -> None:
    def get(_: Endpoint, path: str, query: Mapping[str, str]) -> bytes:
        if path == "/debug/waiting":
            return msgspec.json.encode(NOTHING if "namespace" in query else elsewhere(query))
        raise CommandError(f"no pod {query.get('pod', '')}", NO_SUCH_POD)

    monkeypatch.setattr(Endpoint, "get", get)
    ended = shell("explain", name, "-n", "shop")
    assert ended.code == NO_SUCH_POD
    _, heading, told = ended.err.partition("Waiting in another namespace:\n")
    assert bool(heading) is bool(commands)
    found = [each.strip().removeprefix("kubestow explain ") for each in told.splitlines()]
    assert found == commands


@pytest.mark.parametrize(
    ("node", "near"),
    [
        ("simulatd-1", "; did you mean simulated-1"),
        ("node/simulatd-1", "; did you mean"),
        ("x", ""),
    ],
)
def test_a_node_that_may_be_meant(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, node: str, near: str
) -> None:
    row: NodeRow = filled(NodeRow, lambda _: "x")
    nodes: NodeList = filled(NodeList, lambda _: "x")
    names = ("simulated-1", "\x1b[2J")
    nodes = msgspec.structs.replace(nodes, nodes=[replace(row, name=name) for name in names])

    def get(_: Endpoint, path: str, query: Mapping[str, str]) -> bytes:
        if path == "/debug/nodes":
            return msgspec.json.encode(nodes)
        assert path == "/debug/explain"
        raise CommandError(f'no node "{query["node"]}": it does not exist', NO_SUCH_POD)

    monkeypatch.setattr(Endpoint, "get", get)
    ended = shell("explain", "shop/cpu", "--node", node)
    assert ended.code == NO_SUCH_POD
    name = node.removeprefix("node/")
    assert f'no node "{name}": it does not exist{near}' in ended.err
    assert ("did you mean" in ended.err) is bool(near)


def test_the_kind_may_stand_behind_the_namespace(shell: Shell, asked: list[str]) -> None:
    assert shell("explain", "shop/pod/cpu").code == 0
    assert asked == ["shop/cpu"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("node", "n1"), "kubestow explain POD --node n1"),
        (("shop/deploymnt/web",), "an owner of pods is written shop/Deployment/web"),
        (("deploymet", "web"), "give one pod, not 2: deploymet web; did you mean deployment web?"),
        (("two", "pods"), "give one pod, not 2: two pods\n"),
        (("statefulst/web", "-n", "shop"), "of pods and their owners, such as statefulset/web"),
        (("svc/web", "-n", "shop"), "svc is taken for a namespace, and --namespace is shop"),
        (("shop/Job/web", "-n", "other"), "shop is taken for a namespace, and --namespace is"),
        (("--group", "a/train", "-n", "shop"), "a is taken for a namespace, and --namespace is"),
    ],
)
def test_names_that_are_refused(shell: Shell, words: tuple[str, ...], text: str) -> None:
    ended = shell("explain", *words)
    assert ended.code == 2
    assert text in ended.err


@pytest.mark.parametrize(
    ("field", "meant"),
    [("priority=1", "spec.priority"), ("labels.app=x", "metadata.labels.app"),
     ("container[0].image=x", "spec.containers[0].image"), ("xyz=1", None)],
)  # fmt: skip
def test_a_field_without_its_part_of_the_pod(field: str, meant: str | None, shell: Shell) -> None:
    ended = shell("whatif", "shop/cpu", "--set", field)
    assert ended.code == 2
    assert (f"did you mean {meant}? " if meant else "': write cpu") in ended.err
    if meant:
        assert field_of(f"{meant}=1")[0].startswith(("/spec/", "/metadata/"))


@pytest.mark.parametrize(
    ("code", "told"), [(UNREACHABLE, "note: no pod leads\nThe page asks again"), (NO_SUCH_POD, "")]
)
def test_a_page_without_a_scheduler_says_so(
    code: int, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stream(*_: object) -> None:
        raise CommandError("no pod leads", code)

    monkeypatch.setattr(Endpoint, "stream", stream)
    endpoint = Endpoint(
        server="", token="", kubeconfig="", context="", ca_file="", tls_server_name="",
        insecure_skip_tls_verify=False,
    )  # fmt: skip
    tell_problem(LiveSource(endpoint))
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith(told)
    assert bool(found.err) is bool(told)


@pytest.mark.parametrize("command", ["explain", "whatif"])
def test_a_file_in_place_of_a_name_is_pointed_to_the_option(
    shell: Shell, tmp_path: Path, command: str
) -> None:
    file = tmp_path / "pod.yaml"
    file.touch()
    ended = shell(command, str(file))
    assert ended.code == BAD_INPUT
    assert f"{file} is a file; about its pod:  kubestow whatif -f {file}" in ended.err
