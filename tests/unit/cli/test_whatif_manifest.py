"""Manifests of `kubestow whatif -f`, which may come from anywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from devtools.filled_records import filled
from scheduler.cli.endpoint import Endpoint
from scheduler.cli.exit_codes import DOES_NOT_FIT
from scheduler.cli.whatif import additions
from scheduler.explain.records import WhatIfResult
from tests.unit.cli.command_line import Shell

NESTED_ALIASES = "kind: Pod\n" + "\n".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9 if i else ['x'] * 9)}]" for i in range(12)
)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (NESTED_ALIASES, "its aliases repeat more than 16 Mi values and characters"),
        ("kind: Pod\nspec: &a [*a]\n", "the alias *a contains itself"),
        ("[" * 10_000, "nested too deeply: more than 200 levels"),
        ("a: [", "did not find expected node content"),
        ("x" * 60_000, "more than 50000 bytes"),
    ],
)
def test_a_manifest_beyond_a_limit_is_an_error_of_usage(
    shell: Shell, tmp_path: Path, content: str, text: str
) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(content)
    ended = shell("whatif", "-f", str(path))
    assert (ended.code, ended.out) == (2, "")
    assert text in " ".join(ended.err.split())


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("kind: Rack\n", "rack.yaml: an object has no kind or no metadata.name"),
        ("metadata: {name: r1}\n", "rack.yaml: an object has no kind or no metadata.name"),
        ("- 1\n", "rack.yaml: an object has no kind or no metadata.name"),
        (NESTED_ALIASES, "its aliases repeat more than 16 Mi values and characters"),
    ],
)
def test_an_object_to_add_must_have_a_kind_and_a_name(
    shell: Shell, tmp_path: Path, content: str, text: str
) -> None:
    path = tmp_path / "rack.yaml"
    path.write_text(content)
    ended = shell("whatif", "default/p", "--add", str(path))
    assert (ended.code, ended.out) == (2, "")
    assert text in " ".join(ended.err.split())


def test_all_objects_of_a_file_are_added_in_their_namespaces() -> None:
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "c"}}
    devices = {"kind": "ResourceClaim", "metadata": {"name": "d"}}
    pool = {"kind": "Pool", "metadata": {"name": "a", "namespace": "b"}}
    made = additions([claim, devices, pool], "team", "f")
    assert [(each.kind, each.name) for each in made] == [
        ("PersistentVolumeClaim", "team/c"),
        ("ResourceClaim", "team/d"),
        ("Pool", "b/a"),
    ]
    assert made[0].value["metadata"] == {"name": "c", "namespace": "team"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let a scheduler answer that has room for three copies, and keep how many were asked about."""
    copies = list[int]()
    page: WhatIfResult = filled(WhatIfResult, lambda _: "x", variant=1)

    def post(_endpoint: Endpoint, _path: str, body: bytes, **_: Any) -> bytes:
        copies.append(json.loads(body).get("copies", 1))
        fit = min(3, copies[-1])
        return msgspec.json.encode(
            msgspec.structs.replace(
                page, pod="default/web", copies=fit, fits=fit == copies[-1], complete=True
            )
        )

    monkeypatch.setattr(Endpoint, "post", post)
    return copies


def manifest(folder: Path, kind: str, **spec: Any) -> str:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    controller = {"kind": kind, "metadata": {"name": "web"}, "spec": {"template": template, **spec}}
    path = folder / "web.json"
    path.write_text(json.dumps(controller))
    return str(path)


@pytest.mark.parametrize(
    ("kind", "spec", "options", "copies", "text"),
    [
        ("Deployment", {"replicas": 7}, (), 7, "3 of 7 replicas of default/web would fit"),
        ("Deployment", {"replicas": 3}, (), 3, "3 of 3 replicas of default/web would fit"),
        ("Job", {"parallelism": 9, "completions": 4}, (), 4, "3 of 4 pods of default/web"),
        ("Deployment", {"replicas": 7}, ("--copies", "5"), 5, "3 of 5 copies of default/web"),
        ("Deployment", {"replicas": 7}, ("--copies", "1"), 1, "default/web would go to"),
        ("Deployment", {"replicas": 700}, ("--copies", "2"), 2, "2 of 2 copies of default/web"),
        ("StatefulSet", {}, (), 1, "default/web would go to"),
    ],
)
def test_all_replicas_of_a_controller_are_asked_about(
    shell: Shell, asked: list[int], tmp_path: Path, kind: str, spec: Any, options: Any,
    copies: int, text: str,
) -> None:  # fmt: skip
    ended = shell("whatif", "-f", manifest(tmp_path, kind, **spec), *options)
    assert (asked, ended.code) == ([copies], DOES_NOT_FIT if copies > 3 else 0)
    assert ended.out.startswith(text)
    assert ended.err == ""


@pytest.mark.parametrize(
    ("kind", "spec", "text"),
    [
        ("DaemonSet", {}, "a DaemonSet makes a pod for each node; the answer is about one pod"),
        ("Deployment", {"replicas": 0}, "spec.replicas is 0; the answer is about one pod"),
    ],
)
def test_an_answer_about_one_pod_of_a_controller_says_so(
    shell: Shell, asked: list[int], tmp_path: Path, kind: str, spec: Any, text: str
) -> None:
    ended = shell("whatif", "-f", manifest(tmp_path, kind, **spec))
    assert (asked, ended.code) == ([1], 0)
    assert f"web.json: {text}" in ended.err


@pytest.mark.parametrize(
    ("replicas", "text"),
    [
        (101, "spec.replicas is 101, and a question may place 100 copies: ask about fewer with"),
        ("many", "has spec.replicas 'many', which must be a number from 0"),
    ],
)
def test_replicas_that_cannot_be_asked_about_are_an_error(
    shell: Shell, asked: list[int], tmp_path: Path, replicas: Any, text: str
) -> None:
    ended = shell("whatif", "-f", manifest(tmp_path, "Deployment", replicas=replicas))
    assert (asked, ended.code) == ([], 2)
    assert text in " ".join(ended.err.split())
