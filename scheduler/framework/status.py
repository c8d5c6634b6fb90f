"""Status codes, and the result of a plugin call (upstream: `interface.go: Status`)."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from enum import IntEnum


class Code(IntEnum):
    """Outcome of a plugin call. The ordinals are upstream's; `label` is its text form."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6

    @property
    def label(self) -> str:
        """The text used in metrics and messages, e.g. `UnschedulableAndUnresolvable`."""
        return _LABELS[self]


_LABELS = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}

_REJECTED = frozenset((Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING))


@dataclass(frozen=True, slots=True)
class Status:
    """A plugin's answer. `None` in place of a Status always means Success.

    `requeue_after`, `condition_reason` and `skip_post_filter` are kubestow's additions to a
    rejection.
    """

    code: Code
    reasons: tuple[str, ...] = ()
    #: Set by the framework, not by plugins.
    plugin: str = ""
    #: The exception behind an Error; its text comes first in `message`.
    error: BaseException | None = None
    #: Seconds until the pod may be tried again even if no event says so.
    requeue_after: float | None = None
    #: PodScheduled reason to write instead of `Unschedulable`.
    condition_reason: str = ""
    #: Preemption and other PostFilter plugins cannot help: do not run them.
    skip_post_filter: bool = False

    @property
    def success(self) -> bool:
        """Whether the code is Success."""
        return self.code is Code.SUCCESS

    @property
    def skip(self) -> bool:
        """Whether the code is Skip."""
        return self.code is Code.SKIP

    @property
    def rejected(self) -> bool:
        """Whether the pod (or node) was rejected, as opposed to an error."""
        return self.code in _REJECTED

    @property
    def message(self) -> str:
        """Reasons joined as upstream does; an error's own text comes first."""
        if self.error is None:
            return ", ".join(self.reasons)
        return ", ".join((str(self.error), *self.reasons))

    def by(self, plugin: str) -> Status:
        """The same status, attributed to `plugin` unless it is attributed already."""
        if self.plugin:
            return self
        # Spelt out: `dataclasses.replace` takes four times as long, and what-ifs come here often.
        return Status(
            self.code,
            self.reasons,
            plugin,
            self.error,
            self.requeue_after,
            self.condition_reason,
            self.skip_post_filter,
        )


SKIP = Status(Code.SKIP)
"""What PreFilter and PreScore return when the plugin has nothing to do for this pod."""


def unschedulable(*reasons: str, requeue_after: float | None = None) -> Status:
    """A rejection that preemption may resolve."""
    return Status(Code.UNSCHEDULABLE, reasons, requeue_after=requeue_after)


def unresolvable(*reasons: str, requeue_after: float | None = None) -> Status:
    """A rejection that preemption cannot resolve (UnschedulableAndUnresolvable)."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons, requeue_after=requeue_after)


def pending(*reasons: str) -> Status:
    """A rejection after which the next helpful event skips backoff."""
    return Status(Code.PENDING, reasons)


def error(cause: BaseException | str) -> Status:
    """An internal failure: the attempt ends and the pod is retried with backoff."""
    if isinstance(cause, str):
        cause = PluginError(cause)
    return Status(Code.ERROR, (), error=cause)


def status_or_none(answer: object) -> Status | None:
    """Return a plugin's result if it is a Status or None. Raises TypeError for anything else."""
    if answer is None or isinstance(answer, Status):
        return answer
    raise TypeError(f"answered {reprlib.repr(answer)}, which is not a Status")


class PluginError(Exception):
    """An error text without a more specific exception behind it."""


class ConfigurationError(ValueError):
    """A configuration that cannot work. Holds every problem found, one line each."""

    def __init__(self, problems: list[str] | tuple[str, ...] | str) -> None:
        self.problems: tuple[str, ...] = (
            (problems,) if isinstance(problems, str) else tuple(problems)
        )
        super().__init__("\n".join(self.problems))
