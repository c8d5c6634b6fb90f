"""The loader of `kubernetes_asyncio` comes without its generated code, and comes in any case.

Each case runs in a fresh interpreter, because what is imported is the point.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.client.test_configuration import make_pem

READ = """
import asyncio, json, sys
from pathlib import Path
from scheduler.client.configuration import load_configuration
def ours():
    return sorted(name for name in sys.modules if name.partition(".")[0] == "kubernetes_asyncio")
async def read():
    environ = {{"KUBERNETES_SERVICE_HOST": "one", "KUBERNETES_SERVICE_PORT": "8080"}}
    found = await load_configuration(environ=environ, service_account=Path(sys.argv[1]))
    return found.server, await found.authorization()
{before}
server, authorization = asyncio.run(read())
modules = ours()
{after}
print(json.dumps({{"server": server, "authorization": authorization, "modules": modules}}))
"""

WITHOUT_A_NAME = """
import scheduler.client.in_cluster_loader as loaders
loaders._NAMES_OF_CLIENT = ()
"""

WITHOUT_A_SPEC = """
import importlib.util
importlib.util.find_spec = lambda name: None
"""


@pytest.fixture
def account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("secret")
    (tmp_path / "ca.crt").write_bytes(make_pem()[0])
    return tmp_path


def read(account: Path, before: str = "", after: str = "") -> dict[str, Any]:
    """Read the service account in an interpreter of its own."""
    program = READ.format(before=before, after=after)
    done = subprocess.run(
        [sys.executable, "-c", program, str(account)],
        check=True, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    response: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert (response["server"], response["authorization"]) == ("https://one:8080", "Bearer secret")
    return response


def test_nothing_is_imported_at_the_import() -> None:
    program = (
        "import sys, scheduler.client.configuration; print('kubernetes_asyncio' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=600
    )
    assert done.stdout.strip() == "False"


def test_the_installed_release_gives_them_without_models(account: Path) -> None:
    assert read(account)["modules"] == []


def test_they_need_no_home_directory(account: Path) -> None:
    # As for a user who is not in /etc/passwd.
    before = """
import os, pathlib
def no_home(): raise RuntimeError("Could not determine home directory.")
os.environ.pop("HOME", None)
pathlib.Path.home = lambda: pathlib.Path(os.environ["HOME"]) if "HOME" in os.environ else no_home()
"""
    assert read(account, before, 'assert "HOME" not in os.environ')["modules"] == []


@pytest.mark.slow
def test_the_real_package_can_be_imported_afterwards(account: Path) -> None:
    after = """
import kubernetes_asyncio.client
assert kubernetes_asyncio.client.V1Pod(kind="Pod").kind == "Pod"
assert kubernetes_asyncio.config.load_kube_config
"""
    read(account, after=after)


@pytest.mark.slow
@pytest.mark.parametrize(
    "before",
    [
        pytest.param(WITHOUT_A_NAME, id="the loaders import more than is expected"),
        pytest.param(WITHOUT_A_SPEC, id="the package is not where packages are"),
        pytest.param("import kubernetes_asyncio", id="a plugin has imported it before"),
    ],
)
def test_otherwise_the_whole_package_is_used(account: Path, before: str) -> None:
    assert "kubernetes_asyncio.client.models" in read(account, before)["modules"]


@pytest.mark.slow
def test_a_stand_in_cannot_be_used() -> None:
    program = """
import sys
from scheduler.client import in_cluster_loader
loader = in_cluster_loader.load().in_cluster_config_loader
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
