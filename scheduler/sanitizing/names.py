"""Syntax of Kubernetes names: qualified names (label keys, resource names) and label values.

Selectors and extended resource names are rejected or ignored by syntax alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_SUBDOMAIN: Final = re.compile(
    r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
)
# Possessive: it never looks back, and 100,000 values need no stack.
_VALUES: Final = re.compile(r"(?:(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?\n)*+")
_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_MAX_PREFIX: Final = 253
_MAX_LABEL: Final = 63
_MAX_VALUE: Final = 63
_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_NO_VALUE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
    f"'12345', regex used for validation is '{_VALUE.pattern}')"
)
"""The API server's text, double spaces included; it appears in a pod's condition."""


def label_value_faults(text: str) -> list[str]:
    """Return the API server's messages about an invalid label value; empty if it is valid.

    >>> label_value_faults("v1.2"), label_value_faults("x" * 64)
    ([], ['must be no more than 63 bytes'])
    """
    if is_label_value(text):
        return []
    faults = []
    if len(text.encode(errors="surrogatepass")) > _MAX_VALUE:
        faults.append(f"must be no more than {_MAX_VALUE} bytes")
    if text and _VALUE.fullmatch(text) is None:
        faults.append(_NO_VALUE)
    return faults


def is_label_value(text: str) -> bool:
    """Whether `text` may be the value of a label: empty, or at most 63 characters.

    >>> is_label_value(""), is_label_value("v1.2"), is_label_value("-5")
    (True, True, False)
    """
    return not text or _NAME.fullmatch(text) is not None


def are_label_values(texts: Sequence[str]) -> bool:
    """Whether each of `texts` may be the value of a label; all are checked by one expression.

    >>> are_label_values(("a", "", "v1.2")), are_label_values(("a", "-5"))
    (True, False)
    """
    if len(texts) == 1:
        return is_label_value(texts[0])
    together = "\n".join((*texts, ""))
    return together.count("\n") == len(texts) and _VALUES.fullmatch(together) is not None


def is_object_name(text: str) -> bool:
    """Whether `text` is a DNS-1123 subdomain, as the names of most objects must be.

    >>> is_object_name("kube-system"), is_object_name(""), is_object_name("A_b")
    (True, False, False)
    """
    return len(text) <= _MAX_PREFIX and _is_subdomain(text)


def is_namespace_name(text: str) -> bool:
    """Whether `text` is a DNS-1123 label, as the names of namespaces must be.

    >>> is_namespace_name("kube-system"), is_namespace_name("a.b"), is_namespace_name("")
    (True, False, False)
    """
    return len(text) <= _MAX_LABEL and _LABEL.fullmatch(text) is not None


@lru_cache(maxsize=1024)
def _is_subdomain(text: str) -> bool:
    # Cached: thousands of names may share a domain. Callers exclude long texts.
    return _SUBDOMAIN.fullmatch(text) is not None


def is_simple_name(text: str) -> bool:
    """Whether `text` may be the part of a qualified name after its prefix.

    >>> is_simple_name("gpu"), is_simple_name(""), is_simple_name("a/b")
    (True, False, False)
    """
    return _NAME.fullmatch(text) is not None


def is_qualified_name(text: str) -> bool:
    """Whether `text` is `name` or `dns.sub.domain/name`, as label keys and resource names must be.

    >>> is_qualified_name("example.com/gpu"), is_qualified_name("a/b/c"), is_qualified_name("")
    (True, False, False)
    """
    prefix, slash, name = text.rpartition("/")
    if not slash:
        return _NAME.fullmatch(text) is not None
    return _NAME.fullmatch(name) is not None and is_object_name(prefix)
