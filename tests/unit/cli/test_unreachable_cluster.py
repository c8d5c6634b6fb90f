"""An API server that cannot be reached: commands say why, and what named it, in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from devtools.control_plane.ports import free_port
from scheduler.cli import exit_codes
from tests.unit.cli.command_line import Shell

COMMANDS = [
    (["explain", "a/b"], exit_codes.UNREACHABLE),
    (["check"], exit_codes.OTHER_ERROR),
    (["quota", "show"], exit_codes.OTHER_ERROR),
]


def kubeconfig(folder: Path, server: str) -> Path:
    path = folder / "config"
    cluster = {"name": "c", "cluster": {"server": server}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    user = {"name": "u", "user": {"token": "t"}}
    found = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "x"}
    path.write_text(json.dumps(found))
    return path


@pytest.mark.parametrize(("command", "code"), COMMANDS)
def test_nothing_listens_there(shell: Shell, tmp_path: Path, command: list[str], code: int) -> None:
    server = f"http://127.0.0.1:{free_port()}"
    path = kubeconfig(tmp_path, server)
    ended = shell(*command, f"--kubeconfig={path}")
    assert (ended.code, ended.out) == (code, "")
    assert ended.err == (
        f"Error: cannot reach the API server {server} (kubeconfig {path}, context x): "
        "nothing listens there (connection refused)\n"
    )
