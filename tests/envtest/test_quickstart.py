"""From an empty cluster to the first bound pod with the three commands of manifests/README.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from devtools.control_plane.control_plane import ApiServerOptions, Binaries, ControlPlane
from tests.envtest.quickstart import ROOT, bind_hello, documented

pytestmark = pytest.mark.envtest


def test_three_commands_with_kustomize_bind_a_pod(
    envtest_binaries: Binaries, tmp_path: Path
) -> None:
    commands = documented(ROOT / "manifests" / "README.md", first="kubectl apply -k manifests\n")
    with ControlPlane(envtest_binaries, ApiServerOptions(), tmp_path / "server") as server:
        bind_hello(server, tmp_path, commands)
