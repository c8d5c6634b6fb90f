"""Every option that a mode of a command does not use is refused with the name of the mode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import pytest

from scheduler.cli.main import COMMANDS
from scheduler.cli.modes import MODES, Choice, ModalCommand, Mode, shown
from tests.unit.cli.command_line import Shell

VALUES: Final = {
    "pod": "a/b",
    "group": "a/b",
    "lease": "a/b",
    "fields": "cpu=1",
    "devices": "a/b=1",
    "log_file": "log",
}


class Case(NamedTuple):
    path: str
    choice: int
    mode: Mode
    option: str


def commands() -> dict[str, click.Command]:
    found: dict[str, click.Command] = {}
    for name, entry in COMMANDS.items():
        if name == "run":
            continue
        command = entry.load()
        if not isinstance(command, click.Group) or command.invoke_without_command:
            found[name] = command
        if isinstance(command, click.Group):
            found |= {f"{name} {each}": inner for each, inner in command.commands.items()}
    return found


ALL: Final = commands()


def test_every_command_is_in_the_table() -> None:
    assert {*ALL, "run"} == {*MODES}


@pytest.mark.parametrize("path", [path for path, choices in MODES.items() if choices])
def test_the_table_names_options_of_the_command(path: str) -> None:
    command = ALL[path]
    assert isinstance(command, ModalCommand)
    assert command.choices is MODES[path]
    names = {each.name for each in command.params}
    for choice in MODES[path]:
        assert {name for mode in choice for name in (*mode.options, *mode.values)} <= names
        assert choice[-1].chosen(dict.fromkeys(names))


def selected(choice: Choice, given: Mapping[str, Any]) -> Mode:
    return next(each for each in choice if each.chosen(given))


def unused() -> Iterator[Case]:
    """Yield each option that a mode does not use, but those that select another mode."""
    for path, choices in MODES.items():
        for index, choice in enumerate(choices):
            governed = sorted({name for mode in choice for name in mode.options})
            nothing = dict.fromkeys(each.name or "" for each in ALL[path].params)
            for at, mode in enumerate(choice):
                for name in governed:
                    selects = choice.index(selected(choice, {**nothing, name: "x"})) < at
                    if name not in mode.options and not selects:
                        yield Case(path, index, mode, name)


def words(option: click.Parameter, folder: Path) -> list[str]:
    """Return a use of an option or argument."""
    if isinstance(option, click.Option) and option.is_flag:
        return [shown(option)]
    value = VALUES.get(option.name or "", "1")
    if isinstance(option.type, click.Choice):
        value = str(option.type.choices[-1])
    elif isinstance(option.type, click.Path):
        value = str(folder / "file") if option.type.file_okay else str(folder)
    return [value] if isinstance(option, click.Argument) else [shown(option), value]


def selecting(command: click.Command, choice: Choice, mode: Mode, folder: Path) -> list[str]:
    """Return a command line that selects a mode."""
    required = [each for each in command.params if each.required]
    others = [each for each in command.params if each not in required]
    for count in range(3):
        for chosen in combinations(others, count):
            line = [word for each in (*required, *chosen) for word in words(each, folder)]
            context = click.Context(command)
            try:
                command.parse_args(context, [*line])
            except click.UsageError:
                continue
            if selected(choice, context.params) is mode:
                return line
    raise AssertionError(f"no command line selects {mode.name}")


@pytest.mark.parametrize(
    "case", list(unused()), ids=lambda each: f"{each.path} {each.mode.name} {each.option}"
)
def test_an_unused_option_is_refused(case: Case, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = ALL[case.path]
    option = next(each for each in command.params if each.name == case.option)
    line = selecting(command, MODES[case.path][case.choice], case.mode, tmp_path)
    assert isinstance(command, ModalCommand)
    with pytest.raises(click.UsageError) as refused:
        command.make_context(case.path, [*line, *words(option, tmp_path)])
    assert case.mode.name in str(refused.value)
    assert shown(option) in str(refused.value)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("simulate --sweep S --until 1h", "--sweep does not use --until, which is for a run"),
        ("simulate --sweep S --add-node cpu=4", "--sweep does not use --add-node, which is for"),
        ("simulate --sweep S -o csv", "--sweep has no --output csv: give table and json"),
        ("simulate S --max-nodes 3", "a run does not use --max-nodes, which is for --nodes-needed"),
        ("simulate S --force", "a run does not use --force, which is for --consolidate"),
        ("simulate S --seed 1 --seeds 1-2", "--seeds does not use --seed"),
        (
            "simulate S --template S",
            "a run without --workload does not use --template, which is for",
        ),
        ("simulate S --consolidate --how-many-fit S", "exclude each other: give one of them"),
        ("queue --interval 3", "a single answer does not use --interval, which is for --watch"),
        ("queue --watch -o json", "--watch has no --output json: give table"),
        ("top --once --interval 3", "--once does not use --interval"),
        ("explain --group a/b --node n", "--group does not use --node"),
        (
            "explain a/b --nodes 3",
            "a short answer does not use --nodes, which is for -o json and -v",
        ),
        ("explain a/b --node n --remedies none", "--node does not use --remedies"),
        ("ui --simulate S --context x", "--simulate does not use --context"),
        ("queue --server x --lease a/b", "--server does not use --lease"),
        (
            "queue --server x --token t --kubeconfig S",
            "--server with a token does not use --kubeconfig, which is for credentials of the",
        ),
        ("top --once --ca-file S --token-file S --context x", "--server with a token does not use"),
        (
            "gangs --server x:1 --insecure-skip-tls-verify --context x",
            "--insecure-skip-tls-verify of another machine does not use --context",
        ),
        ("quota set --cpu 1 --dry-run --guard", "--dry-run does not use --guard"),
        ("quota show -A -n x", "-A does not use --namespace"),
        ("demo --fast --duration 3", "--fast does not use --duration"),
    ],
)
def test_the_error_says_what_the_option_is_for(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, error: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "S").touch()
    ended = shell(*line.split())
    assert ended.code == 2
    assert error in ended.err


def test_the_help_says_which_mode_an_option_is_for(shell: Shell) -> None:
    text = " ".join(shell("simulate", "--help").out.split())
    for option, begins in (
        ("--max-nodes", "With --nodes-needed: the most nodes to add."),
        ("--force", "With --consolidate: move pods without"),
        ("--dask", "With --sweep: the scheduler of a Dask"),
        ("--assert", "For --sweep and a run: must hold"),
        ("--until", "For a run: let so much"),
    ):
        assert option in text
        assert begins in text
