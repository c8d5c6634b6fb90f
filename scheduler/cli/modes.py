"""The modes of each command and the options that they use: one table for checks, help and tests.

An option that a mode does not use is an error that names the mode: it would otherwise be dropped in
silence, and the command would answer another question than was asked.

A command has one or more choices between modes. The mode of a choice is the first one whose
condition holds for the values of the options; options that no mode of a choice lists are used in
all of them. `kubestow run` has none: it takes the flags of kube-scheduler, of which many wait for
others, as there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final

import click
from click.core import ParameterSource

from scheduler.cli.habits import corrected

Given = Mapping[str, Any]
"""The values of the options by the names of their parameters."""


@dataclass(frozen=True, slots=True)
class Mode:
    """One of the modes between which a choice is."""

    name: str
    """The option that selects it, or a phrase."""
    chosen: Callable[[Given], bool]
    options: tuple[str, ...] = ()
    """Parameters that it uses and some other mode of the choice does not."""
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of parameters with a choice of values: those that it knows, if not all."""


Choice = tuple[Mode, ...]


def _given(*names: str) -> Callable[[Given], bool]:
    """Return whether one of these options has another value than none, false or no values."""
    return lambda given: any(given.get(name) not in (None, False, (), "") for name in names)


def _is(name: str, value: str) -> Callable[[Given], bool]:
    return lambda given: given.get(name) == value


def _otherwise(_: Given) -> bool:
    return True


_CHANGES: Final = ("config", "plugin_dirs", "adopt", "seed", "add_node", "drop_node", "cordon")
_ONE_DOCUMENT: Final = {"output": ("table", "json")}

SIMULATE: Final[Choice] = (
    Mode(
        "--sweep",
        _given("sweep"),
        ("sweep", "results", "processes", "dask", "seeds", "assertions", "report", "junit"),
        _ONE_DOCUMENT,
    ),
    Mode("--how-many-fit", _given("how_many_fit"), (*_CHANGES, "how_many_fit"), _ONE_DOCUMENT),
    Mode(
        "--nodes-needed",
        lambda given: given["nodes_needed"] is not None,
        (*_CHANGES, "nodes_needed", "max_nodes"),
        _ONE_DOCUMENT,
    ),
    Mode(
        "--consolidate",
        _given("consolidate"),
        (*_CHANGES, "consolidate", "force", "delete_emptydir_data"),
        _ONE_DOCUMENT,
    ),
    Mode(
        "a run",
        _otherwise,
        (
            *_CHANGES, "plugin_timeout", "seeds", "compare", "workload", "templates", "until",
            "assertions", "report", "junit",
        ),
    ),
)  # fmt: skip


def _shown_to_nobody(given: Given) -> bool:
    """Whether no credentials of a kubeconfig would be sent (`direct`)."""
    if not given.get("insecure_skip_tls_verify"):
        return False
    from scheduler.cli.direct import is_this_machine

    server = given.get("server") or "localhost"
    return not is_this_machine(server if "://" in server else f"//{server}")


_OF_SERVER: Final = ("server", "ca_file", "tls_server_name", "insecure_skip_tls_verify")
_TOKEN: Final = ("token", "token_file")
_KUBECONFIG: Final = ("kubeconfig", "context")
_WAY: Final[tuple[Choice, ...]] = (
    (
        Mode("--server", _given(*_OF_SERVER), _OF_SERVER),
        Mode("the way to the leader", _otherwise, ("lease",)),
    ),
    (
        Mode("--insecure-skip-tls-verify", _given("insecure_skip_tls_verify")),
        Mode("a connection with a verified certificate", _otherwise, ("ca_file",)),
    ),
)
"""Of commands that ask a scheduler. To `explain` and `whatif` a kubeconfig gives the namespace."""

_ASKED: Final[tuple[Choice, ...]] = (
    *_WAY,
    (
        Mode(
            "--server with a token",
            lambda given: _given(*_OF_SERVER)(given) and _given(*_TOKEN)(given),
            _TOKEN,
        ),
        Mode("credentials of the kubeconfig", _otherwise, (*_TOKEN, *_KUBECONFIG)),
    ),
    (
        Mode("--insecure-skip-tls-verify of another machine", _shown_to_nobody),
        Mode("credentials of the kubeconfig", _otherwise, _KUBECONFIG),
    ),
)
"""Of the others of these commands."""


def _everywhere() -> tuple[Choice, ...]:
    return (
        (
            Mode("-A", _given("all_namespaces")),
            Mode("one namespace", _otherwise, ("namespace",)),
        ),
    )


MODES: Final[Mapping[str, tuple[Choice, ...]]] = {
    "run": (),
    "demo": (
        (Mode("--fast", _given("fast")), Mode("a story with pauses", _otherwise, ("duration",))),
    ),
    "demo zone-stockout": (),
    "demo gpu-queue": (),
    "demo gang": (),
    "config validate": (),
    "config show": (),
    "config diff": (),
    "config schema": (),
    "config rbac": (),
    "config gates": (),
    "check": (),
    "queue": (
        (
            Mode("--watch", _given("watch"), ("interval",), {"output": ("table",)}),
            Mode("a single answer", _otherwise),
        ),
        *_everywhere(),
        *_ASKED,
    ),
    "gangs": (*_everywhere(), *_ASKED),
    "top": (
        (
            Mode("--once", _given("once")),
            Mode("-o json", _is("output", "json")),
            Mode("the live screen", _otherwise, ("interval",)),
        ),
        *_ASKED,
    ),
    "explain": (
        (
            Mode("--group", _given("group"), ("group",)),
            Mode(
                "the explanation of a pod",
                _otherwise,
                ("node", "remedies", "history", "verbose", "nodes", "examples"),
            ),
        ),
        (
            Mode("-o json", _is("output", "json"), ("nodes", "examples")),
            Mode("-v", _given("verbose"), ("history", "verbose", "nodes", "examples")),
            Mode("a short answer", _otherwise, ("history", "verbose")),
        ),
        (
            Mode("--node", _given("node")),
            Mode("an answer without --node", _otherwise, ("remedies",)),
        ),
        *_WAY,
    ),
    "ui": (
        (
            Mode("--simulate", _given("simulate"), ("simulate",)),
            Mode("--shadow", _given("shadow"), ("shadow",)),
            Mode(
                "a running scheduler",
                _otherwise,
                (*_OF_SERVER, "lease", *_TOKEN, *_KUBECONFIG),
            ),
        ),
        *_ASKED,
    ),
    "whatif": _WAY,
    "bundle": _ASKED,
    "record": _ASKED,
    "replay": (),
    "shadow": (),
    "simulate": (
        SIMULATE,
        (
            Mode("--workload", _given("workload"), ("templates",)),
            Mode("a run without --workload", _otherwise),
        ),
        (Mode("--seeds", _given("seeds")), Mode("a single seed", _otherwise, ("seed",))),
        (Mode("--dask", _given("dask")), Mode("local processes", _otherwise, ("processes",))),
    ),
    "plugin new": (),
    "plugin check": (),
    "plugin try": (),
    "quota set": (
        (
            Mode("--dry-run", _given("dry_run")),
            Mode("a change of the cluster", _otherwise, ("guard", "kubeconfig", "context")),
        ),
    ),
    "quota show": _everywhere(),
    "quota drain": _everywhere(),
    "quota migrate": (
        (
            Mode("--dry-run", _given("dry_run")),
            Mode("a change of the cluster", _otherwise, ("yes",)),
        ),
    ),
    "apiserver": (),
    "version": (),
}  # fmt: skip
"""The choices of each command."""


class ModalCommand(click.Command):
    """A command of which some options belong to some modes only."""

    def __init__(self, *arguments: Any, path: str = "", **settings: Any) -> None:
        """Let the help of each option name its modes; `path` is the key of `MODES`."""
        super().__init__(*arguments, **settings)
        self.choices = MODES[path or self.name or ""]
        for option in self.params:
            if isinstance(option, click.Option) and option.help is not None:
                option.help = _prefixed(_prefix(self.choices, option), option.help)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, and refuse what the mode does not use."""
        try:
            rest = super().parse_args(ctx, args)
        except click.UsageError as error:
            raise corrected(self.name or "", error) from error
        if not ctx.resilient_parsing:
            for choice in self.choices:
                _check(ctx, choice)
        return rest


def _check(ctx: click.Context, choice: Choice) -> None:
    governed = {name for each in choice for name in each.options}
    _prefer_command_line(ctx, choice, governed)
    mode = next(each for each in choice if each.chosen(ctx.params))
    for option in ctx.command.params:
        name = option.name or ""
        if ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        text = shown(option)
        known = mode.values.get(name)
        if known is not None and ctx.params[name] not in known:
            others = " and ".join(known)
            raise click.UsageError(f"{mode.name} has no {text} {ctx.params[name]}: give {others}")
        if name not in governed or name in mode.options:
            continue
        users = [each.name for each in choice if name in each.options]
        if users == [text]:
            raise click.UsageError(f"{mode.name} and {text} exclude each other: give one of them")
        raise click.UsageError(f"{mode.name} does not use {text}, which is for {_listed(users)}")


def _prefer_command_line(ctx: click.Context, choice: Choice, governed: AbstractSet[str]) -> None:
    """Drop what the environment says if options of another mode are on the command line."""
    mode = next(each for each in choice if each.chosen(ctx.params))
    sources = {name: ctx.get_parameter_source(name) for name in governed}
    given = {name for name, source in sources.items() if source is ParameterSource.COMMANDLINE}
    if given and not given & set(mode.options):
        of_environment = (
            name for name in mode.options if sources[name] is ParameterSource.ENVIRONMENT
        )
        ctx.params.update(dict.fromkeys(of_environment))


def shown(option: click.Parameter) -> str:
    """Return an option as people write it: the long form."""
    return max(option.opts, key=len) if isinstance(option, click.Option) else str(option.metavar)


def _prefix(choices: tuple[Choice, ...], option: click.Option) -> str:
    """Return the beginning of the help of an option: the modes that use it, if they are few.

    Not of the usual mode, where there are two, nor if the option selects one of them.
    """
    alone: defaultdict[str, str | None] = defaultdict(lambda: None, {option.name or "": "x"})
    for choice in reversed(choices):
        users = [each for each in choice if (option.name or "") in each.options]
        if any(each.chosen(alone) for each in users[:-1]) or choice[0].chosen(alone):
            continue
        names = [each.name for each in users]
        few = 0 < len(users) <= max(1, len(choice) // 2) or choice[-1] not in users
        if names in ([], [shown(option)]) or not few or (len(choice) == 2 and users == [choice[1]]):
            continue
        preposition = "With" if all(each.startswith("-") for each in names) else "For"
        return f"{preposition} {_listed(names)}: "
    return ""


def _prefixed(prefix: str, text: str) -> str:
    # An abbreviation stays as it is.
    begin = text[:1].lower() if text[1:2].islower() or text[1:2] == " " else text[:1]
    return f"{prefix}{begin}{text[1:]}" if prefix else text


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
