"""Dumps as tools leave them: folders in folders, empty files, streams, lists of lists, exports."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from scheduler import offline
from scheduler.offline import dump_files, json_values

NODE: Final = offline.node("n1")
RUNNING: Final = offline.pod("a", cpu=3, namespace="shop", node="n1")
PENDING: Final = offline.pod("b")


def listed(kind: str, *items: dict[str, Any]) -> dict[str, Any]:
    """Return a list as `kubectl cluster-info dump` writes it: its items have no kind."""
    bare = [
        {key: value for key, value in each.items() if key not in ("apiVersion", "kind")}
        for each in items
    ]
    return {"kind": f"{kind}List", "apiVersion": "v1", "items": bare or None}


def of_kubectl(*items: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "items": list(items), "kind": "List", "metadata": {}}


def free(*paths: Path) -> int:
    """Return how many pods of one CPU fit on the nodes of a dump."""
    with offline.World.load(*paths) as world:
        return world.how_many_fit(offline.pod("p", cpu=1)).total


def refusal(*paths: Path) -> str:
    with pytest.raises(offline.WorldError) as caught:
        offline.Objects.read(*paths)
    return str(caught.value)


def cluster_info(folder: Path) -> Path:
    """Write what `kubectl cluster-info dump --all-namespaces --output-directory` does."""
    logs = folder / "shop" / "a"
    logs.mkdir(parents=True)
    (folder / "nodes.json").write_text(json.dumps(listed("Node", NODE)))
    (folder / "shop" / "pods.json").write_text(json.dumps(listed("Pod", RUNNING)))
    (folder / "shop" / "services.json").write_text(json.dumps(listed("Service")))
    (logs / "logs.txt").write_text("{ no objects")
    return folder


def test_a_folder_is_read_at_any_depth(tmp_path: Path) -> None:
    assert free(cluster_info(tmp_path / "dump")) == 1


def test_hidden_files_are_left_out(tmp_path: Path) -> None:
    folder = cluster_info(tmp_path / "dump")
    (folder / ".git").mkdir()
    (folder / ".git" / "x.json").write_text("{")
    (folder / "._nodes.json").write_text("{")
    assert free(folder) == 1


def test_folders_nest_only_so_deeply(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(dump_files.MAX_DEPTH + 1):
        folder /= "d"
        folder.mkdir()
    assert "nested too deeply: more than 40 folders" in refusal(tmp_path)


def test_a_folder_is_linked_only_within_the_dump(tmp_path: Path) -> None:
    folder = cluster_info(tmp_path / "dump")
    (folder / "same").symlink_to(folder / "shop", target_is_directory=True)
    (folder / "round").symlink_to(folder, target_is_directory=True)
    assert free(folder) == 1
    (tmp_path / "private").mkdir()
    (folder / "other").symlink_to(tmp_path / "private", target_is_directory=True)
    assert "other: a link to a file outside of the folder" in refusal(folder)


def test_files_of_a_folder_without_objects_are_noted(tmp_path: Path) -> None:
    folder = cluster_info(tmp_path / "dump")
    for name, content in (
        ("a.json", '{"status": "success"}'),
        ("b.yaml", "- 1\n"),
        ("c.yaml", "# x\n"),
    ):
        (folder / name).write_text(content)
    with offline.World.load(folder) as world:
        (note,) = [each for each in world.notes if "without Kubernetes objects" in each]
    assert note.endswith(", ".join(str(folder / name) for name in ("a.json", "b.yaml", "c.yaml")))


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_an_empty_file_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(content)
    for named in (path, tmp_path):
        assert "cluster.json: the file is empty" in refusal(named)


@pytest.mark.parametrize("content", ["# nothing\n", "---\n", "null", "---\n---\n"])
def test_a_named_file_has_an_object(tmp_path: Path, content: str) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(content)
    assert "the file has no Kubernetes object" in refusal(path)


def test_an_empty_list_is_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "pods.json"
    path.write_text(json.dumps(of_kubectl()))
    assert len(offline.Objects.read(path)) == 0


REPEATED: Final = "apiVersion: v1\nitems: []\nkind: List\napiVersion: v1\nitems: []\nkind: List\n"


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("d.yaml", REPEATED, 4),
        ("d.yaml", "a: {b: 1,\n  'b': 2}\n", 2),
        ("d.json", '{"kind": "List",\n"items": [],\n"items": []}', 3),
        ("d.json", '{"kind": "Pod"}\n{"kind": "Pod", "spec":\n{"a": 1, "a": 2}}', 3),
        ("d", '{"kind": "List",\n"items": [],\n"items": []}', 3),
    ],
)
def test_a_repeated_key_is_refused_with_its_line(
    tmp_path: Path, name: str, content: str, line: int
) -> None:
    path = tmp_path / name
    path.write_text(content)
    found = refusal(path)
    assert f"{name}:{line}: the key " in found
    assert "is repeated, so that its first value would be lost" in found


@pytest.mark.parametrize("key", ['"items"', '"it\\u0065ms"'])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_large_file_has_no_key_twice_at_its_top(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, indent: int | None
) -> None:
    monkeypatch.setattr(json_values, "MAX_SEARCHED", 10)
    path = tmp_path / "d.json"
    whole = json.dumps(of_kubectl(NODE, RUNNING), indent=indent)
    path.write_text(whole)
    assert free(path) == 1
    path.write_text(f"{whole[:-1]}, {key}: []}}")
    assert 'the key "items" is repeated' in refusal(path)


def test_merged_keys_of_yaml_are_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "d.yaml"
    text = yaml.safe_dump(NODE).replace("metadata:", "metadata:\n  <<: &m {name: n2}\n  <<: *m")
    path.write_text(text)
    assert free(path) == 4


def concatenated(*objects: Any) -> str:
    return "".join(json.dumps(each, indent=4) + "\n" for each in objects)


def with_logs(*objects: Any) -> str:
    """Return what `kubectl cluster-info dump` prints without a folder."""

    def log(pod: str, text: str) -> str:
        name = f"container c of pod shop/{pod}"
        return f"==== START logs for {name} ====\n{text}==== END logs for {name} ====\n"

    some, none = log("a", '{"a": 1}\n{ half\n==== START\n'), log("b", "")
    return "".join(f"{json.dumps(each)}\n{some}{none}" for each in objects)


@pytest.mark.parametrize("name", ["dump.json", "dump", "dump.yaml"])
@pytest.mark.parametrize(
    "written",
    [
        lambda nodes, pods: concatenated(of_kubectl(*nodes), of_kubectl(*pods)),
        lambda nodes, pods: "".join(json.dumps(each) + "\n" for each in (*nodes, *pods)),
        lambda nodes, pods: "\n---\n".join(map(json.dumps, (*nodes, *pods))),
        lambda nodes, pods: json.dumps([*nodes, *pods]),
        lambda nodes, pods: json.dumps([of_kubectl(*nodes), of_kubectl(*pods)]),
        lambda nodes, pods: with_logs(listed("Node", *nodes), listed("Pod", *pods)),
        lambda nodes, pods: json.dumps({"nodes": nodes, "pods": pods, "pvs": None}),
        lambda nodes, pods: json.dumps({"rawObjects": {"nodes": nodes, "pods": pods}}),
        lambda nodes, pods: yaml.safe_dump([*nodes, *pods]),
        lambda nodes, pods: json.dumps(of_kubectl(of_kubectl(*nodes), listed("Pod", *pods))),
    ],
    ids=[
        "appended", "lines", "separated", "array", "array of lists", "logs", "simulator", "kai",
        "yaml", "list of lists",
    ],
)  # fmt: skip
def test_every_form_of_tools_is_read(
    tmp_path: Path, written: Callable[[Any, Any], str], name: str
) -> None:
    path = tmp_path / name
    path.write_text(written([NODE, offline.node("n2")], [RUNNING]))
    assert free(path) == 5


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("dump", [json.dumps, yaml.safe_dump])
def test_files_of_windows_are_read(
    tmp_path: Path, encoding: str, dump: Callable[[Any], str]
) -> None:
    path = tmp_path / "cluster.json"
    path.write_bytes(dump(of_kubectl(NODE, RUNNING)).replace("\n", "\r\n").encode(encoding))
    assert free(path) == 1


def test_a_broken_encoding_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_bytes(b"\xff\xfe{\0}")
    assert "cluster.json: byte 4 is no utf-16" in refusal(path)


def test_lists_nest_only_so_deeply(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(of_kubectl(of_kubectl(of_kubectl(of_kubectl(NODE))))))
    assert "more than 2 lists in lists" in refusal(path)


def test_what_an_export_has_besides_objects_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"nodes": [NODE], "schedulerConfig": {"kind": "x"}}))
    with offline.World.load(path) as world:
        assert f"{path}: not used: schedulerConfig" in world.notes


def test_the_same_state_of_an_object_replaces_nothing(tmp_path: Path) -> None:
    """must-gather and backups have many objects twice."""
    node = {**NODE, "metadata": {**NODE["metadata"], "uid": "u", "resourceVersion": "7"}}
    (tmp_path / "nodes.json").write_text(json.dumps(listed("Node", node)))
    (tmp_path / "n1.yaml").write_text(yaml.safe_dump(node))
    with offline.World.load(tmp_path) as world:
        assert not any("of the same name" in each for each in world.notes)


def test_kinds_that_were_asked_for_are_not_missed(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    budgets = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudgetList", "items": []}
    path.write_text(concatenated(listed("Node", NODE), listed("Pod", PENDING), budgets))
    with offline.World.load(path) as world:
        (note,) = world.notes
    assert note == "not in the dump: resourcequotas (no quota defers a pod)"


def test_a_list_of_many_kinds_does_not_say_what_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(of_kubectl(NODE, PENDING)))
    with offline.World.load(path) as world:
        (note,) = world.notes
    assert note.startswith("the dump has no poddisruptionbudgets (no pod is protected")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("{{- if .Values.enabled }}\nkind: Pod\n{{- end }}\n", "a Helm template: render it first"),
        (
            "kind: Pod\nspec: {{ toYaml .Values.x }}: {{ end }}\n",
            "a Helm template: render it first",
        ),
        ("{% if x %}\nkind: Pod\n", "a template: render it first"),
        ("NAME   STATUS   ROLES\nn1     Ready    <none>\n", "let kubectl print -o json"),
        ("NAMESPACE   NAME   READY\nshop        a      1/1\n", "let kubectl print -o json"),
        (
            "Name:               n1\nRoles:              <none>\nx\n",
            "let kubectl get print -o json",
        ),
        ("error: You must be logged in to the server (Unauthorized)\n", "an error of kubectl"),
        ("Error from server (Forbidden): nodes is forbidden: x\n", "an error of kubectl"),
        ('Warning: v1 is deprecated\n{"kind": "List", "items": []}\n', "messages of kubectl"),
        ("SQLite format 3\0\1\2", "it is no text"),
        ("NAME: web\nLAST DEPLOYED: Sat\nMANIFEST:\n---\nkind: Node\n", "let helm get manifest"),
        ('{"kind": "Status", "apiVersion": "v1", "code": 403}', "an error of an API server"),
        ('{"kind": "Table", "apiVersion": "meta.k8s.io/v1", "rows": []}', "print -o json"),
    ],
)
def test_a_text_that_is_no_dump_is_recognized(tmp_path: Path, content: str, text: str) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(content)
    assert text in refusal(path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("kustomization.yaml", "a kustomization: render it first, with kubectl kustomize"),
        ("Chart.yaml", "the chart of Helm: render it first, with helm template"),
    ],
)
def test_sources_of_manifests_are_no_dump(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "node.yaml").write_text(yaml.safe_dump(NODE))
    (tmp_path / name).write_text("name: x\n")
    assert f"{name}: {text}" in refusal(tmp_path)


def test_a_must_gather_is_read_once(tmp_path: Path) -> None:
    """It has each pod in a file of its own as well, and much that is no object."""
    pod = {**RUNNING, "metadata": {**RUNNING["metadata"], "uid": "u", "resourceVersion": "7"}}
    for name, content in (
        ("cluster-scoped-resources/core/nodes/n1.yaml", "---\n" + yaml.safe_dump(NODE)),
        ("namespaces/shop/core/pods.yaml", "---\n" + yaml.safe_dump(listed("Pod", pod))),
        ("namespaces/shop/pods/a/a.yaml", "---\n" + yaml.safe_dump(pod)),
        ("namespaces/shop/pods/a/c/c/logs/current.log", "{"),
        ("monitoring/alerts.json", '{"status": "success"}'),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "audit.log.gz").write_bytes(b"\x1f\x8b")
    assert free(tmp_path) == 1
    with offline.World.load(tmp_path) as world:
        assert not any("of the same name" in each for each in world.notes)
