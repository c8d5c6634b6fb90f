"""The module of Helm, and tests without it; nothing is compiled here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart import conftest
from tests.chart.build import HELM


def test_the_module_names_the_program_and_replaces_nothing() -> None:
    text = (HELM.module / "go.mod").read_text()
    assert f"\ntool {HELM.package}\n" in text
    assert "\nreplace " not in text
    assert (HELM.module / "go.sum").is_file()


@pytest.mark.parametrize(
    ("required", "outcome"),
    [("1", pytest.fail.Exception), ("", pytest.skip.Exception)],
    ids=["required", "optional"],
)
def test_a_missing_helm_skips_a_test_unless_it_is_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, required: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setattr(conftest, "BUILD_DIRECTORY", tmp_path)
    monkeypatch.setenv("KUBESTOW_REQUIRE_HELM", required)
    with pytest.raises(outcome, match=r"no helm, or an old one, in .*: run `make chart-build`"):
        conftest.find_helm()
