"""Permissions as RBAC rules: a ClusterRole and a Role as YAML, and single rules for the log. Pure.

Resources that the same parts need with the same verbs share a rule. A rule is written in YAML's
flow style, on one line, so that a line of the log can be pasted under `rules:`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

from scheduler.framework import Permission

API_VERSION: Final = "rbac.authorization.k8s.io/v1"
READER_SUFFIX: Final = "-authentication-reader"
"""Of a Role that leads to the authorities of client certificates; every cluster has a like one of
its own, extension-apiserver-authentication-reader."""

_PLAIN: Final = re.compile(r"[a-zA-Z/][a-zA-Z0-9./_-]*")
_NOT_TEXT: Final = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})


def rule(permission: Permission, verbs: Iterable[str] = ()) -> str:
    """Return the rule that grants `verbs` of a permission, by default all, in flow style.

    >>> rule(Permission(resource="pods/binding", verbs=("create",), purpose="x"))
    'apiGroups: [""], resources: [pods/binding], verbs: [create]'
    """
    return _rule([permission], tuple(verbs) or permission.verbs)


def missing_rules(missing: Iterable[tuple[Permission, Iterable[str]]]) -> str:
    """Return what to add under `rules:`, each as an item in flow style on one line.

    >>> missing_rules([(Permission(resource="pods", verbs=("list",), purpose="x"), ())])
    '- {apiGroups: [""], resources: [pods], verbs: [list]}'
    """
    return "\n".join(f"- {{{rule(permission, verbs)}}}" for permission, verbs in missing)


def roles(permissions: Iterable[Permission], name: str, *, suffix: str = "-leader-election") -> str:
    """Return a ClusterRole and, for each namespace, a Role, as YAML with comments.

    The name of a Role ends with `suffix`, but that of one without Leases with `READER_SUFFIX`.
    """
    by_namespace: dict[str, list[Permission]] = {"": []}
    for each in permissions:
        by_namespace.setdefault(each.namespace, []).append(each)
    return "---\n".join(
        _role(name + (_suffix(needed, suffix) if namespace else ""), namespace, needed)
        for namespace, needed in by_namespace.items()
    )


def _suffix(permissions: Iterable[Permission], suffix: str) -> str:
    return suffix if any(each.resource == "leases" for each in permissions) else READER_SUFFIX


def _role(name: str, namespace: str, permissions: Iterable[Permission]) -> str:
    kind = "Role" if namespace else "ClusterRole"
    lines = [f"apiVersion: {API_VERSION}", f"kind: {kind}", "metadata:"]
    lines.append(f"  name: {_scalar(name)}")
    if namespace:
        lines.append(f"  namespace: {_scalar(namespace)}")
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
