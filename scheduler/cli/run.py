"""`kubestow run`: from flags to `RunOptions`, and on to the application.

This module decides the effect of each flag: which take precedence over the configuration file,
which the file overrides, and which cause a warning. The application itself is in
`scheduler.process.application`. Imports of NumPy are left to functions, so that `--help` is quick.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from scheduler.cli.component_gates import OTHER_COMPONENTS
from scheduler.cli.flags import FLAGS, GROUPS, IGNORED, REMOVED
from scheduler.cli.go_flags import GroupedCommand
from scheduler.cli.import_without import import_without
from scheduler.cli.version import version_option
from scheduler.sanitizing.go_values import format_duration

if TYPE_CHECKING:
    from scheduler.service.options import AccessOptions, LogFormat, RunOptions, ServingOptions

INTRODUCTION: Final = """\
Schedule the pods that name this scheduler.

Connects to the cluster of the kubeconfig (or the one it runs in), waits for its turn as leader, and
places every pod whose spec.schedulerName is one of its profiles: `kubestow`, unless the
configuration says otherwise. Takes the flags of kube-scheduler v1.37: each works, or says that it
has no effect. Stops cleanly on SIGTERM or Ctrl-C; a second signal ends it at once.
"""

EXAMPLES: Final = """\
kubestow run --kubeconfig ~/.kube/config --leader-elect=false
kubestow run --config profile.yaml --plugin-dir ./my-plugins -v 4
kubestow run --config profile.yaml --write-config-to effective.yaml
"""


def _run(**values: Any) -> None:
    ctx = click.get_current_context()
    explicit = {
        flag.name
        for flag in FLAGS
        if ctx.get_parameter_source(flag.parameter) is click.core.ParameterSource.COMMANDLINE
    }
    options = build_options(values, explicit)
    if values["write_config_to"]:
        _write_configuration(options, Path(values["write_config_to"]))
        return
    # structlog would have Rich draw tracebacks, of which our log writes none.
    with import_without("rich"):
        from scheduler.process.application import run
        from scheduler.service.serving.certificates import ServingError

    try:
        code = run(options)
    except ServingError as error:
        raise click.ClickException(str(error)) from error
    sys.exit(code)


command = GroupedCommand(
    name="run",
    help=INTRODUCTION,
    short_help="Run the scheduler.",
    examples=EXAMPLES,
    groups=GROUPS,
    ignored=IGNORED,
    removed=REMOVED,
    callback=_run,
    params=[version_option()],
)


def build_options(values: Mapping[str, Any], explicit: set[str]) -> RunOptions:
    """Build the options from a parsed command line.

    Args:
        values: of every flag by its Python name.
        explicit: the flags that were given.

    Raises:
        click.UsageError: values that exclude each other.
        ConfigurationError: feature gates that do not exist or cannot be set.
    """
    from config import FeatureGates
    from scheduler.service.options import LoggingOptions, RunOptions

    with_config = bool(values["config"])
    gates, foreign = split_feature_gates(values["feature_gates"])
    return RunOptions(
        config_file=values["config"],
        kubeconfig=values["kubeconfig"] if with_config else "",
        master=values["master"],
        overrides=overrides(values, explicit, with_config=with_config),
        feature_gates=FeatureGates.parse(gates),
        replace_default_scheduler=values["replace_default_scheduler"],
        plugin_dirs=values["plugin_dir"],
        pod_max_in_unschedulable_pods=values["pod_max_in_unschedulable_pods_duration"],
        serving=_serving(values),
        access=_access(values),
        logging=LoggingOptions(format=_log_format(values["logging_format"]), verbosity=values["v"]),
        disabled_metrics=values["disabled_metrics"],
        warnings=(
            *warnings(values, explicit, with_config=with_config),
            *(f"feature gate {name} has no effect on scheduling" for name in foreign),
        ),
    )


def overrides(
    values: Mapping[str, Any], explicit: set[str], *, with_config: bool
) -> dict[str, Any]:
    """Return the values of the flags by their place in the configuration.

    Without a file every explicit flag counts; with one, those that upstream lets beat it.
    """
    return {
        flag.path: _plain(values[flag.parameter])
        for flag in FLAGS
        if flag.path and flag.name in explicit and not (with_config and flag.deprecated)
    }


def warnings(values: Mapping[str, Any], explicit: set[str], *, with_config: bool) -> Iterator[str]:
    """Yield a sentence about every given flag that has no effect."""
    for flag in FLAGS:
        if flag.name not in explicit:
            continue
        if with_config and flag.deprecated and flag.path and not flag.beside_config:
            yield f"--{flag.name} is ignored because --config is given; set {flag.path} there"
        elif flag.no_effect and values[flag.parameter] != flag.moot:
            yield f"--{flag.name} has no effect: {flag.no_effect}"


def split_feature_gates(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return gates of a scheduler, without prefix `kube:`, and names of other components' gates."""
    ours: list[str] = []
    foreign: list[str] = []
    for part in (part.strip() for text in texts for part in text.split(",")):
        gate = part.removeprefix("kube:")
        name = gate.partition("=")[0].strip()
        if name in OTHER_COMPONENTS:
            foreign.append(name)
        elif gate:
            ours.append(gate)
    return ours, foreign


def _plain(value: Any) -> Any:
    return format_duration(value) if isinstance(value, timedelta) else value


def _serving(values: Mapping[str, Any]) -> ServingOptions:
    if bool(values["tls_cert_file"]) != bool(values["tls_private_key_file"]):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file must be given together")
    from scheduler.service.options import ServingOptions

    # Every field of the record has the name of its flag.
    return ServingOptions(**{field.name: values[field.name] for field in fields(ServingOptions)})


def _access(values: Mapping[str, Any]) -> AccessOptions:
    from scheduler.service.options import AccessOptions

    return AccessOptions(
        authentication_kubeconfig=values["authentication_kubeconfig"],
        authorization_kubeconfig=values["authorization_kubeconfig"],
        token_ttl=values["authentication_token_webhook_cache_ttl"].total_seconds(),
        authorized_ttl=values["authorization_webhook_cache_authorized_ttl"].total_seconds(),
        unauthorized_ttl=values["authorization_webhook_cache_unauthorized_ttl"].total_seconds(),
        always_allow_paths=values["authorization_always_allow_paths"],
        client_ca_file=values["client_ca_file"],
        skip_lookup=values["authentication_skip_lookup"],
    )


def _log_format(text: str) -> LogFormat | None:
    if text not in ("", "text", "json"):
        raise click.UsageError(
            f'invalid argument "{text}" for "--logging-format": must be text or json'
        )
    return cast("LogFormat", text) if text else None


def _write_configuration(options: RunOptions, path: Path) -> None:
    from config import to_data, to_yaml
    from scheduler.service.options import read_configuration

    text = to_yaml(to_data(read_configuration(options)))
    try:
        # The file may hold keys of extenders: only its owner may read a new one.
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.FileError(str(path), error.strerror or str(error)) from error
