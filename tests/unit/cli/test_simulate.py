"""`kubestow simulate` schedules dumps, and answers questions about capacity."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from scheduler import offline
from tests.unit.cli.command_line import Shell
from tests.unit.config.json_schema import Validator

ROOT: Final = Path(__file__).parents[3]
SCHEMA: Final = Validator(json.loads((ROOT / "docs" / "simulate.schema.json").read_text()))
NODES = [offline.node(f"node-{number}", cpu=4) for number in range(3)]


def owned(name: str, cpu: float, node: str = "") -> dict[str, Any]:
    pod = offline.pod(name, cpu=cpu, node=node, spec={"schedulerName": "default-scheduler"})
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"}
    pod["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return pod


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a dump and manifests, in which the commands run."""
    items = [*NODES, owned("web-0", 1, "node-0"), owned("web-1", 1, "node-1")]
    write(tmp_path / "dump.json", *items)
    write(tmp_path / "waiting.json", *items, *(owned(f"batch-{each}", 3) for each in range(5)))
    write(tmp_path / "giant.json", *items, owned("giant", 64))
    (tmp_path / "pod.json").write_text(json.dumps(owned("extra", 2)))
    deployment = {
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"template": owned("", 2)},
    }
    (tmp_path / "deployment.json").write_text(json.dumps(deployment))
    several = {"apiVersion": "v1", "kind": "DeploymentList", "items": [deployment]}
    (tmp_path / "lines.json").write_text(f"{json.dumps(deployment)}\n" * 2)
    (tmp_path / "list.json").write_text(json.dumps(several))
    cron: dict[str, Any] = {"kind": "CronJob", "metadata": {"name": "c"}}
    cron["spec"] = {"jobTemplate": {"spec": deployment["spec"]}}
    (tmp_path / "cron.json").write_text(json.dumps(cron))
    (tmp_path / "compose.yaml").write_text("services: {web: {image: nginx}}\n")
    (tmp_path / "node.yaml").write_text(json.dumps(offline.node("more", cpu=6)))
    unseen: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "more"}}
    unseen["status"] = {"capacity": {"cpu": "6", "memory": "8Gi", "pods": "110"}}
    (tmp_path / "capacity.yaml").write_text(json.dumps(unseen))
    (tmp_path / "none.yaml").write_text("[")
    (tmp_path / "empty.yaml").write_text("---\n")
    one = json.dumps(owned("extra", 2))
    (tmp_path / "two.yaml").write_text(f"---\n{one}\n---\n{one}\n")
    (tmp_path / "config.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: other}]\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, *items: dict[str, Any]) -> None:
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "code", "last", "value"),
    [
        (["dump.json"], 0, "0 pods placed, 0 evicted, 0 waiting", {"comparisons": []}),
        (["waiting.json"], 3, "3 pods placed, 0 evicted, 2 waiting", {}),
        (["waiting.json", "--config", "config.yaml"], 0, "0 pods placed", {"assertions": []}),
        (["waiting.json", "--config", "config.yaml", "--adopt"], 3, "3 pods placed", {}),
        (["waiting.json", "--no-adopt"], 0, "0 pods placed", {}),
        (["dump.json", "--how-many-fit", "pod.json"], 0, "4 copies fit", {"total": 4}),
        (["dump.json", "--how-many-fit", "deployment.json"], 0, "4 copies fit", {"total": 4}),
        (["dump.json", "--how-many-fit", "list.json"], 0, "4 copies fit", {"total": 4}),
        (["dump.json", "--how-many-fit", "cron.json"], 0, "4 copies fit", {"total": 4}),
        (["waiting.json", "--how-many-fit", "pod.json"], 3, "no copy fits", {"total": 0}),
        (["waiting.json", "--nodes-needed", "node.yaml"], 0, "1 more node: 5 pods", {"nodes": 1}),
        (["waiting.json", "--nodes-needed", "capacity.yaml"], 0, "1 more node: 5", {"nodes": 1}),
        (["waiting.json", "--nodes-needed", "node-2"], 0, "2 more nodes: 5 pods", {"nodes": 2}),
        (["dump.json", "--nodes-needed", "node-2"], 0, "no node is needed", {"nodes": 0}),
        (["giant.json", "--nodes-needed", "node-2"], 3, "no number of such nodes helps 1 pod", {}),
        (
            ["waiting.json", "--nodes-needed", "node-2", "--max-nodes", "1"],
            3,
            "the most nodes allowed (--max-nodes) do not help 1 pod",
            {"limited": True},
        ),
        (["dump.json", "--consolidate"], 0, "2 of 3 nodes could be emptied in this order", {}),
        (["waiting.json", "--consolidate"], 3, "0 of 3 nodes could be emptied", {"emptied": []}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_question_is_answered(
    shell: Shell, arguments: list[str], code: int, last: str, value: dict[str, Any]
) -> None:
    ended = shell("simulate", *arguments)
    assert ended.code == code, ended.err
    assert last in ended.out
    as_json = shell("simulate", *arguments, "-o", "json")
    assert as_json.code == code
    found = json.loads(as_json.out)
    assert SCHEMA.problems(found) == []
    assert {key: found[key] for key in value} == value
    assert shell("simulate", *arguments, "-o", "json").out == as_json.out


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "name the copy of a cluster, DUMP"),
        (["nothing.json"], "'nothing.json' does not exist"),
        (["none.yaml"], "none.yaml:2: neither YAML nor JSON"),
        (["dump.json", "--nodes-needed", "node-9"], "there is no Node node-9"),
        (["dump.json", "--nodes-needed", "nothing.yaml"], "nothing.yaml: no such file"),
        (["dump.json", "--nodes-needed", "pod.json"], "pod.json has no manifest of a Node"),
        (["dump.json", "--how-many-fit", "node.yaml"], "'--how-many-fit': node.yaml is a Node"),
        (["dump.json", "--how-many-fit", "compose.yaml"], "compose.yaml has neither kind nor spec"),
        (["dump.json", "--how-many-fit", "none.yaml"], "none.yaml:2: did not find"),
        (
            ["dump.json", "--how-many-fit", "two.yaml"],
            "two.yaml has 2 objects, and the question is about one: give it in a file of its own",
        ),
        (["dump.json", "--nodes-needed", "empty.yaml"], "empty.yaml has 0 objects"),
        (["dump.json", "--how-many-fit", "lines.json"], "lines.json has 2 objects"),
        (["dump.json", "--nodes-needed", ""], "there is no Node"),
        (["dump.json", "--nodes-needed", "none.yaml"], "none.yaml:2: did not find"),
        (["dump.json", "--consolidate", "--nodes-needed", "x"], "exclude each other"),
        (["dump.json", "--config", "none.yaml"], ""),
        (["dump.json", "--consolidate", "--until", "5"], "--consolidate does not use --until"),
        (["dump.json", "--consolidate", "-o", "csv"], "--consolidate has no --output csv"),
        (["dump.json", "--template", "pod.json"], "which is for --workload"),
        (["dump.json", "--workload", "pod.json"], "column arrival is missing"),
        (["dump.json", "--until", "5 weeks"], "unit 'weeks' is unknown"),
        (["dump.json", "--seeds", "5-1"], "give a number or FIRST-LAST"),
        (["dump.json", "--seeds", "0-5000"], "at most 1000 seeds"),
        (["dump.json", "--assert", "__import__('os')"], "column 1 is not allowed"),
        (["dump.json", "--assert", "waitin == 0"], "did you mean waiting?"),
        (["dump.json", "--assert", "base.placed > 1"], "need one --compare"),
        (["dump.json", "--drop-node", "node-9"], "no node is selected by 'node-9'"),
        (["dump.json", "--cordon", "zone=x"], "no node is selected by 'zone=x'"),
        (["dump.json", "--add-node", "cpu=many"], "cpu"),
        (["dump.json", "--add-node", "like=node-9"], "there is no Node node-9"),
        (["dump.json", "--config", "config.yaml", "--compare", "config.yaml"], "with itself"),
        (["dump.json", "--max-nodes", "-1"], "Invalid value for '--max-nodes'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_input_is_named(shell: Shell, arguments: list[str], error: str) -> None:
    ended = shell("simulate", *arguments)
    assert ended.code == 2, ended.out
    assert error in ended.err
    assert not ended.out


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"metadata": "x"}, "metadata.name is missing"),
        ({"status": {}}, "status.allocatable is missing; give the cpu, memory and pods"),
        ({"status": {"allocatable": {"cpu": 4, "memory": "1Gi"}}}, "pods is missing, so that no"),
        ({"status": {"allocatable": {"cpu": -4}}}, "status.allocatable.cpu is negative"),
        ({"status": {"allocatable": {"cpu": "many"}}}, "status.allocatable.cpu: "),
    ],
)
def test_a_node_that_no_pod_fits_on_is_refused(
    shell: Shell, folder: Path, change: dict[str, Any], error: str
) -> None:
    (folder / "bad.yaml").write_text(json.dumps(offline.node("more", cpu=6) | change))
    ended = shell("simulate", "dump.json", "--nodes-needed", "bad.yaml")
    assert ended.code == 2
    assert f"bad.yaml: {error}" in ended.err or error in ended.err


@pytest.mark.usefixtures("folder")
def test_what_a_dump_lacks_is_said_beside_the_answer(shell: Shell) -> None:
    ended = shell("simulate", "dump.json")
    lines = ended.err.splitlines()
    assert lines[0].startswith("the dump has no poddisruptionbudgets (no pod is protected")
    assert lines[1].startswith("filled in as an API server would: ")
    assert len(lines) == 2


def test_a_dump_without_nodes_is_no_cluster(shell: Shell, folder: Path) -> None:
    write(folder / "pods.json", owned("web-0", 1))
    ended = shell("simulate", "pods.json")
    assert ended.code == 2
    assert "there is no node in these files: dump the nodes as well" in ended.err
    assert shell("simulate", "pods.json", "--add-node", "cpu=4").code == 0
    assert shell("simulate", "pods.json", "--nodes-needed", "node.yaml").code == 0


def test_lists_in_the_openb_format_are_nodes_and_a_workload(shell: Shell, folder: Path) -> None:
    (folder / "nodes.csv").write_text(
        "sn,cpu_milli,memory_mib,gpu,model\nn-0,4000,8192,2,T4\nn-1,4000,8192,0,\n"
    )
    (folder / "pods.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np-0,1000,1024,1,500\np-1,1000,1024,2,1000\n"
    )
    ended = shell("simulate", "nodes.csv", "--workload", "pods.csv", "-o", "json")
    assert ended.code == 3, ended.err
    result = json.loads(ended.out)["runs"][0]["result"]
    assert len(result["placed"]) == len(result["waiting"]) == 1
    ended = shell("simulate", "pods.csv")
    assert ended.code == 2
    assert "pods that arrive are a workload: give --workload pods.csv" in ended.err
    (folder / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu\nn-0,4000,8192,2\n")
    assert "nodes.csv:1: column model is missing" in shell("simulate", "nodes.csv").err


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("{{ if .Values.x }}\nkind: Pod\n", "render it first, with helm template"),
        ('{"kind": "Pod", "kind": "Pod"}', 'the key "kind" is repeated'),
        ("kind: Pod\nkind: Pod\n", 'the key "kind" is repeated'),
        ("NAME   READY   STATUS\nweb    1/1     Running\nx: y", "let kubectl print -o json"),
    ],
)
def test_a_manifest_that_cannot_be_read_says_what_to_do(
    shell: Shell, folder: Path, content: str, error: str
) -> None:
    (folder / "bad.yaml").write_text(content)
    ended = shell("simulate", "dump.json", "--how-many-fit", "bad.yaml")
    assert ended.code == 2
    assert error in ended.err


def test_a_manifest_of_windows_is_read(shell: Shell, folder: Path) -> None:
    (folder / "pod.yaml").write_bytes(json.dumps(owned("extra", 2)).encode("utf-16"))
    assert "4 copies fit" in shell("simulate", "dump.json", "--how-many-fit", "pod.yaml").out


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ("dump.json", ["-", "--how-many-fit", "pod.json"]),
        ("pod.json", ["dump.json", "--how-many-fit", "-"]),
        ("node.yaml", ["dump.json", "--nodes-needed", "-"]),
    ],
)
@pytest.mark.slow
def test_a_dash_is_standard_input(folder: Path, given: str, arguments: list[str]) -> None:
    command = [sys.executable, "-m", "scheduler", "simulate", *arguments]
    with (folder / given).open("rb") as file:
        ended = subprocess.run(command, cwd=folder, stdin=file, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    assert b"fit" in ended.stdout or b"no node is needed" in ended.stdout
