"""Options and arguments as people write them for other programs, and what they are here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

ARGUMENT: Final = ""
"""In the place of an option: an argument where there is none."""

_LABELS: Final = "Pods are not chosen by labels: -n NAMESPACE, or one pod by its name"
_DUMP: Final = "Name the files without an option: kubestow simulate FILE"
_PROFILE: Final = "Name the configuration without an option: kubestow check FILE"
_OUTPUT: Final = "The file to write is -o FILE"
_DURATION: Final = "How long is --for, such as --for 30s"
_NEW_POD: Final = "A pod that does not exist is asked about with kubestow whatif -f FILE"

MEANT: Final[Mapping[tuple[str, str], str]] = {
    ("bundle", ARGUMENT): _OUTPUT,
    ("check", "--config"): _PROFILE,
    ("check", "-f"): _PROFILE,
    ("explain", "-A"): "`kubestow queue` lists the pods that wait in all namespaces",
    ("explain", "-f"): _NEW_POD,
    ("explain", "-l"): _LABELS,
    ("explain", "--selector"): _LABELS,
    ("queue", ARGUMENT): "One pod is explained by kubestow explain POD; a namespace is -n NAME",
    ("queue", "-l"): _LABELS,
    ("queue", "--selector"): _LABELS,
    ("record", ARGUMENT): _OUTPUT,
    ("record", "--duration"): _DURATION,
    ("record", "--seconds"): _DURATION,
    ("simulate", "-f"): _DUMP,
    ("simulate", "--file"): _DUMP,
    ("whatif", "--cpu"): "Write --set cpu=2",
    ("whatif", "--memory"): "Write --set memory=4Gi",
    ("whatif", "--node"): "One node: kubestow explain POD --node NODE; a new one: --add-node",
}
"""By command and what was written."""


def corrected(command: str, error: click.UsageError) -> click.UsageError:
    """Return a usage error with what to write instead, if it is known; else the error itself."""
    if isinstance(error, click.NoSuchOption):
        written, text = error.option_name, f"No such option '{error.option_name}'"
    elif error.message.startswith("Got unexpected extra argument"):
        written, text = ARGUMENT, error.message
    else:
        return error
    meant = MEANT.get((command, written))
    return error if meant is None else click.UsageError(f"{text}. {meant}.", error.ctx)
