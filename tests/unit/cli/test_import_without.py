"""Imports of `kubestow run`, and of commands that ask a scheduler."""

from __future__ import annotations

import gc
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from scheduler.cli.import_without import import_without

NOT_FOR_RUN = (
    "cryptography",
    "rich",
    "kubernetes_asyncio.client",
    "simulator",
    "numpy.testing",
    "lark",
    "sysconfig",
    "scheduler.explain.what_if.asker",
    "scheduler.explain.what_if.trial",
    "scheduler.recording",
    "scheduler.tracing",
)
"""Tens of MiB that an ordinary scheduler never uses, and parts that nobody has asked for."""

KUBECONFIG = """\
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


@pytest.mark.slow
def test_a_scheduler_does_not_import_what_it_does_not_use() -> None:
    program = f"""
import os, runpy, sys
sys.argv = ["kubestow", "run", "--kubeconfig", "/nowhere"]
try:
    runpy.run_module("scheduler", run_name="__main__")
except SystemExit:
    pass
assert "scheduler.stages.wiring" in sys.modules
assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
print(*[name for name in {NOT_FOR_RUN} if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=600
    )
    assert done.stdout.split() == []


NOT_FOR_QUESTIONS = ("aiohttp", "attr", "cryptography", "numpy", "pygments", "rich.traceback")
"""More than half of the time until a command has its answer."""


@pytest.mark.parametrize("where", [("--server", "localhost:1"), ()])
def test_a_question_is_asked_without_imports_that_take_longer_than_the_answer(
    where: tuple[str, ...], tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(KUBECONFIG)
    program = f"""
import runpy, sys
sys.argv = ["kubestow", "explain", "a/b", "--kubeconfig", "{kubeconfig}", *{where}]
try:
    runpy.run_module("scheduler", run_name="__main__")
except SystemExit as ended:
    code = ended.code
from scheduler.cli.explanation import show
print(code, *[name for name in {NOT_FOR_QUESTIONS} if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=600
    )
    assert ("cannot reach the" in done.stderr, done.stdout.split()) == (True, ["5"])


def test_what_is_left_out_cannot_be_imported_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "this", raising=False)
    with import_without("this"), pytest.raises(ModuleNotFoundError):
        importlib.import_module("this")
    assert "this" not in sys.modules


def test_two_threads_leave_the_same_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ModuleType("this")
    monkeypatch.setattr(sys, "modules", {**sys.modules, "this": None})
    del sys.modules["this"]
    with import_without("this"):
        del sys.modules["this"]  # the other one ended ...
    with import_without("this"):
        sys.modules["this"] = found  # ... and then the module was imported
    assert sys.modules["this"] is found


def test_what_is_imported_already_stays() -> None:
    with import_without("json"):
        assert importlib.import_module("json") is sys.modules["json"]
    assert sys.modules["json"] is not None


@pytest.mark.parametrize("collecting", [True, False])
def test_everything_is_left_as_it_was_found(collecting: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if collecting else gc.disable)()
        with import_without("this"):
            assert not gc.isenabled()
        assert gc.isenabled() == collecting
        assert "this" not in sys.modules
    finally:
        (gc.enable if before else gc.disable)()
