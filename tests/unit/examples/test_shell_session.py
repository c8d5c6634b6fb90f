"""Documents are executed as a reader would, and each way to disagree with one is an error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from devtools import shell_session
from devtools.markdown import blocks
from devtools.shell_session import DocumentError, ShellSession


def follow(folder: Path, document: str) -> None:
    path = folder / "document.md"
    path.write_text(document)
    with ShellSession(folder, {"PATH": os.environ["PATH"]}) as session:
        session.follow(blocks(path, folder))


def fenced(language: str, *lines: str, mark: str = "") -> str:
    comment = f"<!-- {mark} -->\n" if mark else ""
    return "\n".join([f"{comment}```{language}", *lines, "```", "", ""])


def test_files_are_written_and_variables_and_directories_last(tmp_path: Path) -> None:
    follow(
        tmp_path,
        fenced('yaml title="sub/a.yaml"', "key: value")
        + fenced("sh", "export NAME='a b'", "cd sub")
        + fenced("sh", 'echo "$NAME"; cat a.yaml')
        + fenced("text", "a b", "key:   value"),
    )


def test_dots_stand_for_any_text(tmp_path: Path) -> None:
    follow(tmp_path, fenced("sh", "seq 20") + fenced("text", "1", "...", "20"))


def test_other_output_is_an_error_that_shows_both(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"document.md:1:\necho a\n.*\nb\n.*\na\n"):
        follow(tmp_path, fenced("sh", "echo a") + fenced("text", "b"))


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (fenced("sh", "false | true"), "status 1 instead of 0"),
        (fenced("sh", "echo $MISSING"), "unbound variable"),
        (fenced("sh", "true", mark="exit 1"), "status 0 instead of 1"),
        (fenced("sh", "true", mark="sometimes"), "unknown mark 'sometimes'"),
        (fenced("yaml", "a: b"), "this is none"),
        (fenced("sh", "true") + fenced('txt title="a"', "b") + fenced("text", "c"), "this is none"),
        (fenced("sh", "export A=...", mark="as printed"), "no terminal has printed"),
    ],
)
def test_what_a_reader_would_stumble_over_is_an_error(
    tmp_path: Path, block: str, message: str
) -> None:
    with pytest.raises(DocumentError, match=message):
        follow(tmp_path, block)


def test_a_block_that_does_not_end_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_session, "LIMIT_SECONDS", 0.2)
    with pytest.raises(DocumentError, match=r"document.md:1: not ended after 0.2 s\nexec"):
        follow(tmp_path, fenced("sh", "exec sleep 600"))


def test_an_expected_status_and_what_cannot_run_are_no_errors(tmp_path: Path) -> None:
    follow(
        tmp_path,
        fenced("sh", "echo no; exit 3", mark="exit 3")
        + fenced("text", "no")
        + fenced("sh", "touch ran", mark="not run: it needs a cluster"),
    )
    assert not (tmp_path / "ran").exists()


def test_a_block_is_repeated_until_it_succeeds_as_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_session, "_POLL_SECONDS", 0.0)
    count = "echo . >> tries; test $(wc -l < tries) = 3; echo done"
    follow(tmp_path, fenced("sh", count, mark="repeat") + fenced("text", "done"))
    follow(
        tmp_path, fenced("sh", "echo . >> tries; test $(wc -l < tries) -lt 5", mark="repeat exit 1")
    )
    assert len((tmp_path / "tries").read_text().split()) == 5


def test_another_terminal_runs_beside_until_the_end_and_its_lines_can_be_copied(
    tmp_path: Path,
) -> None:
    serving = "echo 'export PLACE=/var/x1/file'; echo ready; echo $$ > pid; exec sleep 600"
    follow(
        tmp_path,
        fenced("sh", serving, mark="another terminal")
        + fenced("text", "...", "ready")
        + fenced("sh", "export PLACE=/var/.../file", mark="as printed")
        + fenced("sh", "echo $PLACE; kill -0 $(cat pid)")
        + fenced("text", "/var/x1/file"),
    )
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_another_terminal_that_ends_without_the_output_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="--- printed\nno such port"):
        follow(
            tmp_path,
            fenced("sh", "echo no such port", mark="another terminal") + fenced("text", "ready"),
        )
