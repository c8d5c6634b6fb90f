"""`kubestow quota`: write and read the quotas that are enforced when a pod is scheduled."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.cluster import Cluster, JsonObject, Objects, cluster_options
from scheduler.cli.reporting import counted
from scheduler.cli.tables import put, wide_console

if TYPE_CHECKING:
    from rich.table import Table

    from scheduler.cli.quota_limits import Limits, Row

QUOTAS: Final = "resourcequotas"
ENFORCED: Final = "enforced"

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

_FLAGS: Final = (
    ("--cpu", "requests.cpu"),
    ("--memory", "requests.memory"),
    ("--ephemeral-storage", "requests.ephemeral-storage"),
    ("--limits-cpu", "limits.cpu"),
    ("--limits-memory", "limits.memory"),
    ("--limits-ephemeral-storage", "limits.ephemeral-storage"),
)


@click.group("quota", help=HELP, short_help="Quotas enforced when pods are scheduled.")
def command() -> None:
    """Group of the commands below."""


_namespace = click.option("--namespace", "-n", default="default", show_default=True)
_everywhere = click.option("--all-namespaces", "-A", is_flag=True, help="Of the whole cluster.")
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


@command.command("set", help=_SET, short_help="Set limits of a namespace.")
@_namespace
@click.option("--name", metavar="NAME", help="Of the quota.  [default: NAMESPACE-deferred]")
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
    help="Of a new quota only.",
)
@click.option("--guard", is_flag=True, help="Also label the namespace for the guard policies.")
@click.option("--dry-run", is_flag=True, help="Print what would be written; asks no cluster.")
@_manifest_output
@cluster_options
def set_(  # noqa: PLR0913 - one for each option
    *,
    cluster: Cluster,
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
    from scheduler.cli.quota_limits import LimitError, manifest, read

    wanted = {key: amounts[flag.lstrip("-").replace("-", "_")] for flag, key in _FLAGS}
    named = {key: text for key, text in wanted.items() if text is not None}
    named |= {f"requests.{each}": amount for each, amount in _pairs(devices, "--gpu")}
    named |= {f"requests.hugepages-{each}": text for each, text in _pairs(hugepages, "--hugepages")}
    if not named:
        raise click.UsageError("nothing to set: give at least one limit, such as --cpu 10")
    called = name or f"{namespace}-deferred"
    try:
        limits = read(named)
        if dry_run:
            _print_manifest(manifest(namespace, called, limits, scopes), output or "yaml")
            return
        made, created = cluster.run(
            lambda objects: _write(objects, namespace, called, limits, scopes, guard=guard)
        )
    except LimitError as error:
        raise click.UsageError(str(error)) from error
    if output:
        _print_manifest(made, output)
        return
    click.echo(f"resourcequota/{called} {'created' if created else 'changed'} in {namespace}")
    _print_limits(made)


def _pairs(texts: tuple[str, ...], flag: str) -> list[tuple[str, str]]:
    found = []
    for text in texts:
        name, equals, amount = text.partition("=")
        if not name or not equals or not amount:
            raise click.BadParameter(f"{text!r}: write NAME=AMOUNT", param_hint=f"'{flag}'")
        found.append((name, amount))
    return found


async def _write(
    objects: Objects,
    namespace: str,
    name: str,
    limits: Limits,
    scopes: tuple[str, ...],
    *,
    guard: bool,
) -> tuple[JsonObject, bool]:
    """Return the quota as stored, and whether it is new."""
    from scheduler.cli.quota_limits import LABEL, change, manifest

    if guard:
        labels = {"metadata": {"labels": {LABEL: ENFORCED}}}
        await objects.merge("namespaces", "", namespace, labels)
    current = await objects.get(QUOTAS, namespace, name)
    if current is None:
        made = manifest(namespace, name, limits, scopes)
        return await objects.create(QUOTAS, namespace, made), True
    if scopes and sorted(scopes) != sorted(current["spec"].get("scopes") or ()):
        raise click.UsageError(f"scopes of {name} cannot be changed: delete it, or give --name")
    return await objects.merge(QUOTAS, namespace, name, change(current, limits)), False


def _print_limits(quota: JsonObject) -> None:
    from scheduler.cli.quota_limits import rows

    for row in rows(quota, ()):
        click.echo(f"  {row.resource} = {row.json()['hard']}")


def _print_manifest(obj: JsonObject, output: str) -> None:
    import yaml

    if output == "json":
        click.echo(json.dumps(obj, indent=2))
    else:
        click.echo(yaml.safe_dump(obj, sort_keys=False), nl=False)


# ------------------------------------------------------------------------------------------- show


@command.command("show", short_help="Show limits, usage and held pods.")
@_namespace
@_everywhere
@_output
@cluster_options
def show(*, cluster: Cluster, namespace: str, all_namespaces: bool, output: str) -> None:
    """Show every limit of quotas with deferred keys, and the pods that wait for it.

    USED is what the leading scheduler published last; `?` when it has not yet. A pod counts as held
    for each limit that its condition names.
    """
    from scheduler.cli.quota_limits import rows, unreadable

    quotas, pods = _read(cluster, "" if all_namespaces else namespace)
    found = [row for quota in quotas for row in rows(quota, pods.get(_namespace_of(quota), ()))]
    for warning in (text for quota in quotas for text in unreadable(quota)):
        click.echo(f"warning: {warning}", err=True)
    if output == "json":
        click.echo(json.dumps([row.json() for row in found], indent=2))
    elif found:
        put(wide_console(), _table(found))
    else:
        where = "" if all_namespaces else f" in namespace {namespace}"
        click.echo(f"no quota with deferred keys{where}")


def _read(cluster: Cluster, namespace: str) -> tuple[list[JsonObject], dict[str, list[JsonObject]]]:
    """Return quotas with deferred keys, and the pods by namespace that has such quotas."""
    from scheduler.cli.quota_limits import has_deferred

    async def read(objects: Objects) -> tuple[list[JsonObject], dict[str, list[JsonObject]]]:
        quotas = [each for each in await objects.list(QUOTAS, namespace) if has_deferred(each)]
        namespaces = sorted({_namespace_of(quota) for quota in quotas})
        return quotas, {name: await objects.list("pods", name) for name in namespaces}

    return cluster.run(read)


def _namespace_of(obj: JsonObject) -> str:
    return str(obj["metadata"]["namespace"])


def _table(found: list[Row]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("NAMESPACE", "QUOTA", "RESOURCE"):
        table.add_column(name, overflow="fold")
    for name in ("USED", "HARD", "FREE", "HELD"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in found:
        full = row.deferred and row.free is not None and row.free <= 0
        *cells, free, held = row.cells()
        table.add_row(*map(Text, cells), Text(free, "red" if full else ""), Text(held))
    return table


# ------------------------------------------------------------------------------------------ drain


@command.command("drain", help=_DRAIN, short_help="List pods that switching off would let loose.")
@_namespace
@_everywhere
@_output
@cluster_options
def drain(*, cluster: Cluster, namespace: str, all_namespaces: bool, output: str) -> None:
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
        put(wide_console(), _pods_table(found))
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


def _pods_table(found: list[dict[str, Any]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("NAMESPACE", "POD", "STATE", "ASKS FOR", "GATES"):
        table.add_column(name, overflow="fold")
    for each in found:
        asks = ",".join(f"{name}={amount}" for name, amount in each["requests"].items())
        cells = (each["namespace"], each["pod"], each["state"], asks, ",".join(each["gates"]))
        table.add_row(*map(Text, cells))
    return table


# ---------------------------------------------------------------------------------------- migrate


@command.command("migrate", help=_MIGRATE, short_help="Move limits into a built-in quota.")
@_namespace
@click.option("--name", metavar="NAME", help="Of the quota.  [default: NAMESPACE-deferred]")
@click.option("--to", metavar="NAME", help="Of the new quota.  [default: NAMESPACE-compute]")
@click.option("--back", is_flag=True, help="From a built-in quota to deferred keys.")
@click.option(
    "--dry-run", is_flag=True, help="Print the new quota and the way back; write nothing."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@cluster_options
def migrate(
    *,
    cluster: Cluster,
    namespace: str,
    name: str | None,
    to: str | None,
    back: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Move limits."""
    from scheduler.cli.quota_limits import LimitError, to_deferred, to_native

    names = (f"{namespace}-deferred", f"{namespace}-compute")
    old_name = name or names[back]
    new_name = to or names[not back]
    if old_name == new_name:
        raise click.UsageError(f"the new quota cannot have the name of the old one, {old_name}")
    old = cluster.run(lambda objects: objects.get(QUOTAS, namespace, old_name))
    if old is None:
        raise click.ClickException(f"there is no resourcequota {old_name} in {namespace} (--name)")
    try:
        new = to_deferred(old, new_name) if back else to_native(old, new_name)
    except LimitError as error:
        raise click.ClickException(f"{old_name} cannot be moved: {error}") from error
    _print_manifest(new, "yaml")
    click.echo(f"\nThis quota replaces {old_name}. The way back:", err=True)
    way = "" if back else " --back"
    click.echo(
        f"  kubestow quota migrate -n {namespace}{way} --name {new_name} --to {old_name}", err=True
    )
    if not back:
        click.echo(
            "On an API server without KEP-5465 gated pods are then charged at creation, and "
            "refused over the limit;\nset quotaMode: Native for the scheduler when it has it.",
            err=True,
        )
    if dry_run:
        return
    if not yes:
        click.confirm(f"Replace {old_name} by {new_name}?", abort=True, err=True)
    cluster.run(lambda objects: _replace(objects, namespace, old, new))
    click.echo(f"resourcequota/{new_name} created, {old_name} deleted", err=True)


async def _replace(objects: Objects, namespace: str, old: JsonObject, new: JsonObject) -> None:
    """Create the new quota, then delete the old one: two limits are safer than none."""
    await objects.create(QUOTAS, namespace, new)
    await objects.delete(QUOTAS, namespace, old)
