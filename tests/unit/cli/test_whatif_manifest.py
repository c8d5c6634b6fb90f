"""Manifests of `kubestow whatif -f`, which may come from anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.cli.whatif import additions
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
