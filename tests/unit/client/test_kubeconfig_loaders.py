"""The loaders of `kubernetes_asyncio` come without its generated code, and come in any case.

Each case runs in a fresh interpreter, because what is imported is the point.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

KUBECONFIG = {
    "current-context": "one",
    "clusters": [{"name": "c", "cluster": {"server": "http://one:8080"}}],
    "users": [{"name": "u", "user": {"token": "secret"}}],
    "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
}

READ = """
import asyncio, json, sys
from scheduler.client.configuration import load_configuration
def ours():
    return sorted(name for name in sys.modules if name.partition(".")[0] == "kubernetes_asyncio")
async def read():
    found = await load_configuration(kubeconfig=sys.argv[1], environ={{}})
    return found.server, await found.authorization()
{before}
server, authorization = asyncio.run(read())
modules = ours()
{after}
print(json.dumps({{"server": server, "authorization": authorization, "modules": modules}}))
"""

WITHOUT_A_NAME = """
import scheduler.client.kubeconfig_loaders as loaders
loaders._NAMES_OF_CLIENT = ()
"""

WITHOUT_A_SPEC = """
import importlib.util
importlib.util.find_spec = lambda name: None
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(KUBECONFIG))
    return path


def read(kubeconfig: Path, before: str = "", after: str = "") -> dict[str, Any]:
    """Read the file in an interpreter of its own."""
    program = READ.format(before=before, after=after)
    done = subprocess.run(
        [sys.executable, "-c", program, str(kubeconfig)],
        check=True, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    response: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert (response["server"], response["authorization"]) == ("http://one:8080", "Bearer secret")
    return response


def test_nothing_is_imported_at_the_import() -> None:
    program = (
        "import sys, scheduler.client.configuration; print('kubernetes_asyncio' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=600
    )
    assert done.stdout.strip() == "False"


def test_the_installed_release_gives_them_without_models(kubeconfig: Path) -> None:
    assert read(kubeconfig)["modules"] == []


def test_they_need_no_home_directory(kubeconfig: Path) -> None:
    # As for a user who is not in /etc/passwd.
    before = """
import os, pathlib
def no_home(): raise RuntimeError("Could not determine home directory.")
os.environ.pop("HOME", None)
pathlib.Path.home = lambda: pathlib.Path(os.environ["HOME"]) if "HOME" in os.environ else no_home()
"""
    assert read(kubeconfig, before, 'assert "HOME" not in os.environ')["modules"] == []


def test_the_real_package_can_be_imported_afterwards(kubeconfig: Path) -> None:
    after = """
import kubernetes_asyncio.client
assert kubernetes_asyncio.client.V1Pod(kind="Pod").kind == "Pod"
assert kubernetes_asyncio.config.load_kube_config
"""
    read(kubeconfig, after=after)


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(WITHOUT_A_NAME, id="the loaders import more than is expected"),
        pytest.param(WITHOUT_A_SPEC, id="the package is not where packages are"),
        pytest.param("import kubernetes_asyncio", id="a plugin has imported it before"),
    ],
)
def test_otherwise_the_whole_package_is_used(kubeconfig: Path, before: str) -> None:
    assert "kubernetes_asyncio.client.models" in read(kubeconfig, before)["modules"]


def test_a_stand_in_cannot_be_used() -> None:
    program = """
import sys
from scheduler.client import kubeconfig_loaders
loader = kubeconfig_loaders.load().in_cluster_config_loader
module = sys.modules.get(loader.__module__)
assert module is None
namespace = loader.load_and_set.__globals__
try:
    namespace["Configuration"]()
except RuntimeError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=600
    )
    assert done.stdout.strip() == "Configuration was not loaded: pass load_and_set() a target"
