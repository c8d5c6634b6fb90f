"""The part of `kubestow check` about a ServiceAccount that may do almost nothing: why.

Rules to add are no help if there is no such account, or if no binding gives it a role. Account and
bindings are read with the rights of the user who asks, in pages and up to a limit; without these
rights the likely causes are said. Names of roles and bindings may have almost any characters, so
they are escaped.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import msgspec

from scheduler.api.meta import Named, Object, ObjectMeta
from scheduler.cli.pod_format import one_line
from scheduler.client.errors import ApiError, RequestError
from scheduler.client.resources import Resource
from scheduler.explain.records.wording import shortened
from scheduler.permissions.rbac import GROUP, READER, READER_SUFFIX, of_reader

if TYPE_CHECKING:
    from scheduler.cli.check import Finding
    from scheduler.client.rest import ApiClient
    from scheduler.permissions.rbac import Account

MAX_PAGES: Final = 10
"""Pages of bindings, of at most 500 each. Large clusters have some thousands."""
MAX_TEXT: Final = 253
MAX_LOST: Final = 5

DEFAULT_NAME: Final = "kubestow"
LEASE_SUFFIX: Final = "-leader-election"

AGAIN: Final = "`helm upgrade` or `kubectl apply -k`, whichever installed kubestow, puts it back."
NO_ACCOUNT: Final = "There is no ServiceAccount {account}."
NEAR_ACCOUNT: Final = "There is no ServiceAccount {account}; did you mean {near}?"
UNBOUND: Final = (
    "No {kind}Binding{place} gives a {kind} to {account}{no_role}:\n  {command}\n{again}"
)
NO_ROLE: Final = ", and there is no {kind} {role}"
LOST: Final = (
    "{kind}Binding {binding}{place} gives {account} the {target} {role}, which does not exist:\n"
    "  {command}\n{again}"
)
UNREAD: Final = (
    "Almost everything{place} is missing. Maybe there is no ServiceAccount {account}, or no "
    "{kind}Binding{place} gives it a {kind}: {reason}. Look for it in the output of\n  {command}"
)
MAY_NOT: Final = "your user may not read these"
TOO_MANY: Final = "there are too many to read them all"


class _Subject(Object):
    kind: str = ""
    name: str = ""
    namespace: str = ""


class _RoleRef(Object):
    kind: str = ""
    name: str = ""


class _Binding(Object):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    role_ref: _RoleRef = msgspec.field(default_factory=_RoleRef)
    subjects: tuple[_Subject, ...] = ()


_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", Named, kind="ServiceAccount")
_ROLES: Final = Resource(GROUP, "v1", "roles", Named, kind="Role")
_CLUSTER_ROLES: Final = Resource(
    GROUP, "v1", "clusterroles", Named, kind="ClusterRole", namespaced=False
)
_BINDINGS: Final = Resource(GROUP, "v1", "rolebindings", _Binding, kind="RoleBinding")
_CLUSTER_BINDINGS: Final = Resource(
    GROUP, "v1", "clusterrolebindings", _Binding, kind="ClusterRoleBinding", namespaced=False
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One cause, in words."""

    text: str
    #: Namespaces for which no rules need to be added then; "" is the ClusterRole.
    instead_of: frozenset[str] = frozenset()
    #: The bindings could not be read.
    guessed: bool = False


def bare_scopes(findings: Sequence[Finding]) -> list[str]:
    """Return the namespaces ("": the cluster) in which half of what is needed, or more, is denied.

    Half, since one of the two permissions for the Lease, to create it, is often not needed.
    """
    found = []
    reviewed = [each for each in findings if not (each.absent or each.permission.on_demand)]
    for namespace in dict.fromkeys(each.permission.namespace for each in reviewed):
        those = [each for each in reviewed if each.permission.namespace == namespace]
        if 2 * sum(bool(each.denied) for each in those) >= len(those):
            found.append(namespace)
    return found


async def faults(
    client: ApiClient, account: Account, findings: Sequence[Finding], file: str = ""
) -> list[Fault]:
    """Return why the account may do almost nothing; empty if that is not so, or for its rules.

    `file` is the configuration, for the commands to run.
    """
    scopes = bare_scopes(findings)
    if not scopes:
        return []
    if text := await _no_account(client, account):
        return [Fault(text, frozenset(scopes))]
    found = []
    for namespace in scopes:
        needed = [each.permission for each in findings if each.permission.namespace == namespace]
        scope = _Scope(client, account, namespace, file, all(map(of_reader, needed)))
        fault = await scope.fault()
        if fault is None:
            continue
        found.append(fault)
        if fault.guessed:
            # The same would be said of each namespace.
            break
    return found


async def _no_account(client: ApiClient, account: Account) -> str:
    """Return that there is no such account; empty if there is, or if it may not be read."""
    namespace, name = account
    if await _exists(client, _ACCOUNTS, name, namespace) is not False:
        return ""
    try:
        page = await client.list_page(_ACCOUNTS, namespace)
        known = [_ACCOUNTS.decode(each).metadata.name for each in page.items or ()]
    except (RequestError, ValueError):
        known = []
    account_name = f"{namespace}/{name}"
    for near in get_close_matches(name, known, 1):
        return NEAR_ACCOUNT.format(account=account_name, near=_shown(near))
    return f"{NO_ACCOUNT.format(account=account_name)}\n{AGAIN}"


async def _exists(
    client: ApiClient, resource: Resource[Any], name: str, namespace: str
) -> bool | None:
    """Whether there is such an object; None if that may not be known."""
    try:
        await client.get(resource, name, namespace)
    except ApiError as error:
        return False if error.status == 404 else None
    except (RequestError, ValueError):
        return None
    return True


@dataclass(frozen=True, slots=True)
class _Scope:
    """The bindings of one namespace, or ("") of the cluster."""

    client: ApiClient
    account: Account
    namespace: str
    file: str
    #: Nothing but what the Role `READER` grants is needed here.
    reader: bool

    async def fault(self) -> Fault | None:
        """Return why the roles here do not apply to the account; None if their rules may lack."""
        bindings, unread = await self._bindings()
        ours = [each for each in bindings if self._gives(each)]
        if ours:
            return await self._lost(ours)
        if unread:
            option = f"-n {self.namespace} " if self.namespace else ""
            command = f"kubectl {option}get {self._bound.plural} -o wide"
            return Fault(
                UNREAD.format(**self._about(), reason=unread, command=command), guessed=True
            )
        return await self._unbound({each.metadata.name for each in bindings})

    @property
    def _kind(self) -> str:
        return "Role" if self.namespace else "ClusterRole"

    @property
    def _bound(self) -> Resource[_Binding]:
        return _BINDINGS if self.namespace else _CLUSTER_BINDINGS

    def _about(self) -> dict[str, str]:
        place = f" in {self.namespace}" if self.namespace else ""
        account = "/".join(self.account)
        return {"kind": self._kind, "place": place, "account": account, "again": AGAIN}

    async def _bindings(self) -> tuple[list[_Binding], str]:
        """Return the bindings, and why some of them may lack."""
        found: list[_Binding] = []
        token = ""
        try:
            for _ in range(MAX_PAGES):
                page = await self.client.list_page(
                    self._bound, self.namespace, continue_token=token
                )
                found += [self._bound.decode(each) for each in page.items or ()]
                token = page.metadata.continue_token
                if not token:
                    return found, ""
        except (RequestError, ValueError):
            return found, MAY_NOT
        return found, TOO_MANY

    def _gives(self, binding: _Binding) -> bool:
        """Whether it gives the account, or all accounts of its namespace, a role."""
        namespace, name = self.account
        if self.reader and binding.role_ref.name != READER:
            return False
        users = {
            ("User", f"system:serviceaccount:{namespace}:{name}"),
            ("Group", f"system:serviceaccounts:{namespace}"),
        }
        return any(
            (each.kind, each.name) in users
            or (each.kind, each.namespace, each.name) == ("ServiceAccount", namespace, name)
            for each in binding.subjects
        )

    async def _lost(self, ours: Sequence[_Binding]) -> Fault | None:
        """Return that a role that is given does not exist; None if all do."""
        if self.reader:
            return None
        looked = ours[:MAX_LOST]
        lost = [each for each in looked if await self._is_lost(each.role_ref)]
        if not lost:
            return None
        given = lost[0].role_ref
        text = LOST.format(
            **self._about(),
            binding=_shown(lost[0].metadata.name),
            target=_shown(given.kind),
            role=_shown(given.name),
            command=self._printing(given.name.removesuffix(LEASE_SUFFIX)),
        )
        # Rules may be added to a role that exists.
        return Fault(text, frozenset({self.namespace} if lost == looked else ()))

    async def _is_lost(self, given: _RoleRef) -> bool:
        roles = _ROLES if given.kind == "Role" else _CLUSTER_ROLES
        return await _exists(self.client, roles, given.name, self.namespace) is False

    async def _unbound(self, taken: set[str]) -> Fault:
        """Return that there is no binding; `taken` are the names of others."""
        suffix = LEASE_SUFFIX if self.namespace else ""
        role, exists = READER, True
        if not self.reader:
            names = dict.fromkeys((self.account[1], DEFAULT_NAME))
            for name in names:
                role = f"{name}{suffix}"
                exists = await self._has_role(role)
                if exists:
                    break
        binding = f"{self.account[1]}{READER_SUFFIX}" if self.reader else role
        if binding in taken:
            binding = f"{binding}-{self.account[0]}-{self.account[1]}"
        text = UNBOUND.format(
            **self._about(),
            no_role="" if exists else NO_ROLE.format(kind=self._kind, role=role),
            command=self._binding(binding, role)
            if exists
            else self._printing(role.removesuffix(suffix)),
        )
        return Fault(text, frozenset({self.namespace}))

    async def _has_role(self, role: str) -> bool:
        """Whether a role exists; True if that may not be known."""
        roles = _ROLES if self.namespace else _CLUSTER_ROLES
        return await _exists(self.client, roles, role, self.namespace) is not False

    def _binding(self, name: str, role: str) -> str:
        namespace, account = self.account
        if not self.namespace:
            return (
                f"kubectl create clusterrolebinding {name} --clusterrole={role} "
                f"--serviceaccount={namespace}:{account}"
            )
        return (
            f"kubectl -n {self.namespace} create rolebinding {name} --role={role} "
            f"--serviceaccount={namespace}:{account}"
        )

    def _printing(self, name: str) -> str:
        """Return the command that creates roles of this name, and their bindings."""
        words = ["kubestow", "config", "rbac", *([self.file] if self.file else [])]
        if name != DEFAULT_NAME:
            words += ["--name", name]
        words += ["--service-account", "/".join(self.account)]
        return f"{_shown(shlex.join(words), MAX_TEXT * 4)} | kubectl apply -f -"


def _shown(text: str, limit: int = MAX_TEXT) -> str:
    return one_line(shortened(text, limit))
