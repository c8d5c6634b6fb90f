"""`kubectl kubestow`: its name in help, and completion in kubectl and in shells."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.cli.main import COMMANDS
from tests.unit.cli.command_line import Shell
from tests.unit.repository.tree import ROOT

COMPLETION = "kubectl_complete-kubestow"
PROGRAM = "from scheduler.cli.main import main; main(name='kubestow')"


def test_help_shows_the_name_that_was_typed(shell: Shell) -> None:
    ended = shell("explain", "--help", name="kubectl-kubestow")
    assert ended.code == 0
    assert "Usage: kubectl kubestow explain [OPTIONS] [NAMESPACE/]POD" in ended.out


def test_kubectl_gets_commands_with_their_descriptions(shell: Shell) -> None:
    ended = shell("qu", name=COMPLETION)
    assert ended.out.splitlines() == [
        f"quota\t{COMMANDS['quota'].short_help}",
        f"queue\t{COMMANDS['queue'].short_help}",
        ":4",
    ]


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["queue", "--output", ""], ["table", "wide", "json", ":4"]),
        (["explain", "--kubeconfig", ""], [":0"]),
    ],
)
def test_kubectl_gets_values_of_options(shell: Shell, words: list[str], lines: list[str]) -> None:
    assert shell(*words, name=COMPLETION).out.splitlines() == lines


def test_bash_completes_with_the_installed_script(tmp_path: Path) -> None:
    """The program itself is a stand-in that answers as Click does."""
    program = tmp_path / "kubestow"
    program.write_text('#!/bin/sh\necho "plain,word-$COMP_CWORD"\n')
    program.chmod(0o755)
    script = ROOT / "scheduler" / "cli" / "completion" / "kubestow.bash"
    lines = (
        f"source {script}; COMP_WORDS=(kubestow ex); COMP_CWORD=1; "
        f'_kubestow_completion {program}; printf "%s\\n" "${{COMPREPLY[@]}}"; complete -p kubestow'
    )
    ended = subprocess.run(
        ["bash", "--norc", "-c", lines], capture_output=True, text=True, check=True, timeout=600
    )
    assert ended.stderr == ""
    assert ended.stdout.splitlines() == [
        "word-1",
        "complete -o nosort -F _kubestow_completion kubestow",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ex"], ["explain"]),
        (["explain", "--rem"], ["--remedies"]),
        (["explain", "--remedies", ""], ["quick", "all", "none"]),
        (["config", "va"], ["validate"]),
    ],
)
def test_bash_completes_with_the_answers_of_the_real_program(
    tmp_path: Path, words: list[str], expected: list[str]
) -> None:
    program = tmp_path / "kubestow"
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -c "{PROGRAM}" "$@"\n', "utf-8"
    )
    program.chmod(0o755)
    script = ROOT / "scheduler" / "cli" / "completion" / "kubestow.bash"
    typed = " ".join(f"'{each}'" for each in ("kubestow", *words))
    lines = (
        f"source {script}; COMP_WORDS=({typed}); COMP_CWORD={len(words)}; "
        f'_kubestow_completion {program}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    ended = subprocess.run(
        ["bash", "--norc", "-c", lines], capture_output=True, text=True, check=True, timeout=600
    )
    assert (ended.stderr, ended.stdout.split()) == ("", expected)
