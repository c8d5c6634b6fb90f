"""The configuration behind a run: files, plugin folders, namespace, overrides."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from config import FeatureGates
from scheduler.framework.status import ConfigurationError
from scheduler.service.options import (
    RunOptions,
    own_namespace,
    read_configuration,
)

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture(autouse=True)
def same_path() -> Iterator[None]:
    before = sys.path[:]
    yield
    sys.path[:] = before


def written(folder: Path, text: str) -> str:
    path = folder / "config.yaml"
    path.write_text(HEADER + text)
    return str(path)


def test_without_a_file_the_defaults_are_ours() -> None:
    configuration = read_configuration(RunOptions())
    assert [profile.scheduler_name for profile in configuration.profiles] == ["kubestow"]
    assert configuration.effective.leader_election.resource_name == "kubestow"


def test_what_flags_say_beats_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "leaderElection: {leaderElect: true, resourceName: other}\n")
    overrides = {"leaderElection.leaderElect": False}
    configuration = read_configuration(RunOptions(config_file=path, overrides=overrides))
    assert configuration.effective.leader_election.leader_elect is False
    assert configuration.effective.leader_election.resource_name == "other"


def test_the_clusters_own_scheduler_is_replaced_only_on_request(tmp_path: Path) -> None:
    path = written(tmp_path, "profiles: [{schedulerName: default-scheduler}]\n")
    with pytest.raises(ConfigurationError, match="default-scheduler"):
        read_configuration(RunOptions(config_file=path))
    allowed = RunOptions(config_file=path, replace_default_scheduler=True)
    assert read_configuration(allowed).profiles[0].scheduler_name == "default-scheduler"


def test_extenders_are_accepted(tmp_path: Path) -> None:
    path = written(tmp_path, "extenders: [{urlPrefix: 'http://127.0.0.1:1', filterVerb: filter}]\n")
    (extender,) = read_configuration(RunOptions(config_file=path)).effective.extenders
    assert extender.url_prefix == "http://127.0.0.1:1"


def test_everything_that_keeps_extenders_from_being_called_is_reported_at_once(
    tmp_path: Path,
) -> None:
    path = written(
        tmp_path,
        "extenders:\n"
        "- {urlPrefix: 'ftp://a', filterVerb: f, colour: red}\n"
        "- {urlPrefix: 'https://b', filterVerb: f, tlsConfig: {caFile: /nowhere/ca.crt}}\n"
        "- {urlPrefix: 'https://c', filterVerb: f, tlsConfig: {certData: YQ==}}\n"
        "- {urlPrefix: 'https://d', filterVerb: f, tlsConfig: {insecure: true, caData: YQ==}}\n"
        "parallelism: -1\n",
    )
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(RunOptions(config_file=path))
    assert [problem.split(": ")[0] for problem in caught.value.problems] == [
        "extenders[0].colour",
        "parallelism",
        "extenders[0]",
        "extenders[1]",
        "extenders[2]",
        "extenders[3]",
    ]
    first, second, third, fourth = caught.value.problems[2:]
    assert "must be a URL that begins with http:// or https://" in first
    assert "No such file" in second
    assert "needs both a certificate and a key" in third
    assert "with the insecure flag is not allowed" in fourth


def test_a_plugin_folder_is_appended_never_prepended(tmp_path: Path) -> None:
    plugin_dir = tmp_path / "plugins"
    plugin_dir.mkdir()
    (plugin_dir / "weekend_filter.py").write_text(
        "class Weekend:\n"
        '    name = "Weekend"\n'
        "    def __init__(self, args, handle): ...\n"
        "    def filter(self, state, pod, node): ...\n"
    )
    # A folder of this name must not hide ours.
    (plugin_dir / "config").mkdir()
    path = written(
        tmp_path,
        "profiles: [{plugins: {multiPoint: {enabled: [{name: 'weekend_filter:Weekend'}]}}}]\n",
    )
    options = RunOptions(config_file=path, plugin_dirs=(str(plugin_dir),))
    assert "Weekend" in read_configuration(options).profiles[0].plugins
    assert sys.path[-1] == str(plugin_dir)
    read_configuration(options)
    assert sys.path.count(str(plugin_dir)) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (RunOptions(config_file="absent.yaml"), "absent.yaml: No such file or directory"),
        (RunOptions(config_file="."), ".: Is a directory"),
        (RunOptions(plugin_dirs=("nowhere",)), "--plugin-dir: nowhere is not a directory"),
    ],
)
def test_what_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: RunOptions, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(options)
    assert caught.value.problems == (message,)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        read_configuration(RunOptions(config_file=str(path)))


@pytest.mark.parametrize(
    ("environ", "file", "expected"),
    [
        ({"POD_NAMESPACE": "a"}, "b\n", "a"),
        ({"POD_NAMESPACE": " "}, "b\n", "b"),
        ({}, "b\n", "b"),
        ({}, "", "kubestow-system"),
        ({}, None, "kubestow-system"),
    ],
)
def test_the_namespace_is_the_pods_own(
    tmp_path: Path, environ: dict[str, str], file: str | None, expected: str
) -> None:
    path = tmp_path / "namespace"
    if file is not None:
        path.write_text(file)
    assert own_namespace(environ, path) == expected


def test_feature_gates_reach_the_configuration() -> None:
    gates = FeatureGates.parse("StorageCapacityScoring=true")
    assert read_configuration(RunOptions(feature_gates=gates)).feature_gates is gates


def kubeconfig(folder: Path, name: str, server: str) -> str:
    """Write a kubeconfig whose current context is called like the file."""
    path = folder / name
    path.write_text(
        f"current-context: {name}\n"
        f"clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n"
        "users: [{name: u, user: {}}]\n"
        f"contexts: [{{name: {name}, context: {{cluster: c, user: u}}}}]\n"
    )
    return str(path)


def named(folder: Path, file: str) -> str:
    return written(folder, f"clientConnection:\n  kubeconfig: {file}\n")


def test_a_kubeconfig_flag_is_used_if_the_file_names_no_cluster(tmp_path: Path) -> None:
    options = RunOptions(config_file=written(tmp_path, ""), kubeconfig="/flag")
    assert read_configuration(options).effective.client_connection.kubeconfig == "/flag"


@pytest.mark.parametrize("name", ["one", "another"])
def test_a_kubeconfig_flag_may_name_the_cluster_of_the_file(tmp_path: Path, name: str) -> None:
    first = kubeconfig(tmp_path, "one", "https://a:6443")
    flag = kubeconfig(tmp_path, name, "https://a:6443/")
    options = RunOptions(config_file=named(tmp_path, first), kubeconfig=flag)
    assert read_configuration(options).effective.client_connection.kubeconfig == first


def test_a_kubeconfig_flag_for_another_cluster_is_an_error_that_shows_both(tmp_path: Path) -> None:
    first = kubeconfig(tmp_path, "one", "https://a:6443")
    flag = kubeconfig(tmp_path, "two", "https://b:6443")
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(RunOptions(config_file=named(tmp_path, first), kubeconfig=flag))
    (problem,) = caught.value.problems
    assert problem == (
        f"clientConnection.kubeconfig: {first} is for https://a:6443 (context one), --kubeconfig "
        f"{flag} for https://b:6443 (context two); name the cluster in one place only (line 4)"
    )


def test_a_kubeconfig_that_cannot_be_compared_is_named(tmp_path: Path) -> None:
    first = kubeconfig(tmp_path, "one", "https://a:6443")
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(RunOptions(config_file=named(tmp_path, first), kubeconfig="/nowhere"))
    (problem,) = caught.value.problems
    assert "--kubeconfig /nowhere is given as well" in problem
    assert "kubeconfig /nowhere: no such file; name the cluster in one place only" in problem
