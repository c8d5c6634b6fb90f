"""`kubestow check`: compare what a configuration needs with what a cluster has and allows."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.cluster import SelectedCluster, cluster_options
from scheduler.cli.config import add_reading_options, reading_options
from scheduler.cli.modes import ModalCommand
from scheduler.cli.permissions import needed_permissions, service_account
from scheduler.cli.pod_format import one_line
from scheduler.cli.reporting import EXIT_FAILED
from scheduler.cli.tables import FOLDED, WHOLE, Cell, listing, put, wide_console
from scheduler.sanitizing.redaction import shown_url

if TYPE_CHECKING:
    from scheduler.cli.account_faults import Fault
    from scheduler.client.access_reviews import Access
    from scheduler.client.rest import ApiClient
    from scheduler.framework import Permission
    from scheduler.permissions.rbac import Account

EXIT_DEGRADED: Final = 3
"""Only optional permissions are missing."""

ADVICE: Final = {
    ("missing", "off"): "Add to the rules of {where}:",
    ("on-demand",): "Only if your pods need it, add to the rules of {where}:",
}
"""Words before the rules to add, by the states that these are for."""

VERDICTS: Final = {
    0: "Nothing is missing at {server}.",
    EXIT_FAILED: "Something required is missing at {server} (exit code 1).",
    EXIT_DEGRADED: "Only optional permissions are missing at {server} (exit code 3).",
}
"""The first line, by exit code."""

NOT_INSTALLED: Final = (
    "Not installed yet at {server}: there is no namespace {namespace} (exit code 1)."
)
"""The first line where nothing else that is required is missing."""

STYLES: Final = {
    "missing": "red",
    "off": "yellow",
    "on-demand": "dim",
    "absent": "yellow",
    "ok": "green",
}
"""The states in the order in which they are listed."""

Review = Callable[["ApiClient", "Access"], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Finding:
    """One needed permission as the cluster has it."""

    permission: Permission
    #: The verbs that are not allowed.
    denied: tuple[str, ...]
    #: Whether the API server lacks the resource.
    absent: bool
    #: Whether there is no such namespace.
    nowhere: bool = False

    @property
    def state(self) -> str:
        """Return one of the states that the help of the command describes."""
        if self.absent:
            return "absent"
        if not self.denied and not self.nowhere:
            return "ok"
        if self.permission.required:
            return "missing"
        return "on-demand" if self.permission.on_demand else "off"

    @property
    def consequence(self) -> str:
        """Return what follows for the scheduler; empty if nothing does."""
        if self.nowhere:
            return f"there is no namespace {self.permission.namespace}"
        match self.state:
            case "absent":
                return "the API server has no such resource, which counts as an empty list"
            case "missing":
                return f"nothing can be scheduled without {', '.join(self.denied)}"
            case "on-demand":
                return f"where pods need it, {self.permission.without}"
            case "off":
                return f"without {', '.join(self.denied)}, {self.permission.without}"
        return ""


@click.command("check", cls=ModalCommand, short_help="Check what kubestow may do in a cluster.")
@click.argument("file", required=False, type=click.Path(dir_okay=False))
@click.option(
    "--service-account",
    "named",
    metavar="NAMESPACE/NAME",
    help="Check the permissions of this account instead of those of the kubeconfig's user.",
)
@click.option("--verbose", "-v", is_flag=True, help="List what is not missing, too.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
)
@add_reading_options
@cluster_options
def command(
    file: str | None,
    named: str | None,
    verbose: bool,
    output: str,
    cluster: SelectedCluster,
    **values: Any,
) -> None:
    """Show what FILE needs of the cluster's API and permissions, and what is missing.

    Without FILE: the defaults. STATE is ok, missing (nothing can be scheduled), off (one feature
    is off), on-demand (missing, and needed by some pods only) or absent (the API server has no such
    resource, so there are no objects). Permission to create the Lease is needed only while there is
    none. The verdict comes first, then what is not ok; -v lists all. The rules to add follow, and
    who leads in the cluster, and why replicas there do not run. If an account may do almost
    nothing, the command says instead what is absent, such as the account or its binding, and what
    creates it. To review another account you may create subjectaccessreviews, as administrators
    may. Nothing in the cluster changes.

    Exit code 0: nothing is missing. 1: something required is, or the cluster does not answer.
    2: wrong usage. 3: only optional permissions are missing.

    \b
    Examples:
      kubestow check --service-account kubestow-system/kubestow
      kubestow check profile.yaml -o json
    """  # noqa: D301 - click wants the character itself
    account = service_account(named) if named is not None else None
    review = _reviewer(account)
    needed = needed_permissions(reading_options(file or "", **values))

    async def work(client: ApiClient) -> tuple[list[Finding], list[Fault], list[str], str]:
        from scheduler.cli.account_faults import OWN, Fault, causes, own_account
        from scheduler.cli.hints import for_administrator
        from scheduler.cli.installation import look

        findings = await find(client, needed, review)
        if output == "json":
            return findings, [], [], ""
        if account is not None:
            faults = await causes(client, account, findings, file or "")
        else:
            with for_administrator():
                faults = await causes(client, await own_account(client), findings, file or "")
            if any(each.instead_of for each in faults):
                faults.insert(0, Fault(OWN))
        server = client.transport.configuration.server
        return findings, faults, await look(client, needed), server

    findings, faults, installed, server = cluster.run(work)
    states = {each.state for each in findings}
    code = EXIT_FAILED if "missing" in states else EXIT_DEGRADED if "off" in states else 0
    if output == "json":
        click.echo(json.dumps([_as_data(each) for each in findings], indent=2))
    else:
        click.echo(_verdict(findings, code, one_line(shown_url(server))))
        _print(findings, faults, verbose=verbose)
        if installed:
            click.echo("\n" + "\n".join(installed))
    raise SystemExit(code)


async def find(client: ApiClient, needed: Sequence[Permission], review: Review) -> list[Finding]:
    """Look up each needed permission for a resource."""
    from scheduler.cli.account_faults import exists
    from scheduler.client.resources import LEASES, NAMESPACES
    from scheduler.permissions.reviewer import absent_resources, drop_needless_creation
    from scheduler.permissions.state import accesses

    absent = await absent_resources(client, needed)
    denied: dict[Permission, tuple[str, ...]] = {}
    for each in needed:
        verbs = [a.verb for a in accesses(each) if not await review(client, a)]
        if verbs:
            denied[each] = tuple(dict.fromkeys(verbs))
    await drop_needless_creation(client, denied, needed)
    namespaces = {each.namespace for each in needed if each.resource == LEASES.plural}
    lost = [each for each in namespaces if await exists(client, NAMESPACES, each) is False]
    return [
        Finding(each, denied.get(each, ()), each in absent, each.namespace in lost)
        for each in needed
        if each.resource
    ]


def _reviewer(account: Account | None) -> Review:
    from scheduler.client.access_reviews import review_access_of, review_own_access

    if account is None:
        return review_own_access
    namespace, name = account
    user = f"system:serviceaccount:{namespace}:{name}"
    groups = (
        "system:serviceaccounts",
        f"system:serviceaccounts:{namespace}",
        "system:authenticated",
    )

    async def review(client: ApiClient, access: Access) -> bool:
        return await review_access_of(client, access, user=user, groups=groups)

    return review


def _verdict(findings: Sequence[Finding], code: int, server: str) -> str:
    missing = [each for each in findings if each.state == "missing"]
    if missing and all(each.nowhere and not each.denied for each in missing):
        return NOT_INSTALLED.format(server=server, namespace=missing[0].permission.namespace)
    return VERDICTS[code].format(server=server)


def _print(findings: Sequence[Finding], faults: Sequence[Fault], *, verbose: bool) -> None:
    from scheduler.permissions.rbac import missing_rules

    ordered = sorted(findings, key=lambda each: list(STYLES).index(each.state))
    explained: frozenset[str] = frozenset().union(*(each.instead_of for each in faults))
    shown = [
        each
        for each in ordered
        if verbose or (each.state != "ok" and each.permission.namespace not in explained)
    ]
    passed = sum(each.state == "ok" for each in findings)
    listed = "" if verbose else "; -v lists them"
    click.echo(f"{passed} of {len(findings)} checks passed{listed}.")
    for each in faults:
        click.echo(f"\n{each.text}")
    columns = {"RESOURCE": WHOLE, "VERBS": WHOLE, "STATE": WHOLE, "CONSEQUENCE": FOLDED}
    rows: list[list[Cell]] = [
        [
            each.permission.qualified,
            ",".join(each.permission.verbs),
            (each.state, STYLES[each.state]),
            each.consequence,
        ]
        for each in shown
    ]
    if rows:
        click.echo()
        put(wide_console(), listing(columns, rows))
    for states, words in ADVICE.items():
        denied = [
            each
            for each in findings
            if each.state in states and each.denied and each.permission.namespace not in explained
        ]
        for namespace in dict.fromkeys(each.permission.namespace for each in denied):
            where = f"the Role in {namespace}" if namespace else "the ClusterRole"
            rules = [
                (each.permission, each.denied)
                for each in denied
                if each.permission.namespace == namespace
            ]
            click.echo(f"\n{words.format(where=where)}\n{missing_rules(rules)}")


def _as_data(finding: Finding) -> dict[str, Any]:
    permission = finding.permission
    return {
        "resource": permission.qualified,
        "namespace": permission.namespace,
        "verbs": list(permission.verbs),
        "purpose": permission.purpose,
        "required": permission.required,
        "state": finding.state,
        "denied": list(finding.denied),
        "consequence": finding.consequence,
    }
