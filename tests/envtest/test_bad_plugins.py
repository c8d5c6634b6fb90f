"""Plugins that misbehave in the program, on a real API server: it stays up and names each of them.

One process has a profile with a plugin for each fault, each with a pod of its own as its victim.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import pytest

from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest

NAMESPACE: Final = "bad-plugins"
PLUGIN: Final = """
import os
import sys
import threading
import time


class {name}:
    name = "example.com/{name}"

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, node):
        if pod.metadata.name == "{victim}":
            {fault}
"""
FAULTS: Final = {
    "Raises": "raise ValueError('no gpu')",
    "Nonsense": "return 'nonsense'",
    "Allocates": "return bytearray(2**62)",
    "Prints": "print('hello from the plugin')",
    "Forks": "os.waitpid(os.fork(), 0)",
    "Blocks": "time.sleep(2.5)",
    "Slow": "time.sleep(0.05)",
    "Threads": "threading.Thread(target=time.sleep, args=(3600,)).start()",
    "Apart": "sys.exit(3)",
}
NAMED: Final = ("Raises", "Nonsense", "Allocates", "Apart")
"""Those whose victim has a condition that names the plugin; the others are scheduled."""


def test_each_is_named_and_all_other_pods_are_scheduled(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    for name, fault in FAULTS.items():
        text = PLUGIN.format(name=name, victim=name.lower(), fault=fault)
        (tmp_path / f"kubestow_{name.lower()}.py").write_text(text)
    profile = {
        "schedulerName": "kubestow",
        "plugins": {
            "multiPoint": {
                "enabled": [{"name": f"kubestow_{each.lower()}:{each}"} for each in FAULTS]
            }
        },
        "kubestow": {
            "onOverrun": "Disable",
            "overrunLimit": 1,
            "isolation": [{"plugin": "example.com/Apart"}],
        },
    }
    with Workload(control_plane, NAMESPACE) as work:
        work.node("bad-1", cpu="64")
        kubestow = start_kubestow(
            control_plane, {"profiles": [profile]}, [f"--plugin-dir={tmp_path}"], name="bad-plugins"
        )
        for name in FAULTS:
            work.pod(name.lower())
        work.pod("usual")
        work.until_bound("usual", *(each.lower() for each in FAULTS if each not in NAMED))
        for name in NAMED:
            until(partial(work.condition, name.lower()), f"the condition of {name}")
            assert f'"example.com/{name}"' in work.condition(name.lower())["message"]
        until(lambda: "plugin switched off" in kubestow.log.read_text(), "switched off")
        log = kubestow.log.read_text()
        assert "plugin example.com/Forks at Filter" in log
        assert "event loop is blocked" in log
        assert "example.com/Blocks" in log
        kubestow.stop_cleanly()
        log = kubestow.log.read_text()
        assert "hello from the plugin" in log
        assert "ending without waiting for threads" in log
