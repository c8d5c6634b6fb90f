"""The example of a sweep answers as docs/sweeps.md shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.sweep import study


@pytest.mark.slow
def test_the_example_prints_what_the_document_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study.main(str(tmp_path), processes=0)
    printed = capsys.readouterr().out
    assert printed == "spread: 0.0 of 20 large pods\npack: 10.9 of 20 large pods\n"
    document = (Path(__file__).parents[3] / "docs" / "sweeps.md").read_text()
    assert f"```text\n{printed}```" in document
    study.main(str(tmp_path), processes=0)
    assert capsys.readouterr().out == printed
