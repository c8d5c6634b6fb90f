"""Commands that messages suggest have the connection options of the command line."""

from __future__ import annotations

import ast
import re
import shlex
from contextvars import copy_context
from pathlib import Path
from threading import Thread

import click
import pytest
from click.testing import CliRunner

from scheduler.cli import hints
from scheduler.cli.endpoint import Endpoint, endpoint_options

WITHOUT_CONNECTION = {"config.py", "kubectl_plugin.py", "queue.py", "simulate.py"}
"""Modules that quote kubectl in help, or in a command that asks no cluster."""

HINTS = (hints.kubectl, hints.helm, hints.kubestow_run, hints.given_scheduler)


@click.command
@endpoint_options
def show(endpoint: Endpoint) -> None:
    """Print the hints as another thread sees them, as in `kubestow ui`."""
    del endpoint
    texts: list[str] = []
    context = copy_context()
    thread = Thread(target=lambda: texts.extend(context.run(hint) for hint in HINTS))
    thread.start()
    thread.join()
    click.echo("\n".join(texts))


def shown(*arguments: str) -> list[str]:
    ended = CliRunner().invoke(show, arguments, catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.output.split("\n")[: len(HINTS)]


def test_without_options_there_is_nothing_to_add(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBESTOW_LEASE", "ops/kubestow")
    assert shown() == ["kubectl", "helm", "kubestow run", ""]


def test_each_program_gets_the_options_that_it_has() -> None:
    assert shown("--kubeconfig", "a.yaml", "--context=b") == [
        "kubectl --kubeconfig=a.yaml --context=b",
        "helm --kubeconfig=a.yaml --kube-context=b",
        "kubestow run --kubeconfig=a.yaml",
        " --kubeconfig=a.yaml --context=b",
    ]


def test_the_way_to_the_scheduler_is_part_of_it_and_no_token() -> None:
    *_, scheduler = shown("-s", "host:1", "--token", "s3cr3t", "--insecure-skip-tls-verify")
    assert scheduler == " --server=host:1 --token=TOKEN --insecure-skip-tls-verify"


def test_a_value_stays_one_word_for_the_shell() -> None:
    context = "a b; $(touch x) 'c'"
    assert shlex.split(shown("--context", context)[1]) == ["helm", f"--kube-context={context}"]


def test_the_options_of_one_command_do_not_get_into_another() -> None:
    shown("--context=b")
    assert [hint() for hint in HINTS] == ["kubectl", "helm", "kubestow run", ""]


@click.command
@endpoint_options
def show_to_administrator(endpoint: Endpoint) -> None:
    """Print a hint for somebody else than the user of the options."""
    del endpoint
    with hints.for_administrator():
        click.echo(hints.kubectl())
    click.echo(hints.kubectl())


def test_what_an_administrator_is_to_do_does_not_name_the_options_of_another_user() -> None:
    ended = CliRunner().invoke(show_to_administrator, ["--context=b"], catch_exceptions=False)
    assert ended.output.splitlines() == ["kubectl", "kubectl --context=b"]


def test_messages_quote_kubectl_with_the_options_only() -> None:
    bare = {
        path.name
        for path in Path(hints.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if re.search(
            r"(?<!`)\bkubectl (-n|apply|auth|create|describe|get|logs|scale)\b", node.value
        )
        and not (node.value.endswith(".") or "\n\n" in node.value)
    }
    assert bare <= WITHOUT_CONNECTION


def test_messages_suggest_commands_that_ask_a_scheduler_with_the_options_only() -> None:
    """But those about a command line that cannot be parsed, whose options are not known."""
    suggested = re.compile(r"kubestow (explain|gangs|queue|top|ui)\b([^\n`,]*)")
    bare = {
        (path.name, found[0])
        for path in Path(hints.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if "\n\n" not in node.value and not node.value.endswith(".")
        for found in suggested.finditer(node.value)
        # An expression may follow that has them.
        if "{options}" not in found[0] and found.end() < len(node.value)
    }
    assert {name for name, _ in bare} == {"habits.py", "main.py", "whatif.py"}, bare
