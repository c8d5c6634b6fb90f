"""The modules that a bundle names: imported from folders of its reader only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scheduler.offline.bundles import Content
from scheduler.recording.format import API_VERSION, CONFIGURATION, STATE, BundleError, Header
from scheduler.recording.writing import BundleWriter

MODULE = "module_that_a_bundle_names"
PLUGIN = """\
class Named:
    name = "Named"

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, node):
        return None
"""


@pytest.fixture
def content(tmp_path: Path) -> Iterator[Callable[[str], Content]]:
    """Return a function that reads a bundle whose profile enables a plugin by its module."""
    before, path = sys.path[:], tmp_path / "b"

    def read(point: str) -> Content:
        enabled = {point: {"enabled": [{"name": f"{MODULE}:Named"}]}}
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": "kubestow", "plugins": enabled}],
        }
        writer = BundleWriter(Header(api_version=API_VERSION, kind="Bundle", version="9.9"))
        state = {"time": 0.0, "monotonic": 0.0, "random": [3, [0], None]}
        lines = [
            writer.begin(),
            writer.add(CONFIGURATION, {"configuration": configuration}),
            writer.add(STATE, state),
            writer.end(),
        ]
        path.write_bytes(b"".join(lines))
        return Content.read(path)

    yield read
    sys.path[:] = before
    sys.modules.pop(MODULE, None)


@pytest.mark.parametrize("point", ["multiPoint", "filter"])
def test_a_module_that_is_installed_or_beside_the_bundle_is_not_imported(
    content: Callable[[str], Content], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    (tmp_path / f"{MODULE}.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BundleError, match=f"{MODULE}:Named.*give --plugin-dir"):
        content(point).configuration([])
    assert MODULE not in sys.modules


def test_a_module_in_a_plugin_folder_is_imported(
    content: Callable[[str], Content], tmp_path: Path
) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / f"{MODULE}.py").write_text(PLUGIN)
    configuration, registry = content("multiPoint").configuration([str(folder)])
    assert "Named" in registry
    assert len(configuration.profiles) == 1
