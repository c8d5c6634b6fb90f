"""Flags as kube-scheduler reads them, on top of click.

Command lines of existing Deployments rely on rules of Go's flag package that click lacks: a boolean
flag takes its value only after `=`, `-v=2` is a number, words may be joined by `_`, lists are
comma-separated and repeatable. `go_arguments` rewrites a command line so that click reads it alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.sanitizing.go_values import GO_BOOLEANS, format_duration, parse_duration


class FlagKind(Enum):
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


_ZERO: Final = {
    FlagKind.BOOL: False,
    FlagKind.STRING: "",
    FlagKind.INT: 0,
    FlagKind.FLOAT: 0.0,
    FlagKind.LIST: (),
    FlagKind.REPEATED: (),
}
_INT32: Final = (-(2**31), 2**31 - 1)


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag of `kubestow run`."""

    name: str
    kind: FlagKind
    #: Empty for a flag without effect, whose reason is shown instead.
    help: str = ""
    #: None: the zero value of the kind.
    default: Any = None
    #: Smallest and largest INT.
    bounds: tuple[int, int] = _INT32
    #: Place in KubeSchedulerConfiguration that an explicit value is written to.
    path: str = ""
    #: Upstream ignores the flag when --config is given.
    deprecated: bool = False
    #: The effect of a deprecated flag beside --config; empty if it is ignored here too.
    beside_config: str = ""
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
        """Build the click option. Its help is left to `GroupedCommand`."""
        names = [f"--{self.name}", self.parameter]
        return click.Option(
            [self.short, *names] if self.short else names,
            type=_Value(self),
            default=_ZERO[self.kind] if self.default is None else self.default,
            multiple=self.kind in (FlagKind.LIST, FlagKind.REPEATED),
            callback=_flatten if self.kind is FlagKind.LIST else None,
        )

    def usage(self) -> str:
        """`-v, --v int`, for the help."""
        short = f"{self.short}, " if self.short else ""
        return f"{short}--{self.name} {self.kind.value}".rstrip()

    def explanation(self) -> str:
        """The text beside `usage` in the help."""
        if self.no_effect:
            return f"{self.no_effect}."
        default = self.default_text()
        notes = (
            f"Deprecated; {self.beside_config or 'ignored'} with --config."
            if self.deprecated
            else "",
            f"(default {default})" if default else "",
        )
        return " ".join(filter(None, (self.help, *notes)))

    def default_text(self) -> str:
        """The default as Go prints it; empty where there is none worth printing."""
        match self.default:
            case None:
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
class FlagGroup:
    """Flags under one heading of the help."""

    title: str
    flags: tuple[Flag, ...]


# Generic at run time from click 8.4 on only.
if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType


class _Value(_ParamType):
    """A value with errors in Go's wording: `invalid argument "x" for "--flag": reason`."""

    def __init__(self, flag: Flag) -> None:
        self.name = flag.kind.value
        self._flag = flag

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """Read a text; a default has its type already."""
        if not isinstance(value, str):
            return value
        try:
            return _read(self._flag, value)
        except ValueError as error:
            message = f'invalid argument "{value}" for "--{self._flag.name}": {error}'
            raise click.UsageError(message, ctx) from None


def _read(flag: Flag, text: str) -> object:
    """Read one value. ValueError names what the value must be."""
    match flag.kind:
        case FlagKind.BOOL:
            if text not in GO_BOOLEANS:
                raise ValueError("must be true or false")
            return GO_BOOLEANS[text]
        case FlagKind.INT:
            number = _number(int, text, "must be a whole number")
            low, high = flag.bounds
            if not low <= number <= high:
                raise ValueError(f"must be between {low} and {high}, inclusive")
            return number
        case FlagKind.FLOAT:
            return _number(float, text, "must be a number")
        case FlagKind.DURATION:
            return parse_duration(text)
        case _:
            return text


def _number(kind: Callable[[str], float], text: str, problem: str) -> float:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(problem) from None


def _flatten(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part for value in values for part in value.split(",") if part)


def go_arguments(arguments: Sequence[str], flags: Iterable[Flag]) -> list[str]:
    """Rewrite a command line of Go's flag package for click.

    >>> leader = Flag("leader-elect", FlagKind.BOOL)
    >>> level = Flag("v", FlagKind.INT, short="-v")
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
        name = f"--{shorts[name].name}" if name in shorts else name.replace("_", "-")
        flag = known.get(name)
        if not argument.startswith("-") or flag is None:
            rewritten.append(argument)
        elif equals:
            rewritten.append(f"{name}={value}")
        elif flag.kind is FlagKind.BOOL:
            rewritten.append(f"{name}=true")
        else:
            # The next argument is the value, even if it looks like a flag.
            rewritten += [name, *islice(rest, 1)]
    return rewritten


_GLOBAL: Final = (
    ("--version", "Show the version and exit; --version=raw shows all about it."),
    ("-h, --help", "Show this text and exit."),
)


class GroupedCommand(click.Command):
    """A command whose flags are tables: read as Go does, shown under headings."""

    def __init__(
        self,
        *,
        groups: Sequence[FlagGroup],
        ignored: FlagGroup,
        removed: Mapping[str, str],
        examples: str,
        **settings: Any,
    ) -> None:
        self.groups = tuple(groups)
        self.ignored = ignored
        #: What to do instead, by the name of a flag that former versions had.
        self.removed = removed
        self.examples = examples
        self.flags = tuple(flag for group in (*groups, ignored) for flag in group.flags)
        settings.setdefault("params", []).extend(flag.option() for flag in self.flags)
        context = {
            "allow_extra_args": True,
            "help_option_names": ["-h", "--help"],
            "max_content_width": 100,
        }
        super().__init__(context_settings=context, **settings)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, and reject flags of former versions and positional arguments."""
        rewritten = go_arguments(args, self.flags)
        self._reject_removed(ctx, rewritten)
        rest = super().parse_args(ctx, rewritten)
        if rest and not ctx.resilient_parsing:
            shown = " ".join(f'"{argument}"' for argument in rest)
            hint = ""
            if rest[0] in GO_BOOLEANS:
                hint = f"; a boolean flag takes its value after =, as in --leader-elect={rest[0]}"
            elif rest[0].endswith((".yaml", ".yml", ".json")):
                hint = "; the configuration is named by --config"
            raise click.UsageError(
                f'"{ctx.command_path}" does not take any arguments, got [{shown}]{hint}', ctx
            )
        return rest

    def _reject_removed(self, ctx: click.Context, arguments: Iterable[str]) -> None:
        for argument in arguments:
            name = argument.partition("=")[0].lstrip("-").replace("_", "-")
            if argument.startswith("--") and name in self.removed:
                message = f"kube-scheduler v1.37 has no flag --{name}: {self.removed[name]}"
                raise click.UsageError(message, ctx)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the usage line without arguments."""
        return ["[FLAGS]"]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples, then the flags under their headings, those without effect last."""
        with formatter.section("Examples"):
            for line in self.examples.strip().splitlines():
                formatter.write_text(line)
        for title, rows in (*map(_rows, self.groups), ("Global", _GLOBAL), _rows(self.ignored)):
            with formatter.section(title):
                formatter.write_dl(rows)


def _rows(group: FlagGroup) -> tuple[str, Sequence[tuple[str, str]]]:
    return group.title, [(flag.usage(), flag.explanation()) for flag in group.flags]
