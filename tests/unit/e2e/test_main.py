"""The command line of the end-to-end specs; nothing is started here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.__main__ import FEW, PARALLEL, SUITE, arguments_of, batches_of, main
from tests.e2e.build import BINARY
from tests.e2e.specs import SPECS, Spec


def test_exactly_the_chosen_specs_are_in_focus() -> None:
    spec = Spec("[sig-scheduling] Things (all) [Serial] work")
    arguments = arguments_of(Path("admin.kubeconfig"), [spec], Path("report.json"))
    (focus,) = [one.partition("=")[2] for one in arguments if one.startswith("--ginkgo.focus=")]
    assert re.search(focus, f"{SUITE} {spec.name}")
    assert not re.search(focus, f"{SUITE} {spec.name} as well")
    assert not re.search(focus, f"{SUITE} [sig-node] {spec.name}")
    assert "--kubeconfig=admin.kubeconfig" in arguments
    assert "--ginkgo.json-report=report.json" in arguments


def test_serial_specs_run_alone_and_the_others_side_by_side() -> None:
    serial = [Spec(f"[Serial] {number}") for number in range(2)]
    others = [Spec(f"{number}") for number in range(PARALLEL + 1)]
    parallel, alone = batches_of([*serial, *others])
    assert alone.specs == serial
    assert [len(batch.specs) for batch in parallel] == [2, *[1] * (PARALLEL - 1)]
    assert {spec for batch in parallel for spec in batch.specs} == {*others}
    assert len({batch.name for batch in (*parallel, alone)}) == PARALLEL + 1


def test_a_few_specs_need_no_processes_of_their_own() -> None:
    specs = [Spec("[Serial] 1"), *(Spec(f"{number}") for number in range(FEW))]
    assert batches_of(specs) == ([], (BINARY, specs))


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(SPECS)


def test_a_name_that_no_spec_has_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "no such spec"]) == 1
    assert "--list prints them all" in capsys.readouterr().err


def test_a_missing_binary_is_reported_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert main(["--only", "sig-scheduling", "--output", str(tmp_path)]) == 1
    assert f"no {tmp_path / BINARY}: run `make e2e-build` once" in capsys.readouterr().err
