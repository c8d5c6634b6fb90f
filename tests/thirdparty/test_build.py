"""Programs to build, and tests without them; nothing is compiled here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from devtools.go_programs import FLAGS, STRIPPED, BuildError
from tests.thirdparty import build, conftest


def test_each_module_builds_the_program_of_its_name() -> None:
    for name, program in build.programs().items():
        assert program.name == name
        assert (
            f"module kubestow.test/thirdparty/{name}\n" in (program.module / "go.mod").read_text()
        )
        assert (program.module / "go.sum").is_file()


def test_no_module_is_replaced() -> None:
    """The tests run what was published."""
    for program in build.programs().values():
        text = (program.module / "go.mod").read_text()
        assert not re.search(r"^replace\b", text, re.MULTILINE), program.name


def test_an_unknown_program_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"no folder nothing in .*; there are .*kueue"):
        build.build(["nothing"], tmp_path)


def test_a_go_mod_names_one_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "MODULES", tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "go.mod").write_text("module a\n")
    with pytest.raises(BuildError, match="exactly one line `tool PACKAGE`; it has 0"):
        build.programs()


@pytest.mark.parametrize(
    ("required", "outcome"),
    [("1", pytest.fail.Exception), ("", pytest.skip.Exception)],
    ids=["required", "optional"],
)
def test_missing_programs_skip_a_test_unless_they_are_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, required: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setattr(conftest, "BUILD_DIRECTORY", tmp_path)
    monkeypatch.setenv("KUBESTOW_REQUIRE_THIRDPARTY", required)
    with pytest.raises(
        outcome, match=r"no kueue, or an old one, in .*: run `make thirdparty-build`"
    ):
        conftest.find_programs("kueue")


def test_kwok_is_built_of_what_the_control_plane_has_compiled() -> None:
    # Else its build takes minutes in place of half a minute: update its go.mod with that one.
    assert build.programs()["kwok"].flags == (*FLAGS, *STRIPPED)
