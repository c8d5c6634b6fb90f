"""Texts that people take for YAML of Kubernetes: templates, tables and messages of kubectl.

Only texts that could not be read are looked at, so that a false suspicion costs half a sentence.
"""

from __future__ import annotations

import re
from typing import Final

_LOOKED_AT: Final = 1 << 16
"""Bytes of the beginning."""

_FORMS: Final = tuple(
    (re.compile(pattern), advice)
    for pattern, advice in (
        (
            rb"\{\{-?\s*(?:/\*|[.$]|(?:if|else|end|range|with|define|include|template|block)\b)",
            "it looks like a Helm template: render it first, with helm template",
        ),
        (rb"\{%-?\s*\w", "it looks like a template: render it first"),
        (
            rb"\A\s*(?:NAMESPACE|NAME) {2,}\w",
            "it looks like a table of kubectl: let kubectl print -o json",
        ),
        (
            rb"\A\s*Name: {2,}\S+\s*\n",
            "it looks like what kubectl describe prints: let kubectl get print -o json",
        ),
        (
            rb"\A\s*(?:Error from server|error: |The connection to the server |Unable to connect)",
            "it is an error of kubectl: dump it again",
        ),
        (
            rb"\A\s*(?:Warning: |[IWEF]\d{4} \d\d:\d\d)",
            "it begins with messages of kubectl: write only its standard output into the file",
        ),
        (
            rb"\A\s*NAME: \S+\nLAST DEPLOYED:",
            "it is the answer of helm install: let helm get manifest print the objects",
        ),
        (rb"\A[^\n]{0,200}\0", "it is no text"),
    )
)


def advice(text: bytes) -> str:
    """Return what a text seems to be and what to do, or nothing.

    >>> advice(b"{{- if .Values.enabled }}")
    'it looks like a Helm template: render it first, with helm template'
    >>> advice(b"a: [")
    ''
    """
    beginning = text[:_LOOKED_AT]
    return next((advice for form, advice in _FORMS if form.search(beginning)), "")
