"""`kubestow config`: check configurations, print the effective one, the schema and the gates."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import click

from config import (
    GATES,
    Configuration,
    FeatureGates,
    configuration_schema,
    differences,
    redacted_differences,
    to_data,
    to_yaml,
    upstream_form,
)
from scheduler.cli.command_groups import SuggestingGroup
from scheduler.cli.config_files import sources
from scheduler.cli.permissions import needed_permissions, reading_permissions, service_account
from scheduler.cli.reporting import EXIT_FAILED, report_problems
from scheduler.cli.run import split_feature_gates
from scheduler.cli.tables import FOLDED, WHOLE, listing, put, wide_console
from scheduler.explain.records.wording import counted
from scheduler.framework.status import ConfigurationError
from scheduler.sanitizing.redaction import redact
from scheduler.service.options import (
    RunOptions,
    add_plugin_directories,
    available_plugins,
    read_configuration,
)

NEEDS_NAMESPACE: Final = (
    "note: a Role is for the namespace {namespace}. If there is none, create it first: "
    "kubectl create namespace {namespace}"
)

EXIT_DIFFERENT: Final = 1
EXIT_TROUBLE: Final = 2
"""The exit codes of diff(1)."""


def add_reading_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that affect how a file is read."""
    for option in (
        click.option(
            "--feature-gates", multiple=True, metavar="NAME=BOOL,...", help="As for `kubestow run`."
        ),
        click.option(
            "--plugin-dir",
            "plugin_dirs",
            multiple=True,
            metavar="DIR",
            help="Folder with plugins the file names as module:Class. May be repeated.",
        ),
        click.option(
            "--replace-default-scheduler",
            is_flag=True,
            help="Allow the names of the cluster's own scheduler.",
        ),
    ):
        function = option(function)
    return function


@click.group("config", cls=SuggestingGroup, short_help="Check and print configurations.")
def command() -> None:
    """Check and print configurations.

    A configuration is a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1), as
    kube-scheduler reads it, with one more key `kubestow` for options of our own.
    """


@command.command("validate")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@add_reading_options
def validate(files: tuple[str, ...], **values: Any) -> None:
    """Check each FILE and print every problem with its YAML path and line.

    FILE is a configuration, a ConfigMap with configurations in its data, a directory, or - for
    standard input. In a directory, YAML and JSON files at any depth are searched for both.

    Exit code 0: all are valid. 1: at least one problem, or a FILE cannot be read. 2: wrong usage.

    \b
    Examples:
      kubestow config validate profile.yaml --plugin-dir ./my-plugins
      kubestow config validate manifests/
      kubectl get configmap kubestow -o yaml | kubestow config validate -
    """  # noqa: D301 - click wants the character itself
    failed = False
    for source in sources(files):
        problems = source.problems
        if source.configuration is not None:
            try:
                configuration = _read("", text=source.configuration.text, **values)
            except ConfigurationError as error:
                problems = error.problems
        if problems:
            failed = True
            title = f"{source.name}: {counted(len(problems), 'problem')}"
            report_problems(title, problems)
            continue
        click.secho(f"{source.name}: valid", fg="green")
        for profile in configuration.profiles:
            plugins = counted(len(profile.plugins), "plugin")
            click.echo(f"  profile {profile.scheduler_name}: {plugins}")
    if failed:
        raise SystemExit(EXIT_FAILED)


@command.command("show")
@click.argument("file", required=False, type=click.Path(dir_okay=False))
@click.option(
    "--upstream",
    is_flag=True,
    help="Leave out what kube-scheduler would refuse: the key `kubestow` and plugins it lacks.",
)
@click.option(
    "--show-secrets", is_flag=True, help="Print keys, passwords and tokens of the file as well."
)
@add_reading_options
def show(file: str | None, *, upstream: bool, show_secrets: bool, **values: Any) -> None:
    """Print the effective configuration of FILE, or of no file, as YAML.

    Every default is filled in and plugin lists are merged, so this is what runs. Keys, passwords
    and tokens, such as an extender's keyData, are hidden; a file with hidden values does not load.

    \b
    Example:
      kubestow config show profile.yaml --upstream > for-kube-scheduler.yaml
    """  # noqa: D301 - click wants the character itself
    configuration = _read(file or "", **values)
    data = upstream_form(configuration) if upstream else to_data(configuration)
    shown = data if show_secrets else redact(data)
    if shown != data:
        click.echo("warning: credentials are hidden; --show-secrets prints them", err=True)
    click.echo(to_yaml(shown), nl=False)


@command.command("diff")
@click.argument("first", metavar="A", type=click.Path())
@click.argument("second", metavar="B", type=click.Path())
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
)
@click.option("--show-secrets", is_flag=True, help="Print keys, passwords and tokens as well.")
@add_reading_options
def diff(first: str, second: str, *, output: str, show_secrets: bool, **values: Any) -> None:
    """Print how the configurations A and B differ in force, after defaults and merging.

    Profiles are compared by scheduler name, plugins as they run: for each extension point the
    names in order, then the weights and arguments. Two files that mean the same do not differ,
    however they are written. A and B are files, ConfigMaps with one configuration, or - .

    Exit code 0: no difference. 1: differences. 2: trouble, as with diff(1).

    \b
    Examples:
      kubestow config diff old.yaml new.yaml
      kubectl get configmap kubestow -o yaml | kubestow config diff - new.yaml -o json
    """  # noqa: D301 - click wants the character itself
    sides = [_read_side(name, values) for name in (first, second)]
    found = differences(*sides)
    shown = [
        {"path": each.path, "a": each.first, "b": each.second}
        for each in (found if show_secrets else redacted_differences(found))
    ]
    if output == "json":
        click.echo(json.dumps(shown, indent=2))
    elif shown:
        columns = {"PATH": WHOLE, "A": FOLDED, "B": FOLDED}
        rows = [(str(one["path"]), _cell(one["a"]), _cell(one["b"])) for one in shown]
        put(wide_console(), listing(columns, rows))
    raise SystemExit(EXIT_DIFFERENT if found else 0)


def _read_side(name: str, values: dict[str, Any]) -> Configuration:
    """Read one side of `config diff`; every problem ends the command with exit code 2."""
    found = list(sources((name,)))
    problems = [problem for source in found for problem in source.problems]
    if len(found) != 1:
        problems.append(f"has {len(found)} configurations; name a file with one")
    if not problems and found[0].configuration is not None:
        try:
            return _read("", text=found[0].configuration.text, **values)
        except ConfigurationError as error:
            problems.extend(error.problems)
    report_problems(f"{name}: {counted(len(problems), 'problem')}", problems)
    raise SystemExit(EXIT_TROUBLE)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value)


@command.command("schema")
@click.option(
    "--plugin",
    "references",
    multiple=True,
    metavar="MODULE:CLASS",
    help="Describe the arguments of this plugin as well. May be repeated.",
)
@click.option(
    "--plugin-dir",
    "plugin_dirs",
    multiple=True,
    metavar="DIR",
    help="Folder with the plugins that --plugin names. May be repeated.",
)
def schema(references: tuple[str, ...], plugin_dirs: tuple[str, ...]) -> None:
    """Print the JSON Schema (2020-12) of the configuration file, for editors.

    It has every key with its default, the values allowed, and the arguments of each plugin by name.
    Relations between keys, such as renewDeadline < leaseDuration, and names of plugins are checked
    by `config validate` only.

    \b
    Example: completion and checks in editors with yaml-language-server. Put the schema beside the
    file, and this comment on the file's first line:
      kubestow config schema > kubestow.schema.json
      # yaml-language-server: $schema=kubestow.schema.json
    """  # noqa: D301 - click wants the character itself
    add_plugin_directories(plugin_dirs)
    registry = available_plugins()
    for reference in references:
        if registry.resolve(reference) not in registry:
            known = 'a plugin of yours is named as "module:Class"'
            raise click.UsageError(f'--plugin: there is no plugin "{reference}"; {known}')
    click.echo(json.dumps(configuration_schema(registry), indent=2))


@command.command("rbac")
@click.argument("file", required=False, type=click.Path(dir_okay=False))
@click.option(
    "--name", help="Name of the ClusterRole. Default: kubestow, or by what and whom it is for."
)
@click.option(
    "--explainer",
    is_flag=True,
    help="Print what people need who ask the scheduler, not what it needs.",
)
@click.option(
    "--local",
    is_flag=True,
    help="With --explainer: only the ClusterRole, for a scheduler outside of the cluster.",
)
@click.option(
    "--shadow", is_flag=True, help="Print what `kubestow shadow` needs, which only reads."
)
@click.option(
    "--service-account",
    "account",
    metavar="NAMESPACE/NAME",
    help="Print the bindings to this ServiceAccount as well.",
)
@add_reading_options
def rbac(
    file: str | None,
    *,
    name: str | None,
    explainer: bool,
    local: bool,
    shadow: bool,
    account: str | None,
    **values: Any,
) -> None:
    """Print the ClusterRole, and the Role for the Lease, that FILE needs, as YAML.

    Without FILE: the defaults. A comment above each rule says who needs it, and what is off
    without it. With --service-account, the bindings follow; one of them is to the Role
    extension-apiserver-authentication-reader, which every cluster has in kube-system.

    With --explainer: what a person needs for `kubestow explain` and the like. The Role leads to the
    scheduler, and suffices for answers about namespaces whose pods the person may get. With --local
    as well: for a scheduler on the user's own machine, to which no Role leads. Its name differs
    from that of the Helm chart.

    With --shadow: a ClusterRole with get, list and watch alone.

    \b
    Examples:
      kubestow config rbac profile.yaml | kubectl apply -f -
      kubestow config rbac --service-account kubestow-system/kubestow | kubectl apply -f -
      kubestow config rbac --explainer | kubectl apply -f -
      kubestow config rbac --shadow | kubectl apply -f -
    """  # noqa: D301 - click wants the character itself
    from scheduler.permissions import declarations
    from scheduler.permissions.rbac import name_for, of_reader, roles

    if local and not explainer:
        raise click.UsageError("--local goes with --explainer")
    if explainer and shadow:
        raise click.UsageError("--explainer and --shadow exclude each other: give one of them")
    bound = service_account(account) if account is not None else None
    options = reading_options(file or "", **values)
    if explainer:
        settings = read_configuration(options).effective.leader_election
        lease = (settings.resource_name, settings.resource_namespace)
        needed, suffix = declarations.explainer(lease), ""
        if local:
            needed = tuple(each for each in needed if each.urls)
        name = name or f"{name_for(bound)}{'-local' if local else ''}-explainer"
    elif shadow:
        needed, suffix = reading_permissions(options), ""
        name = name or f"{name_for(bound)}-shadow"
    else:
        needed, suffix = needed_permissions(options), "-leader-election"
    click.echo(roles(needed, name or name_for(bound), suffix=suffix, account=bound), nl=False)
    places = {each.namespace for each in needed if each.namespace and not of_reader(each)}
    # Whoever binds an account for the first time may have none of it yet.
    for each in sorted(places) if bound is not None else ():
        # Not as an object: applying it would take its labels away, and deleting it everything.
        click.echo(NEEDS_NAMESPACE.format(namespace=each), err=True)


@command.command("gates")
def gates() -> None:
    """List the feature gates, their stage and default."""
    rows = []
    for gate in sorted(GATES.values(), key=lambda each: each.name):
        default = str(gate.default).lower() + (" (locked)" if gate.locked else "")
        rows.append((gate.name, gate.stage.value, default, ", ".join(gate.requires)))
    columns = {**dict.fromkeys(("GATE", "STAGE", "DEFAULT"), WHOLE), "NEEDS": FOLDED}
    put(wide_console(), listing(columns, rows))


def _read(file: str, *, text: str | None = None, **values: Any) -> Configuration:
    return read_configuration(reading_options(file, **values), text=text)


def reading_options(
    file: str,
    *,
    feature_gates: tuple[str, ...],
    plugin_dirs: tuple[str, ...],
    replace_default_scheduler: bool,
) -> RunOptions:
    """Return the options of a run that reads `file` with the values of these options."""
    ours, foreign = split_feature_gates(feature_gates)
    for name in foreign:
        click.echo(f"warning: feature gate {name} has no effect on scheduling", err=True)
    return RunOptions(
        config_file=file,
        feature_gates=FeatureGates.parse(ours),
        plugin_dirs=plugin_dirs,
        replace_default_scheduler=replace_default_scheduler,
    )
