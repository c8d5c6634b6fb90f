"""Commands that messages suggest, with the connection options that the user gave.

Without them a suggested command would be about another cluster, or another user. Options from
environment variables apply to the suggested command as well and are left out, and so are tokens.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import click
from click.core import ParameterSource

CLUSTER: Final = ("kubeconfig", "context")
"""Options that kubectl and all commands with a connection have."""

SCHEDULER: Final = (
    "server",
    "lease",
    "token",
    "token_file",
    *CLUSTER,
    "ca_file",
    "tls_server_name",
    "insecure_skip_tls_verify",
)
"""Options of commands that ask a scheduler."""

ADMINISTRATORS_KUBECTL: Final = "kubectl"
"""In what an administrator is to do, since the options of a user without rights would fail."""

# A context variable, not the context of Click, which belongs to one thread: `kubestow ui` answers
# in several.
_GIVEN: Final[ContextVar[Mapping[str, object]]] = ContextVar("given_options")


@contextmanager
def given_options(ctx: click.Context) -> Iterator[None]:
    """Add the connection options of a command line to the hints within."""
    given = {
        name: ctx.params[name]
        for name in SCHEDULER
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    token = _GIVEN.set(given)
    try:
        yield
    finally:
        _GIVEN.reset(token)


@contextmanager
def for_administrator() -> Iterator[None]:
    """Leave the options out of the hints within: their user may not do what is suggested."""
    token = _GIVEN.set({})
    try:
        yield
    finally:
        _GIVEN.reset(token)


def given_cluster() -> str:
    """Return the options that select the cluster and its user, each with a space before it."""
    return _words(CLUSTER)


def given_scheduler() -> str:
    """Return the options that select the scheduler and its user, each with a space before it."""
    return _words(SCHEDULER)


def kubectl() -> str:
    """Return `kubectl` with the options that select the cluster and its user."""
    return f"kubectl{given_cluster()}"


def helm() -> str:
    """Return `helm` with the options that select the cluster and its user."""
    return f"helm{_words(CLUSTER, context='kube-context')}"


def kubestow_run() -> str:
    """Return `kubestow run` with the option of these that it has."""
    return f"kubestow run{_words(('kubeconfig',))}"


def _words(names: tuple[str, ...], **called: str) -> str:
    """Return the given ones of these options; some may be `called` by another name."""
    given = _GIVEN.get({})
    words = ""
    for name in names:
        if name in given:
            option = f"--{called.get(name, name).replace('_', '-')}"
            value = "TOKEN" if name == "token" else given[name]
            words += f" {option if value is True else shlex.quote(f'{option}={value}')}"
    return words
