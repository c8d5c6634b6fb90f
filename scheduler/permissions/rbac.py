"""Permissions as RBAC rules: roles and bindings as YAML, and single rules for the log. Pure.

Resources that the same parts need with the same verbs share a rule. A rule is written in YAML's
flow style, on one line, so that a line of the log can be pasted under `rules:`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

from scheduler.client import client_authorities
from scheduler.framework import Permission

GROUP: Final = "rbac.authorization.k8s.io"
READER: Final = "extension-apiserver-authentication-reader"
"""The Role in kube-system, of every cluster, that leads to the authorities of client certificates.
It is bound, so no Role of our own is needed there."""
READER_SUFFIX: Final = "-authentication-reader"
"""Ends the name of the RoleBinding to it."""

Account = tuple[str, str]
"""Namespace and name of a ServiceAccount."""
INSTALLED: Final[Account] = "kubestow-system", "kubestow"
"""The account of the chart and of the manifests, whose roles and bindings are named kubestow."""

_PLAIN: Final = re.compile(r"[a-zA-Z/][a-zA-Z0-9./_-]*")
_NOT_TEXT: Final = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})


def rule(permission: Permission, verbs: Iterable[str] = ()) -> str:
    """Return the rule that grants `verbs` of a permission, by default all, in flow style.

    >>> rule(Permission(resource="pods/binding", verbs=("create",), purpose="x"))
    'apiGroups: [""], resources: [pods/binding], verbs: [create]'
    """
    return _rule([permission], tuple(verbs) or permission.verbs)


def name_for(account: Account | None) -> str:
    """Return a name of roles that is only theirs: applying them takes nothing from others.

    >>> name_for(("kubestow-system", "kubestow")), name_for(("outside", "sched"))
    ('kubestow', 'kubestow-outside-sched')
    """
    if account is None or account == INSTALLED:
        return "kubestow"
    return "-".join(("kubestow", *account))


def missing_rules(missing: Iterable[tuple[Permission, Iterable[str]]]) -> str:
    """Return what to add under `rules:`, each as an item in flow style on one line.

    >>> missing_rules([(Permission(resource="pods", verbs=("list",), purpose="x"), ())])
    '- {apiGroups: [""], resources: [pods], verbs: [list]}'
    """
    return "\n".join(f"- {{{rule(permission, verbs)}}}" for permission, verbs in missing)


def of_reader(permission: Permission) -> bool:
    """Whether the Role `READER` grants a permission."""
    place = (permission.resource, permission.namespace, tuple(permission.names))
    return place == ("configmaps", client_authorities.NAMESPACE, (client_authorities.NAME,))


def roles(
    permissions: Iterable[Permission],
    name: str,
    *,
    suffix: str = "-leader-election",
    account: Account | None = None,
) -> str:
    """Return a ClusterRole and, for each namespace, a Role, as YAML with comments.

    The name of the Role with the Lease ends with `suffix`. What `READER` grants has no Role. With
    an account there is a binding for each role, and one for `READER` if that is needed.
    """
    needed = tuple(permissions)
    by_namespace: dict[str, list[Permission]] = {"": []}
    for each in needed:
        if not of_reader(each):
            by_namespace.setdefault(each.namespace, []).append(each)
    documents = []
    for namespace, those in by_namespace.items():
        with_lease = any(each.resource == "leases" for each in those)
        role = name + (suffix if namespace and with_lease else "")
        documents.append(_role(role, namespace, those))
        if account is not None:
            documents.append(_binding(role, namespace, role, account))
    if account is not None and any(map(of_reader, needed)):
        binding = name + READER_SUFFIX
        documents.append(_binding(binding, client_authorities.NAMESPACE, READER, account))
    return "---\n".join(documents)


def _binding(name: str, namespace: str, role: str, account: Account) -> str:
    kind = "Role" if namespace else "ClusterRole"
    lines = [
        *_head(f"{kind}Binding", name, namespace),
        "roleRef:",
        f"  apiGroup: {GROUP}",
        f"  kind: {kind}",
        f"  name: {_scalar(role)}",
        "subjects:",
        "  - kind: ServiceAccount",
        f"    name: {_scalar(account[1])}",
        f"    namespace: {_scalar(account[0])}",
    ]
    return "\n".join(lines) + "\n"


def _head(kind: str, name: str, namespace: str) -> list[str]:
    lines = [f"apiVersion: {GROUP}/v1", f"kind: {kind}", "metadata:", f"  name: {_scalar(name)}"]
    return [*lines, f"  namespace: {_scalar(namespace)}"] if namespace else lines


def _role(name: str, namespace: str, permissions: Iterable[Permission]) -> str:
    lines = _head("Role" if namespace else "ClusterRole", name, namespace)
    lines.append("rules:")
    for same in _alike(permissions):
        first = same[0]
        lines.append(f"  # {_on_one_line(first.purpose)}.")
        if not first.required:
            lines.append(f"  # Optional; without it {_on_one_line(first.without)}.")
        key, *others = _rule(same, first.verbs).split("], ")
        lines.append(f"  - {key}]")
        lines += [f"    {each.removesuffix(']')}]" for each in others]
    return "\n".join(lines) + "\n"


def _alike(permissions: Iterable[Permission]) -> Iterable[list[Permission]]:
    """Group permissions that differ in their resource only."""
    groups: dict[tuple[object, ...], list[Permission]] = {}
    for each in permissions:
        key = (each.group, each.verbs, each.purpose, each.without, each.names, each.urls)
        groups.setdefault(key, []).append(each)
    return groups.values()


def _rule(permissions: list[Permission], verbs: tuple[str, ...]) -> str:
    first = permissions[0]
    if first.urls:
        return f"nonResourceURLs: {_flow(first.urls)}, verbs: {_flow(verbs)}"
    parts = [
        f"apiGroups: {_flow([first.group])}",
        f"resources: {_flow(each.resource for each in permissions)}",
    ]
    if first.names:
        parts.append(f"resourceNames: {_flow(first.names)}")
    return ", ".join([*parts, f"verbs: {_flow(verbs)}"])


def _flow(words: Iterable[str]) -> str:
    return "[" + ", ".join(map(_scalar, words)) + "]"


def _scalar(word: str) -> str:
    """Return a text as YAML: quoted where it would not be read as that text (`1`, `true`, ``)."""
    plain = _PLAIN.fullmatch(word) is not None and word.lower() not in _NOT_TEXT
    return word if plain else json.dumps(word)


def _on_one_line(text: str) -> str:
    """Return a text of a plugin as it can stand in a comment."""
    return " ".join(text.split())
