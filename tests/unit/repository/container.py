"""Carries out the steps of the Dockerfile without a container engine.

The build stage runs as written: COPY copies, RUN runs in bash, with the absolute paths the
Dockerfile declares moved below a directory of our own. Two things differ, because tests use no
network: steps that install from a lock file copy those distributions from the environment of the
tests instead, with pip into an environment that has it, and the base image is the interpreter and
the libraries of this machine.

The commands then run as the image's user: `run` starts them where the build stage left them,
`run_inside` in the final image's root directory (which needs root). This does not imitate an
engine: no namespaces, no base image, no registry.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from tests.unit.repository.tree import ROOT

MOVED: Final = re.compile(r"(?<![\w./-])/(?=(?:source|wheels|builder|image|opt/kubestow)\b)")
"""The root of the absolute paths that stand for the image's own folders."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a Dockerfile, continuation lines joined."""

    keyword: str
    value: str


@dataclass(frozen=True, slots=True)
class Stage:
    """One `FROM` and the instructions below it; `name` is empty without `AS`."""

    base: str
    name: str
    instructions: tuple[Instruction, ...]

    def values(self, keyword: str) -> list[str]:
        """Return the values of all instructions of one keyword, in order."""
        return [each.value for each in self.instructions if each.keyword == keyword]

    def environment(self) -> dict[str, str]:
        """Return what ENV sets."""
        pairs = (pair for value in self.values("ENV") for pair in value.split())
        return dict(pair.split("=", 1) for pair in pairs)

    def last(self, keyword: str) -> str:
        """Return the value that is in force at the end of the stage."""
        return self.values(keyword)[-1]


def read_dockerfile(text: str) -> list[Stage]:
    """Return the stages of a Dockerfile; what stands before the first FROM is dropped."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    stages: list[Stage] = []
    for line in filter(None, map(str.strip, joined.splitlines())):
        keyword, value = line.split(maxsplit=1)
        if keyword == "FROM":
            base, _, name = value.partition(" AS ")
            stages.append(Stage(base, name, ()))
        elif stages:
            last = stages[-1]
            added = (*last.instructions, Instruction(keyword, value.strip()))
            stages[-1] = Stage(last.base, last.name, added)
    return stages


@dataclass(frozen=True, slots=True)
class Image:
    """Output of the build stage: the environment and the wheel, below `root`."""

    root: Path
    final: Stage

    @property
    def prefix(self) -> Path:
        """The environment as the build stage made it."""
        return self.root / "opt" / "kubestow"

    @property
    def content(self) -> Path:
        """The root directory of the final image; absolute paths in it are those outside."""
        return self.root / "image"

    @property
    def wheel(self) -> Path:
        """The wheel that was installed into it."""
        (wheel,) = (self.root / "wheels").glob("*.whl")
        return wheel

    def run(
        self, arguments: Sequence[str], directory: Path, *, without: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as the image's user with the image's environment variables.

        Args:
            arguments: a name found on the image's PATH, and what follows it.
            directory: the working directory.
            without: an environment variable of the image to leave out.
        """
        settings = self.final.environment()
        settings.pop(without, None)
        return self._run([*unprivileged(), *self._command(arguments)], settings, directory)

    def run_inside(
        self, arguments: Sequence[str], user: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a chroot of the final image, with nothing else there.

        Args:
            arguments: a path, or a name found on the image's PATH, and what follows it.
            user: UID:GID to run as; default: the image's.
        """
        user = user or self.final.last("USER")
        chroot = shutil.which("chroot")
        assert chroot is not None
        command = [chroot, "--groups=", f"--userspec={user}", str(self.content)]
        return self._run([*command, *self._command(arguments)], self.final.environment(), Path("/"))

    def _command(self, arguments: Sequence[str]) -> list[str]:
        # Joining keeps an absolute path as it is.
        return [str(self.prefix / "bin" / arguments[0]), *arguments[1:]]

    def _run(
        self, command: Sequence[str], settings: dict[str, str], directory: Path
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=directory,
            env={**settings, "PATH": str(self.prefix / "bin"), "HOME": "/nonexistent"},
            check=False,
            capture_output=True,
            text=True,
            timeout=600,
        )


def build(root: Path) -> Image:
    """Carry out the build stage below `root`.

    Raises:
        AssertionError: a step failed; the text has its output.
    """
    first, final = read_dockerfile((ROOT / "Dockerfile").read_text())
    directory = root
    for instruction in first.instructions:
        match instruction.keyword:
            case "WORKDIR":
                directory = root / instruction.value.lstrip("/")
                directory.mkdir(parents=True, exist_ok=True)
            case "COPY":
                _copy(instruction.value.split(), directory)
            case "RUN":
                _run_step(MOVED.sub(f"{root}/", instruction.value), directory)
            case "ENV":
                continue
            case other:
                raise AssertionError(f"the build stage uses {other}; teach build() what it does")
    return Image(root, final)


def set_writable(root: Path, *, writable: bool) -> None:
    """Give or take leave to write, for the owner, below `root`; nobody else has it anyway."""
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | 0o200 if writable else mode & ~0o222)


def _copy(words: list[str], directory: Path) -> None:
    *sources, target = words
    destination = directory / target
    for source in sources:
        origin = ROOT / source
        if origin.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
            shutil.copytree(origin, destination, ignore=ignored, dirs_exist_ok=True)
        else:
            destination.mkdir(parents=True, exist_ok=True)
            shutil.copy(origin, destination)


def _run(command: str, directory: Path) -> None:
    result = subprocess.run(
        ["bash", "-euc", command],
        cwd=directory,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_INDEX": "1",
            "PIP_NO_DEPS": "1",
            # pip reads the variable into the option's destination, so "0" means no isolation.
            "PIP_NO_BUILD_ISOLATION": "0",
        },
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == 0, (
        f"RUN {command}\n{result.stdout}{result.stderr}\n"
        "The build needs hatchling in the environment of the tests: make venv"
    )


LOCKED_INSTALL: Final = re.compile(
    r"(?P<before>.*) && (?P<python>\S+ -m pip(?: --python (?P<target>\S+))?) install"
    r" --require-hashes --requirement (?P<lock>\S+)"
)
"""A step that makes an environment and fills it from a lock file."""


def _run_step(command: str, directory: Path) -> None:
    """Run a step; one that installs from a lock file without the network."""
    step = LOCKED_INSTALL.fullmatch(command)
    if step is None:
        _run(command, directory)
        return
    bare = "-m venv --without-pip"
    _run(re.sub("-m venv(?: --without-pip)?", bare, step["before"]), directory)
    interpreter = Path(step["target"] or step["python"].split()[0])
    (site_packages,) = interpreter.parent.parent.glob("lib/python*/site-packages")
    names = locked_distributions(directory / step["lock"])
    if bare not in step["before"]:
        names.append("pip")
    for name in names:
        _copy_distribution(name, site_packages)


def locked_distributions(lock: Path) -> list[str]:
    """Return the names of the distributions that a lock file pins for this platform."""
    pins = (line.rstrip(" \\") for line in lock.read_text().splitlines() if "==" in line)
    requirements = [Requirement(pin) for pin in pins]
    return [each.name for each in requirements if each.marker is None or each.marker.evaluate()]


def _copy_distribution(name: str, site_packages: Path) -> None:
    """Copy an installed distribution without its commands; skips the test if it is missing."""
    try:
        found = distribution(name)
    except PackageNotFoundError:
        pytest.skip(f"{name}, which a lock file pins, is not installed: make venv")
    for file in found.files or ():
        if file.parts[0] == "..":
            continue
        target = site_packages / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file.locate(), target)


@cache
def unprivileged() -> tuple[str, ...]:
    """Return the words that make a command run as the image's user; none if we are not root.

    Where that user may not even read the interpreter of the tests (it lies in root's home), it gets
    leave to read everything; it still can write nothing.
    """
    if os.geteuid() != 0:
        return ()
    (_, final) = read_dockerfile((ROOT / "Dockerfile").read_text())
    user, _, group = final.last("USER").partition(":")
    # By its full path: the image's PATH has the image's commands only.
    setpriv = shutil.which("setpriv")
    assert setpriv is not None, "install setpriv (util-linux), or run the tests as an ordinary user"
    plain = (setpriv, f"--reuid={user}", f"--regid={group}", "--clear-groups", "--no-new-privs")
    probe = subprocess.run(
        [*plain, sys.executable, "-c", "import msgspec"], check=False, capture_output=True
    )
    if probe.returncode == 0:
        return plain
    return (*plain, "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")


def entrypoint(stage: Stage) -> list[str]:
    """Return ENTRYPOINT, which must be in the form that needs no shell."""
    words = json.loads(stage.last("ENTRYPOINT"))
    assert isinstance(words, list)
    return [str(word) for word in words]
