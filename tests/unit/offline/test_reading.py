"""Dumps and manifests: every form that kubectl prints, and clear errors for all others."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from scheduler import offline
from scheduler.offline import dump_files, dump_objects
from scheduler.offline.faults import MAX_FAULTS

NODE, POD = offline.node("n1"), offline.pod("web")
NESTED_ALIASES = "\n".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9 if i else ['x'] * 9)}]" for i in range(12)
)
NESTED_MERGES = "\n".join(
    f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}" if i else "a0: &a0 {x: 1}"
    for i in range(12)
)
CLAIM: Final = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}


def listed(*objects: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def without_kind(obj: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}


PODS_OF_THE_API = {"apiVersion": "v1", "kind": "PodList", "items": [without_kind(POD)]}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("list.json", json.dumps(listed(NODE, POD))),
        ("list.json", json.dumps(listed(NODE, POD), indent=4)),
        ("list.yaml", yaml.safe_dump(listed(NODE, POD))),
        ("many.yaml", yaml.safe_dump_all([NODE, None, POD])),
        ("lists.yaml", yaml.safe_dump_all([listed(NODE), PODS_OF_THE_API])),
    ],
)
def test_every_form_gives_the_same_world(tmp_path: Path, name: str, content: str) -> None:
    plain, packed = tmp_path / name, tmp_path / f"{name}.gz"
    plain.write_text(content)
    packed.write_bytes(gzip.compress(content.encode()))
    for path in (plain, packed):
        with offline.World.load(path) as world:
            assert [each.node for each in world.schedule().placed] == ["n1"]


def test_files_and_folders_are_read_together(tmp_path: Path) -> None:
    folder = tmp_path / "dump"
    folder.mkdir()
    (folder / "nodes.json").write_text(json.dumps(NODE))
    (folder / "pods.yaml").write_text(yaml.safe_dump(PODS_OF_THE_API))
    (folder / "README").write_text("not read")
    more = tmp_path / "more.json"
    more.write_text(json.dumps(offline.node("n2")))
    objects = offline.Objects.read(folder, more)
    assert len(objects) == 3
    for _ in range(2):
        with offline.World(objects) as world:
            assert len(world.schedule().placed) == 1


def test_pending_pods_are_queued_by_their_age(tmp_path: Path) -> None:
    pods = []
    for name, created in (("b", "2026-01-02"), ("a", "2026-01-03"), ("c", "2026-01-01")):
        pod = offline.pod(name, cpu=3)
        pod["metadata"]["creationTimestamp"] = f"{created}T00:00:00Z"
        pods.append(pod)
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(listed(*pods, NODE)))
    with offline.World.load(path) as world:
        assert [each.pod for each in world.schedule().placed] == ["default/c"]


def test_finished_pods_do_not_count(tmp_path: Path) -> None:
    done = {**offline.pod("done", cpu=4, node="n1"), "status": {"phase": "Succeeded"}}
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(listed(NODE, done, offline.pod("new", cpu=4))))
    with offline.World.load(path) as world:
        assert [each.pod for each in world.schedule().placed] == ["default/new"]


def test_unknown_and_missing_kinds_are_said_once(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    pod = offline.pod(labels={"app": "web"}, spec={"volumes": [CLAIM]})
    path.write_text(json.dumps(listed(NODE, DEPLOYMENT, DEPLOYMENT, pod)))
    with offline.World.load(path) as world:
        skipped, absent = world.notes
    assert skipped == "apps/v1 Deployment: 2 skipped, since scheduling reads no such objects"
    assert absent.endswith(": right if the cluster has none, else dump them, too")
    kinds = [each.split(" (")[0] for each in absent.removeprefix("the dump has no ").split("), ")]
    assert kinds == [
        "persistentvolumeclaims", "persistentvolumes", "storageclasses", "csinodes", "csidrivers",
        "poddisruptionbudgets", "services", "resourcequotas",
    ]  # fmt: skip


def test_namespaces_that_a_dump_lacks_are_known_by_their_names(tmp_path: Path) -> None:
    def away_from_others(own: str) -> dict[str, Any]:
        name = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [own]}
        term = {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": "web"}},
            "namespaceSelector": {"matchExpressions": [name]},
        }
        return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    running = offline.pod("running", namespace="one", labels={"app": "web"}, node="n1")
    pods = [
        offline.pod("new", namespace=each, spec={"affinity": away_from_others(each)})
        for each in ("one", "two")
    ]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(listed(NODE, running, *pods)))
    with offline.World.load(path) as world:
        assert [each.pod for each in world.schedule().placed] == ["one/new"]


def selecting_namespaces() -> dict[str, Any]:
    term = {"topologyKey": "zone", "namespaceSelector": {}}
    preferred = {"weight": 1, "podAffinityTerm": term}
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}
    return offline.pod(spec={"affinity": affinity})


def owned(kind: str) -> dict[str, Any]:
    pod = offline.pod()
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "1", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    return pod


@pytest.mark.parametrize(
    ("pod", "more"),
    [
        (offline.pod(), []),
        (selecting_namespaces(), ["namespaces"]),
        (owned("ReplicaSet"), ["replicasets"]),
        (owned("StatefulSet"), ["statefulsets"]),
        (owned("Job"), []),
    ],
)
def test_kinds_that_decide_about_no_pod_are_not_missed(
    tmp_path: Path, pod: dict[str, Any], more: list[str]
) -> None:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(listed(NODE, pod)))
    with offline.World.load(path) as world:
        (said,) = world.notes
    found = re.findall(r"(\w+) \(", said)
    assert sorted(found) == sorted(["poddisruptionbudgets", "resourcequotas", *more])


def test_nothing_is_missed_without_pods(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(listed(NODE)))
    with offline.World.load(path) as world:
        assert world.notes == []


def bad_node() -> dict[str, Any]:
    return offline.node("n7", cpu="much")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("{", r"dump:2: neither YAML nor JSON"),
        ("a: [", r"dump:2: neither YAML nor JSON"),
        ("[" * 100_000, "dump:1: nested too deeply"),
        ("- &a [*a]", "dump:1: the alias \\*a contains itself"),
        ("- &a [x, x]\n- *unknown", "dump:2: neither YAML nor JSON: found undefined alias"),
        (NESTED_ALIASES, "dump:\\d: its aliases repeat more than 16 Mi values and characters"),
        (NESTED_MERGES, "dump:\\d: its aliases repeat more than 16 Mi values and characters"),
        ("just text", r"dump:1: expected a Kubernetes object"),
        ("- 1\n- 2\n", r"dump:1: expected a Kubernetes object"),
        ('{"spec": {}}', r"dump:1: no apiVersion no kind"),
        (json.dumps(listed(NODE, bad_node()), indent=1), r"dump:3\d: Node n7: .*cpu"),
        (yaml.safe_dump_all([NODE, bad_node()]), r"dump:2\d: Node n7: .*cpu"),
        (yaml.safe_dump(listed(NODE, bad_node())), r"dump:2\d: Node n7: .*cpu"),
        ('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 3}}', r"dump:1: "),
        ('{"apiVersion": "v1", "kind": "Pod", "metadata": {}}', "metadata.name is missing"),
        ('{"apiVersion": "v1", "kind": "Pod", "spec": 3, "metadata": {"name": "x"}}', "Pod x: "),
    ],
)
def test_a_malformed_file_is_named_with_its_line(tmp_path: Path, content: str, text: str) -> None:
    path = tmp_path / "dump"
    path.write_text(content)
    with pytest.raises(offline.WorldError, match=text):
        offline.World.load(path)


@pytest.mark.parametrize("dump", [json.dumps, yaml.safe_dump])
def test_all_malformed_objects_are_named(tmp_path: Path, dump: Callable[[Any], str]) -> None:
    path = tmp_path / "dump"
    nodes = [bad_node() | {"metadata": {"name": f"n{i}"}} for i in range(MAX_FAULTS + 2)]
    path.write_text(dump(listed(NODE, *nodes, {"apiVersion": "v1", "kind": "Pod"})))
    with pytest.raises(offline.WorldError) as caught:
        offline.World.load(path)
    *lines, last = str(caught.value).splitlines()
    assert [each.split(": ")[1] for each in lines] == [f"Node n{i}" for i in range(MAX_FAULTS)]
    assert last == "and 3 more"


def test_the_faults_of_all_files_are_named(tmp_path: Path) -> None:
    files = (("a.yaml", "- 1\n- 2\n"), ("b.json", "{"), ("c.yaml", "{"))
    for name, content in files:
        (tmp_path / name).write_text(content)
    with pytest.raises(offline.WorldError) as caught:
        offline.World.load(*(tmp_path / name for name, _ in files))
    named = [each.rpartition("/")[2] for each in str(caught.value).splitlines()]
    assert [each.partition(":")[0] for each in named] == ["a.yaml", "a.yaml", "b.json", "c.yaml"]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"containers": [{"name": "c", "resources": {"requests": {"cpu": "-1m"}}}]},
         r"spec\.containers\[0\]\.resources\.requests\[cpu\]"),
        ({"containers": [{"name": "c", "resources": {"limits": {"memory": -1}}}]},
         r"spec\.containers\[0\]\.resources\.limits\[memory\]"),
        ({"containers": [{"name": "c"}], "overhead": {"cpu": "-0.5"}}, r"spec\.overhead\[cpu\]"),
    ],
)  # fmt: skip
def test_a_negative_amount_is_refused(tmp_path: Path, spec: dict[str, Any], path: str) -> None:
    pod = offline.pod("web") | {"spec": spec}
    (tmp_path / "dump").write_text(json.dumps(pod))
    text = f"Pod default/web: {path}: invalid quantity .*: must not be negative"
    with pytest.raises(offline.WorldError, match=text):
        offline.World.load(tmp_path / "dump")
    with offline.World() as world, pytest.raises(offline.WorldError, match="must not be negative"):
        world.add(pod)


def test_a_negative_node_is_refused_and_minus_zero_is_not() -> None:
    with offline.World() as world:
        world.add(offline.node("n0", cpu="-0"))
        with pytest.raises(offline.WorldError, match=r"Node n1: status\.allocatable\[cpu\]: "):
            world.add(offline.node("n1", cpu="-1"))
        assert not world.how_many_fit(offline.pod(cpu="1m")).total


def test_an_object_that_replaces_another_is_noted(tmp_path: Path) -> None:
    first = [offline.node(f"n{i}", cpu="1") for i in range(7)]
    second = [offline.node(f"n{i}", cpu="2") for i in range(7)]
    (tmp_path / "a.json").write_text(json.dumps(listed(*first)))
    (tmp_path / "b.yaml").write_text(yaml.safe_dump_all(second))
    with offline.World.load(tmp_path) as world:
        (note,) = [each for each in world.notes if "of the same name" in each]
        assert world.how_many_fit(offline.pod(cpu="2")).total == 7
    a, b = tmp_path / "a.json", tmp_path / "b.yaml"
    assert note.startswith(f"objects of the same name: Node n0 ({b}:1 replaced {a}:1), Node n1 (")
    assert note.endswith(" and 2 more")
    with offline.World.load(a) as world:
        assert not any("of the same name" in each for each in world.notes)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('{"kind": "List",\n"items": [\n{"kind" 3}]}', r"dump\.json:3: JSON is malformed"),
        ('{"kind": "List",\n"items": [\n', r"dump\.json:2: Input data was truncated"),
        ("[\n{}]", r"dump\.json:\d: no apiVersion no kind: give Kubernetes objects"),
    ],
)
def test_malformed_json_is_not_read_again_as_yaml(tmp_path: Path, content: str, text: str) -> None:
    path = tmp_path / "dump.json"
    path.write_text(content)
    with pytest.raises(offline.WorldError, match=text):
        offline.World.load(path)


def test_yaml_in_a_file_that_is_named_json_is_read(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_text(yaml.safe_dump(NODE))
    (tmp_path / "folder.json").mkdir()
    with offline.World.load(tmp_path) as world:
        assert world.how_many_fit(offline.pod()).total > 0


@pytest.mark.parametrize("first", [{}, {"kind": "Pod"}, {"apiVersion": "v1", "extra": 1}])
def test_the_order_of_the_fields_of_an_object_does_not_matter(
    tmp_path: Path, first: dict[str, Any]
) -> None:
    pod = offline.pod("web", node="n1")
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(listed({**first, **pod})))
    with offline.World.load(path) as world:
        assert world.placements() == {"default/web": "n1"}


def test_pending_pods_of_other_schedulers_are_said_once(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    other = {"schedulerName": "other"}
    pods = [offline.pod(f"p{i}", spec=other) for i in range(3)]
    path.write_text(json.dumps(listed(*pods, offline.pod("bound", node="n", spec=other))))
    said = "pending pods of other schedulers are left alone: other (3); with adopt=True"
    with offline.World.load(path) as world:
        assert [said in each for each in world.notes].count(True) == 1
    with offline.World.load(path, adopt=True) as world:
        assert not any("other schedulers" in each for each in world.notes)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(b"{}" * 100)[:-9])
    empty = tmp_path / "empty"
    empty.mkdir()
    for path, text in (
        (tmp_path / "absent.yaml", "No such file"),
        (cut, "cut.gz"),
        (empty, "no file ending in"),
    ):
        with pytest.raises(offline.WorldError, match=text):
            offline.Objects.read(path)


@pytest.mark.parametrize(("cpu", "placed"), [("2", 1), ("1500m", 0)])
def test_an_alias_stands_for_what_its_anchor_names(tmp_path: Path, cpu: str, placed: int) -> None:
    path = tmp_path / "dump.yaml"
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n"
        "  - {name: a, resources: &r {requests: {cpu: 1}}}\n  - {name: b, resources: *r}\n"
    )
    path.write_text(f"{pod}---\n{yaml.safe_dump(offline.node('n1', cpu=cpu))}")
    with offline.World.load(path) as world:
        assert len(world.schedule().placed) == placed


def refusal(*paths: Path) -> str:
    with pytest.raises(offline.WorldError) as caught:
        offline.Objects.read(*paths)
    return str(caught.value)


def test_a_file_that_grows_too_much_when_decompressed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dump_files, "RATIO_FROM", 1 << 20)
    path = tmp_path / "bomb.gz"
    part = gzip.compress(b" " * dump_files.RATIO_FROM)
    path.write_bytes(part)
    # At once, and in members that are small on their own.
    for packed in (part + part, gzip.compress(b" " * (1 << 14)) * 80):
        path.write_bytes(packed)
        assert "bomb.gz: compressed more than 200 times" in refusal(path)


def test_all_files_together_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / "a.json", tmp_path / "b.json.gz"]
    files[0].write_text(json.dumps(NODE))
    files[1].write_bytes(gzip.compress(json.dumps(POD).encode()))
    size = len(json.dumps(NODE)) + len(json.dumps(POD))
    monkeypatch.setattr(dump_files, "MAX_BYTES", size)
    assert len(offline.Objects.read(*files)) == 2
    monkeypatch.setattr(dump_files, "MAX_BYTES", size - 1)
    assert "b.json.gz: more than 0 GiB, after decompression" in refusal(*files)


def test_long_yaml_is_refused_and_long_json_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dump_objects, "MAX_YAML_BYTES", 20)
    path = tmp_path / "dump"
    path.write_text(json.dumps(NODE))
    assert len(offline.Objects.read(path)) == 1
    path.write_text(yaml.safe_dump(NODE))
    assert "dump it with -o json" in refusal(path)


def test_a_link_in_a_folder_leads_nowhere_outside(tmp_path: Path) -> None:
    """The links of a mounted ConfigMap stay inside; another may name any file of the user."""
    folder = tmp_path / "dump"
    (folder / "..data").mkdir(parents=True)
    (folder / "..data" / "node.json").write_text(json.dumps(NODE))
    (folder / "node.json").symlink_to("..data/node.json")
    assert len(offline.Objects.read(folder)) == 1
    (tmp_path / "private.json").write_text("secret")
    (folder / "other.json").symlink_to("../private.json")
    found = refusal(folder)
    assert "other.json: a link to a file outside of the folder" in found
    assert "secret" not in found


def test_a_folder_of_too_many_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dump_files, "MAX_FILES", 1)
    for name in "ab":
        (tmp_path / f"{name}.json").write_text(json.dumps(NODE))
    assert "more than 1 files" in refusal(tmp_path)
