"""The parts of `benchmarks.remembering` that need no Valgrind."""

from __future__ import annotations

import click
import pytest

from benchmarks.remembering import engine_run, instructions


def test_the_count_of_valgrind_is_read() -> None:
    assert instructions("==7== I   refs:      5,791,640,171\n==7== \n") == 5_791_640_171


def test_a_run_without_a_count_is_an_error() -> None:
    with pytest.raises(click.ClickException, match="counted nothing: no such command"):
        instructions("no such command")


def test_a_run_remembers_every_decision(capsys: pytest.CaptureFixture[str]) -> None:
    engine_run("remembering", nodes=10, count=20)
    assert not capsys.readouterr().out
