"""Every flag of kube-scheduler v1.37.2, as its own --help lists them, and what it does here."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from scheduler.cli.flags import FLAGS, GROUPS, KUBESTOW, REMOVED
from scheduler.cli.go_flags import Flag, go_arguments
from scheduler.cli.main import main
from scheduler.cli.run import split_feature_gates
from scheduler.framework.status import ConfigurationError
from scheduler.service.options import (
    AccessOptions,
    LoggingOptions,
    RunOptions,
    ServingOptions,
)
from scheduler.service.serving.certificates import ServingError
from tests.unit.cli.command_line import Shell

# name, type, default: from `kube-scheduler --help`
UPSTREAM = """
    config string ""
    master string ""
    write-config-to string ""
    bind-address ip 0.0.0.0
    cert-dir string ""
    disable-http2-serving bool false
    http2-max-streams-per-connection int 0
    permit-address-sharing bool false
    permit-port-sharing bool false
    secure-port int 10259
    tls-cert-file string ""
    tls-cipher-suites strings ""
    tls-curve-preferences int32Slice ""
    tls-min-version string ""
    tls-private-key-file string ""
    tls-sni-cert-key namedCertKey ""
    authentication-kubeconfig string ""
    authentication-skip-lookup bool false
    authentication-token-webhook-cache-ttl duration 10s
    authentication-tolerate-lookup-failure bool true
    client-ca-file string ""
    requestheader-allowed-names strings ""
    requestheader-client-ca-file string ""
    requestheader-extra-headers-prefix strings x-remote-extra-
    requestheader-group-headers strings x-remote-group
    requestheader-uid-headers strings ""
    requestheader-username-headers strings x-remote-user
    authorization-always-allow-paths strings /healthz,/readyz,/livez
    authorization-kubeconfig string ""
    authorization-webhook-cache-authorized-ttl duration 10s
    authorization-webhook-cache-unauthorized-ttl duration 10s
    contention-profiling bool true
    kube-api-burst int32 100
    kube-api-content-type string application/vnd.kubernetes.protobuf
    kube-api-qps float32 50.0
    kubeconfig string ""
    pod-max-in-unschedulable-pods-duration duration 5m0s
    profiling bool true
    leader-elect bool true
    leader-elect-lease-duration duration 15s
    leader-elect-renew-deadline duration 10s
    leader-elect-resource-lock string leases
    leader-elect-resource-name string kube-scheduler
    leader-elect-resource-namespace string kube-system
    leader-elect-retry-period duration 2s
    emulated-version strings ""
    feature-gates colonSeparatedMultimapStringString ""
    min-compatibility-version strings ""
    allow-metric-labels stringToString ""
    allow-metric-labels-manifest string ""
    disabled-metrics strings ""
    show-hidden-metrics-for-version string ""
    log-flush-frequency duration 5s
    log-json-info-buffer-size quantity ""
    log-json-split-stream bool false
    log-text-info-buffer-size quantity ""
    log-text-split-stream bool false
    logging-format string text
    v Level 0
    vmodule pattern=N,... ""
"""
ROWS = [tuple(line.split()) for line in UPSTREAM.strip().splitlines()]

DELIBERATE = {
    "leader-elect-resource-name": "kubestow",
    "leader-elect-resource-namespace": "",
    "logging-format": "",
}
"""Defaults that differ: two protect the cluster's own scheduler, one follows the terminal."""

KINDS = {
    "bool": "bool", "int": "int", "int32": "int", "Level": "int", "float32": "float",
    "duration": "duration", "strings": "list", "int32Slice": "list",
    "namedCertKey": "repeated", "stringToString": "repeated",
    "colonSeparatedMultimapStringString": "repeated",
}  # fmt: skip
ORDINARY = [
    flag
    for flag in FLAGS
    # These have their own tests below.
    if flag.name not in ("write-config-to", "tls-cert-file", "tls-private-key-file")
]
BY_NAME = {flag.name: flag for flag in FLAGS}
EXAMPLES: dict[str, str] = {
    "bool": "true",
    "int": "7",
    "float": "2.5",
    "duration": "1m30s",
    "list": "a,b",
    "repeated": "StorageCapacityScoring=false",
    "string": "text",
}


def example(flag: Flag) -> str:
    """A value the flag takes."""
    return EXAMPLES[flag.kind.name.lower()]


def test_the_table_is_upstreams_and_three_more() -> None:
    assert {row[0] for row in ROWS} | {flag.name for flag in KUBESTOW.flags} == set(BY_NAME)
    assert len(FLAGS) == len(BY_NAME)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_types_and_defaults_are_upstreams(row: tuple[str, str, str]) -> None:
    name, kind, default = row
    flag = BY_NAME[name]
    assert flag.kind.name.lower() == KINDS.get(kind, "string")
    expected = DELIBERATE.get(name, default.strip('"'))
    assert flag.default_text() == ("" if expected in ("false", "0") else expected)


@pytest.mark.parametrize("flag", ORDINARY, ids=lambda flag: flag.name)
def test_every_flag_is_taken_with_an_equals_sign_and_apart(shell: Shell, flag: Flag) -> None:
    value = example(flag)
    joined = shell.options(f"--{flag.name}={value}")
    apart = [f"--{flag.name}"] if flag.kind.name == "BOOL" else [f"--{flag.name}", value]
    assert shell.options(*apart) == joined
    assert shell.options(f"--{flag.name.replace('-', '_')}={value}") == joined


@pytest.mark.parametrize("flag", ORDINARY, ids=lambda flag: flag.name)
def test_every_flag_changes_an_option_or_warns_that_it_has_no_effect(
    shell: Shell, flag: Flag
) -> None:
    value = "false" if flag.default is True or flag.moot is True else example(flag)
    options = shell.options(f"--{flag.name}={value}")
    assert options != RunOptions()
    if flag.no_effect and not (flag.path and flag.moot is False):
        assert options.warnings == (f"--{flag.name} has no effect: {flag.no_effect}",)


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_every_flag_is_explained(shell: Shell, flag: Flag) -> None:
    text = shell("run", "--help").out
    assert f"--{flag.name}" in text
    assert flag.help.endswith(".") or flag.no_effect


@pytest.mark.parametrize(
    ("arguments", "overrides"),
    [
        ([], {}),
        (["--leader-elect=false"], {"leaderElection.leaderElect": False}),
        (["--leader-elect"], {"leaderElection.leaderElect": True}),
        (["--leader-elect=F"], {"leaderElection.leaderElect": False}),
        (["--leader-elect-lease-duration", "90s"], {"leaderElection.leaseDuration": "1m30s"}),
        (["--leader-elect-renew-deadline=1m"], {"leaderElection.renewDeadline": "1m0s"}),
        (["--leader-elect-retry-period=500ms"], {"leaderElection.retryPeriod": "500ms"}),
        (["--leader-elect-resource-name=a"], {"leaderElection.resourceName": "a"}),
        (["--leader-elect-resource-namespace=a"], {"leaderElection.resourceNamespace": "a"}),
        (["--leader-elect-resource-lock=leases"], {"leaderElection.resourceLock": "leases"}),
        (["--kubeconfig=k"], {"clientConnection.kubeconfig": "k"}),
        (["--kube-api-qps=-1"], {"clientConnection.qps": -1.0}),
        (["--kube-api-burst", "5"], {"clientConnection.burst": 5}),
        (["--profiling=false"], {"enableProfiling": False}),
        # The file beats deprecated flags, and is beaten by those of the election.
        (
            ["--config=f", "--kubeconfig=k", "--kube-api-qps=1", "--leader-elect=false"],
            {"leaderElection.leaderElect": False},
        ),
    ],
)
def test_flags_with_a_place_in_the_configuration_go_there(
    shell: Shell, arguments: list[str], overrides: dict[str, Any]
) -> None:
    assert shell.options(*arguments).overrides == overrides


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--config", "c.yaml"], {"config_file": "c.yaml"}),
        (["--config=c", "--kubeconfig=k"], {"config_file": "c", "kubeconfig": "k"}),
        (["--master=https://m:6443"], {"master": "https://m:6443"}),
        (["--replace-default-scheduler"], {"replace_default_scheduler": True}),
        (["--plugin-dir", "a,b", "--plugin-dir=c"], {"plugin_dirs": ("a,b", "c")}),
        (
            ["--pod-max-in-unschedulable-pods-duration=90s"],
            {"pod_max_in_unschedulable_pods": timedelta(seconds=90)},
        ),
        (["--disabled-metrics=a,b", "--disabled-metrics=c"], {"disabled_metrics": ("a", "b", "c")}),
        (["-v", "4"], {"logging": LoggingOptions(verbosity=4)}),
        (["-v4"], {"logging": LoggingOptions(verbosity=4)}),
        (["-v=4"], {"logging": LoggingOptions(verbosity=4)}),
        (["--v", "4"], {"logging": LoggingOptions(verbosity=4)}),
        (["--v=4"], {"logging": LoggingOptions(verbosity=4)}),
        (["--logging-format=json"], {"logging": LoggingOptions(format="json")}),
        (["--secure-port=0"], {"serving": ServingOptions(secure_port=0)}),
        (["--bind-address", "::1"], {"serving": ServingOptions(bind_address="::1")}),
        (["--cert-dir=d"], {"serving": ServingOptions(cert_dir="d")}),
        (
            ["--tls-cert-file=c", "--tls-private-key-file=k", "--tls-min-version=VersionTLS13"],
            {
                "serving": ServingOptions(
                    tls_cert_file="c", tls_private_key_file="k", tls_min_version="VersionTLS13"
                )
            },
        ),
        (
            ["--tls-cipher-suites=A,B", "--permit-port-sharing"],
            {"serving": ServingOptions(tls_cipher_suites=("A", "B"), permit_port_sharing=True)},
        ),
        (
            ["--authorization-always-allow-paths=/healthz,/metrics"],
            {"access": AccessOptions(always_allow_paths=("/healthz", "/metrics"))},
        ),
        (["--client-ca-file=ca"], {"access": AccessOptions(client_ca_file="ca")}),
        (["--authentication-skip-lookup"], {"access": AccessOptions(skip_lookup=True)}),
        (
            ["--authentication-kubeconfig=a", "--authorization-kubeconfig=b"],
            {"access": AccessOptions(authentication_kubeconfig="a", authorization_kubeconfig="b")},
        ),
        (
            [
                "--authentication-token-webhook-cache-ttl=1s",
                "--authorization-webhook-cache-authorized-ttl=2s",
                "--authorization-webhook-cache-unauthorized-ttl=500ms",
            ],
            {"access": AccessOptions(token_ttl=1.0, authorized_ttl=2.0, unauthorized_ttl=0.5)},
        ),
    ],
)
def test_other_flags_become_options(
    shell: Shell, arguments: list[str], expected: dict[str, Any]
) -> None:
    options = shell.options(*arguments)
    changed = {
        name: getattr(options, name)
        for name in RunOptions.__dataclass_fields__
        if name != "feature_gates" and getattr(options, name) != getattr(RunOptions(), name)
    }
    assert changed == expected


@pytest.mark.parametrize(
    ("arguments", "warnings"),
    [
        ([], []),
        (["--kubeconfig=k"], []),
        (["--config=c", "--kubeconfig=k"], []),
        (
            ["--config=c", "--kube-api-qps=1"],
            ["--kube-api-qps is ignored because --config is given; set clientConnection.qps there"],
        ),
        (["--config=c", "--pod-max-in-unschedulable-pods-duration=1m"], []),
        (["--config=c", "--leader-elect=false"], []),
        (
            ["--vmodule=a=1"],
            ["--vmodule has no effect: use -v, or raise it while running at /debug/flags/v"],
        ),
        # The value asks for the present behaviour.
        (["--permit-address-sharing", "--disable-http2-serving"], []),
        (["--contention-profiling=false", "--log-json-split-stream=false"], []),
        (["--emulated-version=1.37"], []),
        (
            ["--emulated-version=1.35"],
            ["--emulated-version has no effect: kubestow behaves like v1.37 only"],
        ),
        (
            ["--feature-gates=GracefulNodeShutdown=true"],
            ["feature gate GracefulNodeShutdown has no effect on scheduling"],
        ),
    ],
)
def test_flags_without_effect_cause_warnings(
    shell: Shell, arguments: list[str], warnings: list[str]
) -> None:
    assert list(shell.options(*arguments).warnings) == warnings


@pytest.mark.parametrize(
    ("texts", "ours", "foreign"),
    [
        (["A=true,B=false", "C=true"], ["A=true", "B=false", "C=true"], []),
        (["kube:A=true", " B=true , "], ["A=true", "B=true"], []),
        (["AllAlpha=true", "WatchList=false"], ["AllAlpha=true"], ["WatchList"]),
    ],
)
def test_feature_gates_of_other_components_are_sorted_out(
    texts: list[str], ours: list[str], foreign: list[str]
) -> None:
    assert split_feature_gates(texts) == (ours, foreign)


def test_feature_gates_are_joined_over_repetitions(shell: Shell) -> None:
    options = shell.options(
        "--feature-gates=StorageCapacityScoring=true",
        "--feature-gates",
        "kube:OpportunisticBatching=f",
    )
    assert options.feature_gates.changes == {
        "StorageCapacityScoring": True,
        "OpportunisticBatching": False,
    }


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["foo", "bar"], 2, '"kubestow run" does not take any arguments, got ["foo" "bar"]'),
        (
            ["--leader-elect", "false"],
            2,
            (
                '"kubestow run" does not take any arguments, got ["false"]; a boolean flag takes '
                "its value after =, as in --leader-elect=false"
            ),
        ),
        (["--", "--config"], 2, 'does not take any arguments, got ["--config"]'),
        (["--secure-port=abc"], 2, 'invalid argument "abc" for "--secure-port": must be a whole'),
        (["--secure-port=70000"], 2, '"--secure-port": must be between 0 and 65535, inclusive'),
        (
            ["--leader-elect=maybe"],
            2,
            'invalid argument "maybe" for "--leader-elect": must be true',
        ),
        (["--kube-api-qps=x"], 2, 'invalid argument "x" for "--kube-api-qps": must be a number'),
        (
            ["--leader-elect-retry-period=10"],
            2,
            'for "--leader-elect-retry-period": "10" is not a duration such as "1m30s"',
        ),
        (["--logging-format=xml"], 2, '"--logging-format": must be text or json'),
        (["-v=x"], 2, 'invalid argument "x" for "--v": must be a whole number'),
        (
            ["--tls-cert-file=a"],
            2,
            "--tls-cert-file and --tls-private-key-file must be given together",
        ),
        (["--leader-elekt=false"], 2, "--leader-elect"),
        (["--port=0"], 2, "has no flag --port: remove it; only HTTPS is served"),
        (["--logtostderr"], 2, "has no flag --logtostderr: remove it; the log is one stream"),
        (["--lock_object_name", "x"], 2, "--lock-object-name: use --leader-elect-resource-name"),
        (["--config"], 2, "requires an argument"),
        (["--feature-gates=Nope=true"], 1, "unrecognized feature gate: Nope"),
        (["--feature-gates=DRAAdminAccess=false"], 1, "feature is locked to true"),
        (["--feature-gates=A,B=x"], 1, '"A" has no value'),
    ],
)
def test_mistakes_are_named(shell: Shell, arguments: list[str], code: int, message: str) -> None:
    ended = shell("run", *arguments)
    assert ended.code == code
    assert message in " ".join(ended.err.split())
    assert shell.started == []


def test_all_problems_are_listed_at_once(shell: Shell) -> None:
    ended = shell("run", "--feature-gates=Nope=true,A,DRAAdminAccess=false")
    assert ended.err.splitlines()[0] == "Error: 3 problems with the configuration"
    assert all(line.startswith("  - ") for line in ended.err.splitlines()[1:])


def test_the_exit_code_is_the_applications(shell: Shell) -> None:
    shell.code = 3
    assert shell("run").code == 3


@pytest.mark.parametrize(
    ("failure", "lines"),
    [
        (
            ServingError("cannot listen on 0.0.0.0:10259: Address already in use"),
            ["Error: cannot listen on 0.0.0.0:10259: Address already in use"],
        ),
        (
            ConfigurationError(["a: is wrong", "b: is wrong\nin two lines"]),
            [
                "Error: 2 problems with the configuration",
                "  - a: is wrong",
                "  - b: is wrong",
                "    in two lines",
            ],
        ),
    ],
)
def test_errors_at_start_are_printed_without_a_traceback(
    shell: Shell, failure: Exception, lines: list[str]
) -> None:
    shell.failure = failure
    ended = shell("run")
    assert (ended.code, ended.err.splitlines()) == (1, lines)


def test_other_errors_are_not_hidden(shell: Shell) -> None:
    shell.failure = ValueError("a bug")
    with pytest.raises(ValueError, match="a bug"):
        main(["run"], "kubestow")


def test_under_the_name_kube_scheduler_the_flags_need_no_command(shell: Shell) -> None:
    options = shell.options("--leader-elect=false", "-v", "2", name="kube-scheduler")
    assert options.overrides == {"leaderElection.leaderElect": False}
    ended = shell("foo", name="kube-scheduler")
    assert '"kube-scheduler" does not take any arguments, got ["foo"]' in " ".join(
        ended.err.split()
    )
    assert "Usage: kube-scheduler [FLAGS]" in shell("--help", name="kube-scheduler").out


def test_a_removed_flag_is_no_present_one() -> None:
    assert not REMOVED.keys() & {flag.name for flag in FLAGS}


def test_the_value_of_a_flag_may_be_the_name_of_a_removed_one(shell: Shell) -> None:
    assert shell.options("--config=--port").config_file == "--port"


def test_values_are_never_taken_for_flags() -> None:
    given = ["--config", "--leader-elect", "--master", "-v", "--leader_elect"]
    assert go_arguments(given, FLAGS) == [
        "--config", "--leader-elect", "--master", "-v", "--leader-elect=true",
    ]  # fmt: skip


def test_the_effective_configuration_is_written(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "effective.yaml"
    ended = shell("run", "--leader-elect=false", f"--write-config-to={path}")
    assert (ended.code, shell.started) == (0, [])
    assert "leaderElect: false" in path.read_text()
    again = tmp_path / "again.yaml"
    shell("run", "--config", str(path), "--write-config-to", str(again))
    assert again.read_text() == path.read_text()


def test_a_configuration_that_cannot_be_written_is_an_error(shell: Shell, tmp_path: Path) -> None:
    ended = shell("run", f"--write-config-to={tmp_path}")
    assert ended.code == 1
    assert str(tmp_path) in ended.err


def test_headings_are_distinct() -> None:
    assert len({group.title for group in GROUPS}) == len(GROUPS)
