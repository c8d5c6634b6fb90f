"""The command line of the benchmarks, as far as it goes without a control plane."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import main


def test_the_list_names_every_family() -> None:
    done = CliRunner().invoke(main, ["--list"])

    assert done.exit_code == 0
    assert "SchedulingBasic" in done.output
    assert "EventHandlingNodeUpdate" in done.output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--workload", "Nonsense"], "no workload 'Nonsense'; `--list` shows all"),
        (["--set", "nodes"], "--set nodes: write NAME=N, e.g. nodes=1000"),
        (["--contender", "nobody"], "'nobody' is not one of"),
    ],
)
def test_what_cannot_be_run_is_refused(arguments: list[str], text: str) -> None:
    done = CliRunner().invoke(main, arguments)

    assert done.exit_code == 2
    assert text in done.output


def test_missing_binaries_are_said_once_and_before_anything_runs(tmp_path: Path) -> None:
    done = CliRunner(env={"KUBEBUILDER_ASSETS": str(tmp_path)}).invoke(main, [])

    assert done.exit_code == 1
    assert done.output.count("no etcd, kube-apiserver, kubectl in") == 1
