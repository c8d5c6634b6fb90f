"""`kubestow quota`: write and read the quotas that are enforced when a pod is scheduled."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.cluster import JsonObject, SelectedCluster, cluster_options
from scheduler.cli.command_groups import SuggestingGroup
from scheduler.cli.hints import given_cluster
from scheduler.cli.modes import ModalCommand
from scheduler.cli.pod_format import one_line
from scheduler.cli.tables import FOLDED, NUMBER, Cell, listing, put, wide_console
from scheduler.explain.records.wording import counted

if TYPE_CHECKING:
    from scheduler.cli.quota_limits import QuotaRow
    from scheduler.client.rest import ApiClient

HELP: Final = """\
Deferred quota: limits on compute that count when a pod is scheduled, not when it is created.

Gated pods are admitted over the limit and not charged; kubestow holds them until quota frees. The
limits are ordinary ResourceQuotas with keys of our own, so `kubectl get quota` shows them. See
docs/deferred-quota.md.

\b
Examples:
  kubestow quota set -n team-a --cpu 10 --memory 64Gi --gpu nvidia.com/gpu=8 --guard
  kubestow quota show -A
  kubestow quota drain -n team-a
  kubestow quota migrate -n team-a --dry-run
"""

_SET: Final = """\
Set limits of a namespace; what is not named stays, `none` removes a limit.

Amounts are written as in a pod: 10, 1500m, 64Gi. Deferred keys hold whole numbers only, so cpu is
stored in thousandths and a fraction of a byte or of a device is refused.

\b
Examples:
  kubestow quota set -n team-a --cpu 10 --memory 64Gi --gpu nvidia.com/gpu=8
  kubestow quota set -n team-a --gpu nvidia.com/gpu=none
  kubestow quota set -n team-a --cpu 10 --dry-run -o yaml | kubectl apply -f -
"""

_DRAIN: Final = """\
List the pods that would be scheduled unchecked if deferred quota were switched off now.

These are pods that were admitted over the limit and have no node yet: `gated` ones, those `held` by
quota, and those `waiting` for a node. Nothing is changed. Run it before switching the feature gate
ResourceQuotaDeferredEnforcement off, and delete or gate what must not run.
"""

_MIGRATE: Final = """\
Move the limits of a deferred quota into a built-in one, for API servers that implement KEP-5465.

Creates the built-in quota first, then deletes the deferred one, so that no moment is without limit.
On an API server that does not implement the KEP gated pods are charged at creation again, and
refused over the limit. `--back` goes the other way.
"""

_CHARGED_AT_CREATION: Final = (
    "On an API server without KEP-5465 gated pods are then charged at creation, and refused over "
    "the limit;\nset quotaMode: Native for the scheduler when it has it."
)

_FLAGS: Final = (
    ("--cpu", "requests.cpu"),
    ("--memory", "requests.memory"),
    ("--ephemeral-storage", "requests.ephemeral-storage"),
    ("--limits-cpu", "limits.cpu"),
    ("--limits-memory", "limits.memory"),
    ("--limits-ephemeral-storage", "limits.ephemeral-storage"),
)


@click.group(
    "quota",
    cls=SuggestingGroup,
    help=HELP,
    short_help="Show and set quotas that count scheduled pods.",
)
def command() -> None:
    """Hold the commands below."""


_namespace = click.option("--namespace", "-n", default="default", show_default=True)
_everywhere = click.option(
    "--all-namespaces", "-A", is_flag=True, help="Show the quotas of all namespaces."
)
_output = click.option(
    "--output", "-o", type=click.Choice(["table", "json"]), default="table", show_default=True
)
_manifest_output = click.option(
    "--output",
    "-o",
    type=click.Choice(["yaml", "json"]),
    default=None,
    help="Print the quota instead of a summary.",
)


def _amount_options(function: Any) -> Any:
    for flag, name in reversed(_FLAGS):
        function = click.option(flag, metavar="AMOUNT", help=f"Limit of {name}.")(function)
    return function


@command.command(
    "set", cls=ModalCommand, path="quota set", help=_SET, short_help="Set limits of a namespace."
)
@_namespace
@click.option("--name", metavar="NAME", help="Name of the quota.  [default: NAMESPACE-deferred]")
@_amount_options
@click.option(
    "--gpu",
    "--device",
    "devices",
    multiple=True,
    metavar="RESOURCE=N",
    help="Limit of an extended resource such as nvidia.com/gpu=8. May be given often.",
)
@click.option("--hugepages", multiple=True, metavar="SIZE=AMOUNT", help="Such as 2Mi=1Gi.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(["Terminating", "NotTerminating", "BestEffort", "NotBestEffort"]),
    help="Scope of a new quota; that of another one cannot be changed.",
)
@click.option("--guard", is_flag=True, help="Also label the namespace for the guard policies.")
@click.option("--dry-run", is_flag=True, help="Print what would be written; asks no cluster.")
@_manifest_output
@cluster_options
def set_(  # noqa: PLR0913 - one for each option
    *,
    cluster: SelectedCluster,
    namespace: str,
    name: str | None,
    devices: tuple[str, ...],
    hugepages: tuple[str, ...],
    scopes: tuple[str, ...],
    guard: bool,
    dry_run: bool,
    output: str | None,
    **amounts: str | None,
) -> None:
    """Set limits."""
    from scheduler.cli import quota_requests
    from scheduler.cli.quota_limits import LimitError, manifest, read

    called = name or f"{namespace}-deferred"

    async def write(client: ApiClient) -> tuple[JsonObject, bool]:
        if guard:
            await quota_requests.guard(client, namespace)
        return await quota_requests.write(client, namespace, called, limits, scopes)

    try:
        limits = read(_amounts(amounts, devices, hugepages))
        if dry_run:
            _print_manifest(manifest(namespace, called, limits, scopes), output or "yaml")
            return
        made, created = cluster.run(write)
    except LimitError as error:
        raise click.UsageError(str(error)) from error
    if output:
        _print_manifest(made, output)
        return
    done = "created" if created else "changed"
    click.echo(f"resourcequota/{one_line(called)} {done} in {one_line(namespace)}")
    _print_limits(made)


def _amounts(
    amounts: dict[str, str | None], devices: tuple[str, ...], hugepages: tuple[str, ...]
) -> dict[str, str]:
    """Return the amounts that were given, by upstream's name of the limit."""
    given = {
        name: text
        for flag, name in _FLAGS
        if (text := amounts[flag.lstrip("-").replace("-", "_")]) is not None
    }
    given |= {f"requests.{each}": text for each, text in _pairs(devices, "--gpu")}
    given |= {f"requests.hugepages-{each}": text for each, text in _pairs(hugepages, "--hugepages")}
    if not given:
        raise click.UsageError("nothing to set: give at least one limit, such as --cpu 10")
    return given


def _pairs(texts: tuple[str, ...], flag: str) -> list[tuple[str, str]]:
    found = []
    for text in texts:
        name, equals, amount = text.partition("=")
        if not name or not equals or not amount:
            raise click.BadParameter(f"{text!r}: write NAME=AMOUNT", param_hint=f"'{flag}'")
        found.append((name, amount))
    return found


def _print_limits(quota: JsonObject) -> None:
    from scheduler.cli.quota_limits import rows

    for row in rows(quota, ()):
        click.echo("  " + one_line(f"{row.resource} = {row.json()['hard']}"))


def _print_manifest(obj: JsonObject, output: str) -> None:
    import yaml

    if output == "json":
        click.echo(json.dumps(obj, indent=2))
    else:
        click.echo(yaml.safe_dump(obj, sort_keys=False), nl=False)


# ------------------------------------------------------------------------------------------- show


@command.command(
    "show", cls=ModalCommand, path="quota show", short_help="Show limits, usage and held pods."
)
@_namespace
@_everywhere
@_output
@cluster_options
def show(*, cluster: SelectedCluster, namespace: str, all_namespaces: bool, output: str) -> None:
    """Show every limit of quotas with deferred keys, and the pods that wait for it.

    USED is what the leading scheduler published last; `?` when it has not yet. A pod counts as held
    for each limit that its condition names.
    """
    from scheduler.cli.quota_limits import rows, unreadable

    quotas, pods = _read(cluster, "" if all_namespaces else namespace)
    found = [
        row for quota in quotas for row in rows(quota, pods[str(quota["metadata"]["namespace"])])
    ]
    for warning in (text for quota in quotas for text in unreadable(quota)):
        click.echo(f"warning: {one_line(warning)}", err=True)
    if output == "json":
        click.echo(json.dumps([row.json() for row in found], indent=2))
    elif found:
        names = dict.fromkeys(("NAMESPACE", "QUOTA", "RESOURCE"), FOLDED)
        amounts = dict.fromkeys(("USED", "HARD", "FREE", "HELD"), NUMBER)
        put(wide_console(), listing(names | amounts, map(_cells, found)))
    else:
        where = "" if all_namespaces else f" in namespace {namespace}"
        click.echo(f"no quota with deferred keys{where}")


def _read(
    cluster: SelectedCluster, namespace: str
) -> tuple[list[JsonObject], dict[str, list[JsonObject]]]:
    from scheduler.cli.quota_requests import read_deferred

    return cluster.run(lambda client: read_deferred(client, namespace))


def _cells(row: QuotaRow) -> tuple[Cell, ...]:
    full = row.deferred and row.free is not None and row.free <= 0
    *cells, free, held = row.cells()
    return (*cells, (free, "red" if full else ""), held)


# ------------------------------------------------------------------------------------------ drain


@command.command(
    "drain",
    cls=ModalCommand,
    path="quota drain",
    help=_DRAIN,
    short_help="List pods that switching off would let loose.",
)
@_namespace
@_everywhere
@_output
@cluster_options
def drain(*, cluster: SelectedCluster, namespace: str, all_namespaces: bool, output: str) -> None:
    """List pods that would be scheduled unchecked."""
    from scheduler.cli.quota_limits import waits_uncharged

    _, pods = _read(cluster, "" if all_namespaces else namespace)
    found = [
        {"namespace": name, "pod": str(each["metadata"]["name"]), "state": state, **_asks(each)}
        for name in sorted(pods)
        for each in pods[name]
        if (state := waits_uncharged(each))
    ]
    if output == "json":
        click.echo(json.dumps(found, indent=2))
        return
    if found:
        columns = dict.fromkeys(("NAMESPACE", "POD", "STATE", "ASKS FOR", "GATES"), FOLDED)
        put(wide_console(), listing(columns, map(_pod_cells, found)))
    click.echo(f"{counted(len(found), 'pod')} would be scheduled unchecked")


def _asks(pod: JsonObject) -> JsonObject:
    """Return what a pod requests, and its scheduling gates."""
    import msgspec

    from plugins.resource_quota.keys import human
    from plugins.resource_quota.usage import pod_usage
    from scheduler.api.pod import Pod

    usage = pod_usage(msgspec.convert(pod, Pod, strict=False))
    requests = {name: nano for name, nano in sorted(usage.items()) if name.startswith("requests.")}
    gates = (pod.get("spec") or {}).get("schedulingGates") or ()
    return {
        "requests": {name: human(name, nano) for name, nano in requests.items()},
        "gates": [str(gate.get("name")) for gate in gates],
    }


def _pod_cells(pod: dict[str, Any]) -> tuple[str, ...]:
    requests = ",".join(f"{name}={amount}" for name, amount in pod["requests"].items())
    return (pod["namespace"], pod["pod"], pod["state"], requests, ",".join(pod["gates"]))


# ---------------------------------------------------------------------------------------- migrate


@command.command(
    "migrate",
    cls=ModalCommand,
    path="quota migrate",
    help=_MIGRATE,
    short_help="Move limits into a built-in quota.",
)
@_namespace
@click.option("--name", metavar="NAME", help="Name of the quota.  [default: NAMESPACE-deferred]")
@click.option("--to", metavar="NAME", help="Name of the new quota.  [default: NAMESPACE-compute]")
@click.option("--back", is_flag=True, help="From a built-in quota to deferred keys.")
@click.option(
    "--dry-run", is_flag=True, help="Print the new quota and the way back; write nothing."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@cluster_options
def migrate(
    *,
    cluster: SelectedCluster,
    namespace: str,
    name: str | None,
    to: str | None,
    back: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Move limits."""
    from scheduler.cli import quota_requests
    from scheduler.cli.quota_limits import LimitError, to_deferred, to_native

    names = (f"{namespace}-deferred", f"{namespace}-compute")
    old_name = name or names[back]
    new_name = to or names[not back]
    if old_name == new_name:
        raise click.UsageError(f"the new quota cannot have the name of the old one, {old_name}")
    old = cluster.run(lambda client: quota_requests.get(client, namespace, old_name))
    if old is None:
        raise click.ClickException(f"there is no resourcequota {old_name} in {namespace} (--name)")
    try:
        new = to_deferred(old, new_name) if back else to_native(old, new_name)
    except LimitError as error:
        raise click.ClickException(f"{old_name} cannot be moved: {error}") from error
    _print_manifest(new, "yaml")
    way = "" if back else " --back"
    click.echo(
        f"\nThis quota replaces {old_name}. The way back:\n"
        f"  kubestow quota migrate -n {namespace}{way} --name {new_name} --to {old_name}"
        f"{given_cluster()}",
        err=True,
    )
    if not back:
        click.echo(_CHARGED_AT_CREATION, err=True)
    if dry_run:
        return
    if not yes:
        click.confirm(f"Replace {old_name} by {new_name}?", abort=True, err=True)
    cluster.run(lambda client: quota_requests.replace(client, namespace, old, new))
    click.echo(f"resourcequota/{new_name} created, {old_name} deleted", err=True)
