"""Structs of the client are ready for several threads once their modules are imported.

`kubestow ui` asks in threads, and a Lease has a thread with credentials of its own. msgspec crashes
the process if two threads decode the first object of a struct at the same time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

import pytest

WRITTEN_ONLY: Final = {
    "Bookmark", "DecodingFailure", "Malformed", "PodStatusPatch", "Request", "_Binding",
    "_BindingMeta", "_BindingTarget",
}  # fmt: skip
IN_THE_LOOP: Final = {"CustomObject", "Object", "_RawLine"}
"""Only reflectors decode these."""

PROGRAM: Final = """
import importlib, json, pkgutil, sys
import msgspec
import scheduler.client

found = {}
for each in pkgutil.walk_packages(scheduler.client.__path__, "scheduler.client."):
    for name, value in vars(importlib.import_module(each.name)).items():
        if isinstance(value, msgspec.StructMeta) and not getattr(value, "__parameters__", ()):
            found[value.__qualname__] = value
unread = []


def watch(frame, event, _):
    if event == "call" and frame.f_code.co_name == "get_class_annotations":
        unread.append(frame.f_locals["obj"].__qualname__)


sys.setprofile(watch)
for struct in [{extra}*found.values()]:
    msgspec.json.Decoder(struct)
sys.setprofile(None)
print(json.dumps([sorted(found), sorted(unread)]))
"""


def outcome(extra: str = "") -> tuple[list[str], list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("{extra}", extra)],
        check=True,
        capture_output=True,
        text=True,
    )
    found, unread = json.loads(done.stdout)
    return found, unread


@pytest.mark.slow
def test_no_struct_is_read_for_the_first_time_when_it_is_decoded() -> None:
    found, unread = outcome()
    assert {"_File", "_Claims", "LeaseSpec", "LeaderRecord"} <= set(found)
    assert set(unread) == WRITTEN_ONLY | IN_THE_LOOP


@pytest.mark.slow
def test_a_struct_that_is_not_complete_is_found() -> None:
    assert "New" in outcome("msgspec.defstruct('New', ['name']), ")[1]
