"""The container image: what its Dockerfile promises, and that its environment works as promised.

No engine is needed; see `container.py` for what is carried out and what is not.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from pathlib import Path

import pytest

from devtools.release import project_version
from scheduler.cli.main import NO_SIMULATOR
from tests.unit.repository.container import Image, entrypoint, read_dockerfile
from tests.unit.repository.tree import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_the_dockerfile_has_a_build_stage_and_a_final_one_that_runs_nothing() -> None:
    first, final = read_dockerfile(DOCKERFILE)
    assert first.name == "build"
    assert final.values("RUN") == []
    assert final.values("COPY") == ["--from=build /image /"]
    assert final.base == "scratch"


def test_the_base_image_has_its_full_name_and_is_pinned_by_digest() -> None:
    (base,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"docker\.io/library/python:3\.\d+-[a-z-]+@sha256:[0-9a-f]{64}", base)
    first, _ = read_dockerfile(DOCKERFILE)
    assert first.base == "${PYTHON_IMAGE}"


def test_every_download_is_checked_against_a_hash() -> None:
    first, _ = read_dockerfile(DOCKERFILE)
    installs = [
        value for value in first.values("RUN") if re.search(r"pip.* (install|wheel)", value)
    ]
    assert len(installs) == 4
    for value in installs:
        # Nothing but the wheel that was just built comes without a hash.
        assert "--require-hashes" in value or "--no-deps" in value


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
    assert project_version() in result.stdout
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


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may chroot")


@pytest.mark.slow
@needs_root
@pytest.mark.parametrize("name", ["kubestow", "kube-scheduler"])
def test_both_names_start_with_nothing_but_the_image(image: Image, name: str) -> None:
    result = image.run_inside([name, "--version"])
    assert result.returncode == 0, result.stderr
    assert project_version() in result.stdout


@pytest.mark.slow
@needs_root
@pytest.mark.parametrize("path", ["/bin/kube-scheduler", "/usr/local/bin/kube-scheduler"])
def test_it_answers_at_the_paths_of_kube_scheduler_as_any_user(image: Image, path: str) -> None:
    # As OpenShift assigns them: a large UID, group 0.
    result = image.run_inside([path, "--help"], user="1000680000:0")
    assert result.returncode == 0, result.stderr
    assert "Usage: kube-scheduler [FLAGS]" in result.stdout


@pytest.mark.slow
@needs_root
def test_the_image_has_every_library_that_its_modules_load(image: Image) -> None:
    """Imports every module of ours, which imports all dependencies, and opens a TLS context.

    Some need what only tests have, pytest and Hypothesis, and some the simulator.
    """
    lacking = (
        "kubestow.pytest_plugin",
        "kubestow.sweeps",
        "kubestow.testing.strategies",
        "scheduler.cli.plugin.demo_run",
        "scheduler.cli.plugin.trying",
        "scheduler.testing.strategies",
    )
    program = (
        "import importlib, pkgutil, ssl\n"
        "import config, kubestow, plugins, scheduler\n"
        "for package in (config, kubestow, plugins, scheduler):\n"
        "    for each in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        f"        if not each.name.endswith(('__main__', *{lacking})):\n"
        "            importlib.import_module(each.name)\n"
        "print(len(ssl.create_default_context().get_ca_certs()))\n"
    )
    result = image.run_inside(["python", "-c", program])
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 0, "no authorities to trust"


@pytest.mark.slow
@needs_root
def test_the_image_lacks_the_simulator_and_says_so(image: Image) -> None:
    assert not list(image.content.rglob("site-packages/simulator"))
    assert list(image.content.rglob("site-packages/scheduler"))
    result = image.run_inside(["kubestow", "demo"])
    assert result.returncode == 1
    assert result.stderr == f"Error: {NO_SIMULATOR}\n"


@pytest.mark.slow
def test_the_image_has_no_shell_no_installer_and_no_development_package(image: Image) -> None:
    programs = {
        path.name
        for path in image.content.rglob("bin/*")
        if path.is_symlink() or path.stat().st_mode & stat.S_IXUSR
    }
    assert {re.sub(r"3(\.\d+)?$", "", name) for name in programs} == {
        "kubestow",
        "kube-scheduler",
        "python",
    }
    modules = {path.name for path in image.content.rglob("lib/python3*/**/*") if path.is_dir()}
    assert not {"pip", "setuptools", "ensurepip", "pytest", "mypy", "hypothesis"} & modules


@pytest.mark.slow
def test_the_image_says_which_debian_packages_its_libraries_are_of(image: Image) -> None:
    if shutil.which("dpkg") is None:
        pytest.skip("no Debian: the libraries of this machine belong to no package")
    records = {path.name: path.read_text() for path in image.content.glob("**/status.d/*")}
    assert records["libc6"].startswith("Package: libc6\n")
    assert "\nVersion: " in records["libc6"]
    assert any(name.startswith("libssl") for name in records)
