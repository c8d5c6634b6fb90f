"""The part of `kubestow check` about an account that may do almost nothing: why, and what helps.

Rules to add are no help if there is no such account, or if no binding gives it a role. Account and
bindings are read with the rights of the user who asks, in pages and up to a limit; the command that
helps is the same without these rights. Names of roles and bindings may have almost any characters,
so they are escaped.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import msgspec

from scheduler.api.meta import Named, Object, ObjectMeta
from scheduler.cli.hints import helm, kubectl, kubestow_run
from scheduler.cli.pod_format import one_line
from scheduler.client.errors import ApiError, RequestError
from scheduler.client.resources import NAMESPACES, Resource
from scheduler.explain.records.wording import shortened
from scheduler.permissions.rbac import GROUP, READER, READER_SUFFIX, name_for, of_reader

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

NO_NAMESPACE: Final = (
    "There is no namespace {namespace}, where `kubestow run` keeps its Lease. Helm and `kubectl "
    "apply -k` create it; without them:\n  {kubectl} create namespace {namespace}\n"
    "A single process needs no Lease: {run} --leader-elect=false"
)
NO_ACCOUNT: Final = "There is no ServiceAccount {account}."
NEAR_ACCOUNT: Final = "There is no ServiceAccount {account}; did you mean {near}?"
NEAR_NAMESPACE: Final = "There is no namespace {namespace}; did you mean {near}?"
UNBOUND: Final = "No {kind}Binding{place} gives {role} to {account}."
LOST: Final = "{kind}Binding {binding}{place} gives {account} the {role}, which does not exist."
UNREAD: Final = "{account} may do almost nothing of this, and bindings were not read: {reason}."
MAY_NOT: Final = "your user may not"
TOO_MANY: Final = "there are too many"
USER: Final = "The user {user} may do almost nothing of this. An administrator grants it with"
OWN: Final = (
    "This is about running a scheduler as the user of your kubeconfig. Who only asks one needs "
    "none of it:\n"
    "see docs/asking-the-scheduler.md. An installation is checked by an administrator with\n"
    "  kubestow check --service-account kubestow-system/kubestow"
)
BY_HELM: Final = (
    "Put it back with\n"
    "  {helm} -n {namespace} upgrade {release} charts/kubestow --reset-then-reuse-values"
)
BY_KUSTOMIZE: Final = (
    "Put it back with\n  {kubectl} apply -k manifests\nor the folder of your overlay."
)
CREATES: Final = "An administrator creates what is missing with\n  {commands}"


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
    """A cause in words, with the commands that help."""

    text: str
    #: Namespaces for which no rules need to be added then; "" is the ClusterRole.
    instead_of: frozenset[str] = frozenset()


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


async def own_account(client: ApiClient) -> Account | str:
    """Return the ServiceAccount whose credentials these are, or the name of another user.

    The name is empty if the API server does not say it.
    """
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        path = f"/apis/{kind['apiVersion']}/selfsubjectreviews"
        response = await client.request("POST", path, body=kind)
        name = str(json.loads(response.body)["status"]["userInfo"]["username"])
    except (RequestError, ValueError, LookupError, TypeError):
        return ""
    match name.split(":"):
        case ["system", "serviceaccount", namespace, account]:
            return namespace, account
    return name


async def causes(
    client: ApiClient, who: Account | str, findings: Sequence[Finding], file: str = ""
) -> list[Fault]:
    """Return why there is no place for the Lease, and why the account may do almost nothing.

    `who` is a ServiceAccount or the name of a user, `file` the configuration, for the commands to
    run.
    """
    lost = dict.fromkeys(each.permission.namespace for each in findings if each.nowhere)
    found = [
        Fault(NO_NAMESPACE.format(namespace=each, kubectl=kubectl(), run=kubestow_run()))
        for each in lost
    ]
    scopes = bare_scopes(findings)
    account = await _account_fault(client, who, scopes, findings, file) if scopes else None
    return found if account is None else [*found, account]


async def _account_fault(
    client: ApiClient,
    who: Account | str,
    scopes: Sequence[str],
    findings: Sequence[Finding],
    file: str,
) -> Fault | None:
    """Return why the account may do almost nothing in these scopes; None if rules may lack."""
    if isinstance(who, str):
        text = _of_user(who, scopes, findings, file)
        return Fault(text, frozenset(scopes)) if who else None
    search = _Search(client, who)
    if text := await search.no_account():
        explained = frozenset(scopes)
    else:
        texts = {each: await search.cause(each, _is_reader(each, findings)) for each in scopes}
        explained = frozenset(scope for scope, text in texts.items() if text)
        text = "\n".join(dict.fromkeys(filter(None, texts.values())))
    return Fault(f"{text}\n{await search.remedy(file)}".strip(), explained) if text else None


def _is_reader(namespace: str, findings: Sequence[Finding]) -> bool:
    """Whether nothing but what the Role `READER` grants is needed in a namespace."""
    return all(
        of_reader(each.permission) for each in findings if each.permission.namespace == namespace
    )


def _of_user(user: str, scopes: Sequence[str], findings: Sequence[Finding], file: str) -> str:
    """Return what a user lacks who is no ServiceAccount, for which roles can be bound."""
    lines = [USER.format(user=_shown(user)), f"  {_printing(file)}"]
    named = f"--user={_shown(shlex.quote(user))}"
    for each in scopes:
        role = READER if _is_reader(each, findings) else DEFAULT_NAME + LEASE_SUFFIX
        lines.append(
            f"  {kubectl()} -n {each} create rolebinding {DEFAULT_NAME}-user --role={role} {named}"
            if each
            else f"  {kubectl()} create clusterrolebinding {DEFAULT_NAME}-user "
            f"--clusterrole={DEFAULT_NAME} {named}"
        )
    return "\n".join(lines)


async def exists(
    client: ApiClient, resource: Resource[Any], name: str, namespace: str = ""
) -> bool | None:
    """Whether there is such an object; None if that may not be known."""
    try:
        await client.get(resource, name, namespace)
    except ApiError as error:
        return False if error.status == 404 else None
    except (RequestError, ValueError):
        return None
    return True


class _Search:
    """Looks for what keeps a ServiceAccount from its permissions."""

    def __init__(self, client: ApiClient, account: Account) -> None:
        self._client = client
        self._account = account
        self._shown = "/".join(account)
        #: Of the roles and bindings that `remedy` creates.
        self._name = name_for(account)
        self._is_misspelt = False
        self._commands: list[str] = []

    async def no_account(self) -> str:
        """Return that there is no such account; empty if there is, or if it may not be read."""
        namespace, name = self._account
        if await exists(self._client, _ACCOUNTS, name, namespace) is not False:
            return ""
        if await exists(self._client, NAMESPACES, namespace) is False:
            if near := await self._near(NAMESPACES, namespace):
                return NEAR_NAMESPACE.format(namespace=namespace, near=near)
            self._commands.append(f"{kubectl()} create namespace {namespace}")
        self._commands.append(f"{kubectl()} -n {namespace} create serviceaccount {name}")
        if near := await self._near(_ACCOUNTS, name, namespace):
            return NEAR_ACCOUNT.format(account=self._shown, near=near)
        return NO_ACCOUNT.format(account=self._shown)

    async def _near(self, resource: Resource[Any], name: str, namespace: str = "") -> str:
        """Return the similar name that is likely to be meant; empty if there is none."""
        try:
            page = await self._client.list_page(resource, namespace)
            known = [resource.decode(each).metadata.name for each in page.items or ()]
        except (RequestError, ValueError):
            return ""
        near = get_close_matches(name, known, 1)
        self._is_misspelt = bool(near)
        return _shown(near[0]) if near else ""

    async def cause(self, namespace: str, reader: bool) -> str:
        """Return why roles do not apply there ("": the cluster); empty if rules may lack.

        With `reader` the Role of that name is needed alone.
        """
        bindings, unread = await self._bindings(namespace)
        ours = [each for each in bindings if self._gives(each, reader)]
        kind = "Role" if namespace else "ClusterRole"
        about = {
            "kind": kind,
            "place": f" in {namespace}" if namespace else "",
            "account": self._shown,
        }
        for each in () if reader else ours[:MAX_LOST]:
            given = each.role_ref
            roles = _ROLES if given.kind == "Role" else _CLUSTER_ROLES
            if await exists(self._client, roles, given.name, namespace) is False:
                self._name = given.name.removesuffix(LEASE_SUFFIX)
                binding, role = _shown(each.metadata.name), _shown(f"{given.kind} {given.name}")
                return LOST.format(**about, binding=binding, role=role)
        if ours:
            return ""
        if unread:
            return UNREAD.format(**about, reason=unread)
        names = {DEFAULT_NAME + each for each in ("", LEASE_SUFFIX, READER_SUFFIX)}
        if self._name == DEFAULT_NAME and names & {each.metadata.name for each in bindings}:
            # Of another account, which the command would take it from.
            self._name = f"{DEFAULT_NAME}-{'-'.join(self._account)}"
        return UNBOUND.format(**about, role=f"the Role {READER}" if reader else f"a {kind}")

    async def remedy(self, file: str) -> str:
        """Return the command that puts back what was installed, or those that create it.

        Empty where another account is likely to be meant.
        """
        if self._is_misspelt:
            return ""
        namespace, name = self._account
        query = {"labelSelector": f"app.kubernetes.io/name={DEFAULT_NAME}", "limit": "10"}
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        try:
            response = await self._client.request("GET", path, query=query)
            deployments = json.loads(response.body)["items"] or ()
        except (RequestError, ValueError, LookupError, TypeError):
            deployments = ()
        for each in deployments:
            labels = each["metadata"].get("labels") or {}
            if each["spec"]["template"]["spec"].get("serviceAccountName") != name:
                continue
            if labels.get("app.kubernetes.io/managed-by") != "Helm":
                return BY_KUSTOMIZE.format(kubectl=kubectl())
            release = _shown(shlex.quote(labels.get("app.kubernetes.io/instance", name)))
            return BY_HELM.format(helm=helm(), namespace=namespace, release=release)
        named = "" if self._name == name_for(self._account) else self._name
        commands = [*self._commands, _printing(file, named, self._shown)]
        return CREATES.format(commands="\n  ".join(commands))

    async def _bindings(self, namespace: str) -> tuple[list[_Binding], str]:
        """Return the bindings, and why some of them may lack."""
        bound = _BINDINGS if namespace else _CLUSTER_BINDINGS
        found: list[_Binding] = []
        token = ""
        try:
            for _ in range(MAX_PAGES):
                page = await self._client.list_page(bound, namespace, continue_token=token)
                found += [bound.decode(each) for each in page.items or ()]
                token = page.metadata.continue_token
                if not token:
                    return found, ""
        except (RequestError, ValueError):
            return found, MAY_NOT
        return found, TOO_MANY

    def _gives(self, binding: _Binding, reader: bool) -> bool:
        """Whether it gives the account, or all accounts of its namespace, a role."""
        namespace, name = self._account
        if reader and binding.role_ref.name != READER:
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


def _printing(file: str, name: str = "", account: str = "") -> str:
    """Return the command that creates roles, of the usual name or this, and their bindings."""
    words = ["kubestow", "config", "rbac", *([file] if file else [])]
    if name:
        words += ["--name", name]
    if account:
        words += ["--service-account", account]
    return f"{_shown(shlex.join(words), MAX_TEXT * 4)} | {kubectl()} apply -f -"


def _shown(text: str, limit: int = MAX_TEXT) -> str:
    return one_line(shortened(text, limit))
