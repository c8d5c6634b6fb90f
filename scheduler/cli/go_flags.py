"""Flags as kube-scheduler reads them, on top of click.

Go's flag package and click differ where it matters for command lines that exist in Deployments: a
boolean flag takes its value only after `=`, `-v=2` is a number, words may be joined by `_`, lists
are comma-separated and repeatable. `go_arguments` rewrites a command line so that click reads the
same; the types check values and say what they should be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, Final

import click

from config import format_duration, parse_duration

_TRUTH: Final = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "FALSE", "False"), False
)
"""What Go's ParseBool accepts."""


class Kind(Enum):
    """Syntax of a flag's value; the text is its placeholder in the help."""

    BOOL = ""
    STRING = "string"
    INT = "int"
    FLOAT = "float"
    DURATION = "duration"
    #: Comma-separated; repeating the flag appends.
    LIST = "strings"
    #: One value each time the flag is given.
    REPEATED = "string..."


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag of `kubestow run`."""

    name: str
    kind: Kind
    #: None for "not given" where no value means that.
    default: Any
    help: str
    #: Smallest and largest INT.
    bounds: tuple[int, int] | None = None
    #: Place in KubeSchedulerConfiguration that an explicit value is written to.
    path: str = ""
    #: Upstream ignores the flag when --config is given.
    deprecated: bool = False
    #: Why the flag has no effect here; shown as a warning when it is given.
    no_effect: str = ""
    #: A value that asks for what kubestow does anyway: no warning is shown.
    moot: Any = None
    short: str = ""

    @property
    def parameter(self) -> str:
        """The name of the value in Python."""
        return self.name.replace("-", "_")

    def option(self) -> click.Option:
        """The click option. It does not show itself: `GroupedCommand` does."""
        names = [f"--{self.name}", self.parameter]
        if self.short:
            names.insert(0, self.short)
        multiple = self.kind in (Kind.LIST, Kind.REPEATED)
        return click.Option(
            names,
            type=_value_type(self),
            default=() if multiple and self.default is None else self.default,
            multiple=multiple,
            callback=_flatten if self.kind is Kind.LIST else None,
        )

    def usage(self) -> str:
        """`-v, --v int`, for the help."""
        short = f"{self.short}, " if self.short else ""
        return f"{short}--{self.name} {self.kind.value}".rstrip()

    def default_text(self) -> str:
        """The default as Go prints it; empty where there is none worth printing."""
        match self.default:
            case None | "" | () | False | 0:
                return ""
            case timedelta() as duration:
                return format_duration(duration)
            case tuple() as parts:
                return ",".join(parts)
            case True:
                return "true"
            case other:
                return str(other)


@dataclass(frozen=True, slots=True)
class Group:
    """Flags under one heading of the help."""

    title: str
    flags: tuple[Flag, ...]


class _Value(click.ParamType[Any]):
    """Base: `invalid argument "x" for "--flag": reason`, Go's own wording up to the reason."""

    def read(self, text: str) -> object:
        """The value; ValueError says what it should have been."""
        raise NotImplementedError

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """Read a text; defaults come as what they are."""
        if not isinstance(value, str):
            return value
        try:
            return self.read(value)
        except ValueError as error:
            flag = param.opts[-1] if param is not None else self.name
            raise click.UsageError(
                f'invalid argument "{value}" for "{flag}": {error}', ctx
            ) from None


class BoolValue(_Value):
    """`true`, `false` and what else Go takes for them."""

    name = "bool"

    def read(self, text: str) -> bool:
        """See `_Value`."""
        if text not in _TRUTH:
            raise ValueError("must be true or false")
        return _TRUTH[text]


class IntValue(_Value):
    """A whole number within bounds."""

    name = "int"

    def __init__(self, bounds: tuple[int, int] | None) -> None:
        self._bounds = bounds or (-(2**31), 2**31 - 1)

    def read(self, text: str) -> int:
        """See `_Value`."""
        try:
            number = int(text)
        except ValueError:
            raise ValueError("must be a whole number") from None
        low, high = self._bounds
        if not low <= number <= high:
            raise ValueError(f"must be between {low} and {high}, inclusive")
        return number


class FloatValue(_Value):
    """A number."""

    name = "float"

    def read(self, text: str) -> float:
        """See `_Value`."""
        try:
            return float(text)
        except ValueError:
            raise ValueError("must be a number") from None


class DurationValue(_Value):
    """`1m30s`."""

    name = "duration"

    def read(self, text: str) -> timedelta:
        """See `_Value`."""
        return parse_duration(text)


def _value_type(flag: Flag) -> click.ParamType[Any]:
    match flag.kind:
        case Kind.BOOL:
            return BoolValue()
        case Kind.INT:
            return IntValue(flag.bounds)
        case Kind.FLOAT:
            return FloatValue()
        case Kind.DURATION:
            return DurationValue()
        case _:
            return click.STRING


def _flatten(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part for value in values for part in value.split(",") if part)


def go_arguments(arguments: Sequence[str], flags: Iterable[Flag]) -> list[str]:
    """Rewrite a command line of Go's flag package for click.

    >>> leader = Flag("leader-elect", Kind.BOOL, True, "")
    >>> level = Flag("v", Kind.INT, 0, "", short="-v")
    >>> go_arguments(["--leader_elect", "-v=2", "x"], [leader, level])
    ['--leader-elect=true', '--v=2', 'x']
    """
    known = {f"--{flag.name}": flag for flag in flags}
    shorts = {flag.short: flag for flag in known.values() if flag.short}
    rewritten: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            return [*rewritten, argument, *rest]
        name, equals, value = argument.partition("=")
        name = shorts[name].name.join(("--", "")) if name in shorts else name.replace("_", "-")
        flag = known.get(name)
        if not argument.startswith("-") or flag is None:
            rewritten.append(argument)
        elif equals:
            rewritten.append(f"{name}={value}")
        elif flag.kind is Kind.BOOL:
            rewritten.append(f"{name}=true")
        else:
            # Whatever follows is the value, even if it looks like a flag.
            rewritten += [name, *_next(rest)]
    return rewritten


def _next(rest: Iterable[str]) -> Collection[str]:
    for argument in rest:
        return (argument,)
    return ()


class GroupedCommand(click.Command):
    """A command whose flags are tables: read as Go does, shown under headings."""

    def __init__(self, *, groups: Sequence[Group], examples: str, **settings: Any) -> None:
        self.groups = tuple(groups)
        self.examples = examples
        flags = [flag for group in self.groups for flag in group.flags]
        settings.setdefault("params", []).extend(flag.option() for flag in flags)
        context = {
            "allow_extra_args": True,
            "help_option_names": ["-h", "--help"],
            "max_content_width": 100,
        }
        super().__init__(context_settings=context, **settings)

    @property
    def flags(self) -> tuple[Flag, ...]:
        """All flags."""
        return tuple(flag for group in self.groups for flag in group.flags)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, and refuse what is no flag."""
        rest = super().parse_args(ctx, go_arguments(args, self.flags))
        if rest and not ctx.resilient_parsing:
            shown = " ".join(f'"{argument}"' for argument in rest)
            hint = ""
            if rest[0] in _TRUTH:
                hint = f"; a boolean flag takes its value after =, as in --leader-elect={rest[0]}"
            raise click.UsageError(
                f'"{ctx.command_path}" does not take any arguments, got [{shown}]{hint}', ctx
            )
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """No arguments."""
        return ["[FLAGS]"]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Examples, then the flags under their headings, those without effect last."""
        with formatter.section("Examples"):
            for line in self.examples.strip().splitlines():
                formatter.write_text(line)
        for group in self.groups:
            shown = [(flag.usage(), _explained(flag)) for flag in group.flags if not flag.no_effect]
            with formatter.section(group.title):
                formatter.write_dl(shown)
        with formatter.section("Global"):
            formatter.write_dl(
                [
                    ("--version", "Show the version and exit; --version=raw shows all about it."),
                    ("-h, --help", "Show this text and exit."),
                ]
            )
        with formatter.section("Accepted for the sake of kube-scheduler, without effect"):
            formatter.write_dl(
                [(each.usage(), f"{each.no_effect}.") for each in self.flags if each.no_effect]
            )


def _explained(flag: Flag) -> str:
    parts = [flag.help]
    if flag.deprecated:
        parts.append("Deprecated; ignored with --config.")
    default = flag.default_text()
    if default:
        parts.append(f"(default {default})")
    return " ".join(parts)
