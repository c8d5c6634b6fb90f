"""Other schedulers of the same user on this machine, as a scheduler meets them when it starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.client.local_address import AddressFile, LocalAddress, addresses, folder
from scheduler.process.own_address import OwnAddress

API_SERVER = "https://192.0.2.1:6443"


@pytest.mark.parametrize(
    ("other", "warns"),
    [
        ({}, True),
        ({"lease": "kube-system/other"}, True),
        ({"lease": "kube-system/kubestow"}, False),
        ({"scheduler_names": ("batch",)}, False),
        ({"api_server": "https://192.0.2.2:6443"}, False),
    ],
)
def test_another_scheduler_of_the_same_pods_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any], warns: bool
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    fields: dict[str, Any] = {
        "api_server": API_SERVER,
        "lease": "",
        "scheduler_names": ("kubestow",),
    } | other
    directory = folder()
    assert directory is not None
    address = LocalAddress(os.getppid(), host="127.0.0.1", port=1, certificate_sha256="", **fields)
    with monkeypatch.context() as patched:
        patched.setattr("os.getpid", os.getppid)
        AddressFile(directory).write(address)
    own = OwnAddress(
        "127.0.0.1", api_server=API_SERVER, lease="kube-system/kubestow",
        scheduler_names=("kubestow", "third"),
    )  # fmt: skip
    with own, capture_logs() as logs:
        own.listens(2)
        own.shows("00")
        assert [each.port for each in addresses(directory)] in ([1, 2], [2, 1])
    assert [each["other"] for each in logs] == [
        f"process {os.getppid()} at https://127.0.0.1:1"
    ] * warns
