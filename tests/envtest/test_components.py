"""Command lines and configuration files, without running anything."""

from __future__ import annotations

from pathlib import Path

from devtools.control_plane.api_server import ApiServerOptions, Files, api_server_arguments
from devtools.control_plane.components import scheduler_configuration

FILES = Files(directory=Path("somewhere"))


def arguments_with(options: ApiServerOptions) -> list[str]:
    return api_server_arguments(FILES, options, port=1, etcd_port=2)


def test_the_server_does_not_throttle_by_default() -> None:
    assert "--enable-priority-and-fairness=false" in arguments_with(ApiServerOptions())
    assert not any(
        "inflight" in argument for argument in arguments_with(ApiServerOptions(throttled=True))
    )


def test_gates_and_groups_become_flags() -> None:
    options = ApiServerOptions(
        feature_gates={"A": True, "B": False}, runtime_config={"api/all": True}
    )
    arguments = arguments_with(options)
    assert "--feature-gates=A=true,B=false" in arguments
    assert "--runtime-config=api/all=true" in arguments


def test_extra_arguments_come_last_and_take_precedence() -> None:
    assert arguments_with(ApiServerOptions(extra_arguments=("--v=4",)))[-1] == "--v=4"


def test_a_scheduler_configuration_gets_defaults_for_absent_fields() -> None:
    document = scheduler_configuration({"parallelism": 2}, Path("file"))
    assert document == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "parallelism": 2,
        "clientConnection": {"kubeconfig": "file", "qps": 5000, "burst": 5000},
        "leaderElection": {"leaderElect": False},
    }


def test_a_scheduler_configuration_keeps_its_fields() -> None:
    config = {"clientConnection": {"qps": 50}, "leaderElection": {"leaderElect": True}}
    document = scheduler_configuration(config, Path("file"))
    assert document["clientConnection"] == {"kubeconfig": "file", "qps": 50, "burst": 5000}
    assert document["leaderElection"] == {"leaderElect": True}
