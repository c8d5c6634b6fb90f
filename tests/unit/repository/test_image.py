"""The container image: what its Dockerfile promises, and that its environment works as promised.

No engine is needed; see `container.py` for what is carried out and what is not.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from tests.unit.repository.container import Image, entrypoint, read_dockerfile
from tests.unit.repository.tree import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_the_dockerfile_has_a_build_stage_and_a_final_one_that_runs_nothing() -> None:
    first, final = read_dockerfile(DOCKERFILE)
    assert first.name == "build"
    assert final.values("RUN") == []
    assert final.values("COPY") == ["--from=build /opt/kubestow /opt/kubestow"]


def test_the_image_starts_as_a_numeric_user_without_a_shell() -> None:
    _, final = read_dockerfile(DOCKERFILE)
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", final.last("USER"))
    assert entrypoint(final) == ["kubestow", "run"]
    assert final.values("EXPOSE") == ["10259"]


def test_everything_that_is_copied_passes_the_ignore_file() -> None:
    allowed = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    first, _ = read_dockerfile(DOCKERFILE)
    copied = {word for value in first.values("COPY") for word in value.split()[:-1]}
    assert copied == allowed


def test_continuation_lines_and_comments_are_read() -> None:
    text = "ARG A=1\nFROM x AS one\n# no\nRUN a \\\n    && b\nFROM y\nENV K=v \\\n  L=w\n"
    one, two = read_dockerfile(text)
    assert (one.base, one.name, one.values("RUN")) == ("x", "one", ["a && b"])
    assert (two.base, two.environment()) == ("y", {"K": "v", "L": "w"})


@pytest.mark.slow
def test_every_file_of_the_environment_is_readable_for_everybody(image: Image) -> None:
    closed = [
        path
        for path in image.prefix.rglob("*")
        if not path.is_symlink() and not path.stat().st_mode & stat.S_IROTH
    ]
    assert not closed


@pytest.mark.slow
def test_bytecode_is_there_because_nobody_can_write_it_later(image: Image) -> None:
    (site_packages,) = image.prefix.glob("lib/python*/site-packages")
    sources = list((site_packages / "scheduler").rglob("*.py"))
    assert sources
    assert not [
        path for path in sources if not list(path.parent.glob(f"__pycache__/{path.stem}.*"))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kubestow", "kube-scheduler"])
def test_both_names_answer_an_unprivileged_user_in_a_read_only_directory(
    image: Image, open_directory: Path, name: str
) -> None:
    before = sorted(image.prefix.rglob("*"))
    open_directory.chmod(0o555)
    result = image.run([name, "--version"], open_directory)
    assert result.returncode == 0, result.stderr
    assert "0.1.0" in result.stdout
    assert result.stderr == ""
    assert list(open_directory.iterdir()) == []
    assert sorted(image.prefix.rglob("*")) == before


@pytest.mark.slow
@pytest.mark.parametrize("words", [["kubestow", "run"], ["kube-scheduler"]], ids=" ".join)
def test_both_names_take_the_flags_of_kube_scheduler(
    image: Image, open_directory: Path, words: list[str]
) -> None:
    result = image.run([*words, "--help"], open_directory)
    assert result.returncode == 0, result.stderr
    for flag in ("--config", "--leader-elect", "--secure-port", "--feature-gates"):
        assert flag in result.stdout


@pytest.mark.slow
def test_the_user_of_the_image_cannot_write_into_it(image: Image) -> None:
    """Checks the harness: without this, the tests above would prove nothing when run as root."""
    program = "import os, sys; sys.exit(os.geteuid() == 0 or os.access(sys.prefix, os.W_OK))"
    assert image.run(["python", "-c", program], Path("/")).returncode == 0
