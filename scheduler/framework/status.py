"""Status codes, and the result of a plugin call (upstream: `interface.go: Status`)."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from enum import IntEnum

from scheduler.sanitizing.exceptions import error_text
from scheduler.sanitizing.redaction import redact_message


class Code(IntEnum):
    """Outcome of a plugin call. The values are upstream's; `label` is the text form."""

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


_LABELS = {code: code.name.title().replace("_", "") for code in Code}

_REJECTED = frozenset((Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING))


@dataclass(frozen=True, slots=True)
class Status:
    """The result of a plugin call. `None` in place of a Status always means Success.

    `requeue_after`, `condition_reason` and `skip_post_filter` are kubestow's additions to a
    rejection. Reasons are public (conditions, Events): what looks like a credential is blanked.
    """

    code: Code
    reasons: tuple[str, ...] = ()
    #: Set by the framework, not by plugins.
    plugin: str = ""
    #: The exception that caused an Error; `message` begins with its text.
    error: BaseException | None = None
    #: Seconds after which the pod is retried even without an event.
    requeue_after: float | None = None
    #: Reason of the PodScheduled condition, in place of `Unschedulable`.
    condition_reason: str = ""
    #: Whether to skip PostFilter, because neither preemption nor another plugin can help.
    skip_post_filter: bool = False

    def __post_init__(self) -> None:
        if self.reasons:
            object.__setattr__(self, "reasons", tuple(map(redact_message, self.reasons)))

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
        """The reasons, joined as upstream joins them; the text of `error` comes first."""
        if self.error is None:
            return ", ".join(self.reasons)
        return ", ".join((error_text(self.error), *self.reasons))

    def by(self, plugin: str) -> Status:
        """Return this status attributed to `plugin`, or unchanged if it has a plugin already."""
        if self.plugin:
            return self
        # `dataclasses.replace` would take four times as long, and what-ifs call this often.
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
"""Status of PreFilter and PreScore if the plugin has nothing to do for the pod."""


def unschedulable(*reasons: str, requeue_after: float | None = None) -> Status:
    """Return a rejection that preemption may resolve."""
    return Status(Code.UNSCHEDULABLE, reasons, requeue_after=requeue_after)


def unresolvable(*reasons: str, requeue_after: float | None = None) -> Status:
    """Return a rejection that preemption cannot resolve (UnschedulableAndUnresolvable)."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons, requeue_after=requeue_after)


def pending(*reasons: str) -> Status:
    """Return a rejection after which the pod skips backoff when an event helps it."""
    return Status(Code.PENDING, reasons)


def error(cause: BaseException | str) -> Status:
    """Return an Error status: the attempt ends, and the pod is retried after backoff."""
    if isinstance(cause, str):
        cause = PluginError(cause)
    return Status(Code.ERROR, (), error=cause)


def status_or_none(result: object) -> Status | None:
    """Return `result` if it is a Status or None. Raises TypeError for anything else."""
    if result is None or isinstance(result, Status):
        return result
    raise TypeError(f"answered {reprlib.repr(result)}, which is not a Status")


class PluginError(Exception):
    """An error without a more specific exception.

    A method that cannot return a status raises it in place of an Error status; it is not reported
    as a bug of the plugin.
    """


class ConfigurationError(ValueError):
    """A configuration that cannot work; `problems` has one line for each error."""

    def __init__(self, problems: list[str] | tuple[str, ...] | str) -> None:
        self.problems: tuple[str, ...] = (
            (problems,) if isinstance(problems, str) else tuple(problems)
        )
        super().__init__("\n".join(self.problems))
