"""`kubestow config validate` on ConfigMaps, directories, several files and standard input."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from config import API_VERSION, KIND
from tests.unit.cli.command_line import Ended, Shell

HEADER = f"apiVersion: {API_VERSION}\nkind: {KIND}\n"
CONFIG_MAP = f"""\
apiVersion: v1
kind: ConfigMap
metadata: {{name: kubestow}}
data:
  note: text
  config.yaml: |
    # a comment
    apiVersion: {API_VERSION}
    kind: {KIND}
    parallelism: 0
"""


def piped(shell: Shell, patch: pytest.MonkeyPatch, data: bytes) -> Ended:
    patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    return shell("config", "validate", "-")


def test_standard_input(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = piped(shell, monkeypatch, HEADER.encode())
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("<stdin>: valid\n")


def test_errors_in_a_config_map_have_the_lines_of_the_manifest(
    shell: Shell, tmp_path: Path
) -> None:
    path = tmp_path / "manifest.yaml"
    path.write_text("apiVersion: v1\nkind: Namespace\n---\n" + CONFIG_MAP)
    ended = shell("config", "validate", str(path))
    assert ended.code == 1
    title, problem = ended.err.splitlines()
    assert title == f'{path}: data["config.yaml"]: 1 problem'
    assert problem.startswith("  - parallelism: Invalid value: 0")
    assert problem.endswith("(line 13)")


def test_a_list_of_config_maps_is_read_as_kubectl_prints_it(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    item = CONFIG_MAP.replace("\n", "\n  ").strip()
    path.write_text(f"apiVersion: v1\nkind: List\nitems:\n- {item}\n")
    ended = shell("config", "validate", str(path))
    assert ended.code == 1
    assert ended.err.startswith(f'{path}: items[0].data["config.yaml"]: 1 problem')
    assert ended.err.rstrip().endswith("(line 13)")


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        ("Deployment", "give the file or the ConfigMap that has the configuration"),
        ("Policy", "write profiles with the plugins"),
        ("DeschedulerPolicy", "the configuration of the descheduler"),
    ],
)
def test_another_kind_is_told_what_to_give(
    shell: Shell, tmp_path: Path, kind: str, advice: str
) -> None:
    path = tmp_path / "manifest.yaml"
    path.write_text(f"apiVersion: apps/v1\nkind: {kind}\n")
    assert advice in shell("config", "validate", str(path)).err


def test_a_template_whose_braces_are_yaml_is_to_be_rendered(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(HEADER + "parallelism: {{ .Values.parallelism }}\n")
    assert "a key must be text (line 3); render a template first" in (
        shell("config", "validate", str(path)).err
    )


def test_a_configuration_of_windows_is_read(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(HEADER.replace("\n", "\r\n").encode("utf-16"))
    assert shell("config", "validate", str(path)).code == 0


def test_a_config_map_without_a_configuration(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "manifest.yaml"
    path.write_text("apiVersion: v1\nkind: ConfigMap\ndata: {a: b, c: d}\n")
    ended = shell("config", "validate", str(path))
    assert ended.code == 1
    assert f"no {KIND} in data of the ConfigMap (keys: a, c)" in ended.err


def test_a_directory_is_searched_and_every_file_reported(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "..data").mkdir()
    (tmp_path / "good.yaml").write_text(HEADER)
    (tmp_path / "below" / "bad.yml").write_text(HEADER + "a: 1\n")
    (tmp_path / "map.yaml").write_text(CONFIG_MAP)
    (tmp_path / "other.yaml").write_text("kind: Pod\n")
    (tmp_path / "..data" / "hidden.yaml").write_text(HEADER + "b: 1\n")
    (tmp_path / "notes.txt").write_text(HEADER + "c: 1\n")
    ended = shell("config", "validate", str(tmp_path))
    assert ended.code == 1
    assert [line for line in ended.out.splitlines() if line.endswith("valid")] == [
        f"{tmp_path}/good.yaml: valid"
    ]
    assert [line for line in ended.err.splitlines() if not line.startswith("  ")] == [
        f"{tmp_path}/below/bad.yml: 1 problem",
        f'{tmp_path}/map.yaml: data["config.yaml"]: 1 problem',
    ]


def test_a_directory_without_configurations(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("kind: Pod\n")
    ended = shell("config", "validate", str(tmp_path))
    assert ended.code == 1
    assert f"no {KIND} in 1 YAML or JSON file below this directory" in ended.err


def test_all_files_are_checked_after_a_bad_one(shell: Shell, tmp_path: Path) -> None:
    good = tmp_path / "good.yaml"
    good.write_text(HEADER)
    ended = shell("config", "validate", str(tmp_path / "absent.yaml"), str(good))
    assert ended.code == 1
    assert f"{good}: valid" in ended.out
    assert "absent.yaml: 1 problem\n  - cannot be read: No such file or directory" in ended.err


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "the configuration is empty"),
        (b"\xc3\x28", "not UTF-8 text: byte 0 is wrong"),
        (b"\xff\xfea", "not utf-16-le text: byte 2"),
        (b"a: [" * 5000, "nested too deeply"),
        (b"#" * (4 << 20) + b"#", "more than 4 MiB, which is too large"),
        (b"#" * (2 << 20), "longer than 1048576 characters"),
        (HEADER.encode() + b"a: [", "not valid YAML"),
    ],
    ids=["empty", "not UTF-8", "not UTF-16", "nested", "huge", "long", "broken"],
)
def test_unusable_input_gets_one_message(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, data: bytes, expected: str
) -> None:
    ended = piped(shell, monkeypatch, data)
    assert ended.code == 1
    assert ended.err.startswith("<stdin>: 1 problem\n  - ")
    assert expected in ended.err
    assert len(ended.err.splitlines()) == 2


def test_no_file_is_wrong_usage(shell: Shell) -> None:
    assert shell("config", "validate").code == 2
