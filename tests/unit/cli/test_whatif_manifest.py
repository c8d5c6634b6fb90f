"""Manifests of `kubestow whatif -f`, which may come from anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

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
