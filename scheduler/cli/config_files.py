"""The files that `kubestow config validate` is given: paths, folders, and standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config.manifests import FoundConfiguration, find_configurations
from scheduler.explain.records.wording import counted
from scheduler.files import read_file, read_stream, reason
from scheduler.framework.status import ConfigurationError
from scheduler.sanitizing.encodings import as_utf8

STDIN: Final = "-"
SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """One configuration with the name for messages, or the problems of getting it."""

    name: str
    configuration: FoundConfiguration | None = None
    problems: tuple[str, ...] = ()


def sources(arguments: tuple[str, ...]) -> Iterator[ConfigSource]:
    """Yield the configurations of all arguments; what cannot be read becomes a problem."""
    for argument in arguments:
        if argument != STDIN and Path(argument).is_dir():
            yield from _folder(Path(argument))
        else:
            yield from _file(argument, only_mentioned=False)


def _folder(folder: Path) -> Iterator[ConfigSource]:
    # Hidden entries are left out: a mounted ConfigMap has its files in ..data as well.
    paths = [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix in SUFFIXES
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and not path.is_dir()
    ]
    found = [each for path in paths for each in _file(str(path), only_mentioned=True)]
    if not found:
        searched = counted(len(paths), "YAML or JSON file")
        problem = f"no KubeSchedulerConfiguration in {searched} below this directory"
        found = [ConfigSource(str(folder), problems=(problem,))]
    yield from found


def _file(argument: str, *, only_mentioned: bool) -> Iterator[ConfigSource]:
    name = "<stdin>" if argument == STDIN else argument
    try:
        found = find_configurations(_read(argument), only_mentioned=only_mentioned)
    except ConfigurationError as error:
        yield ConfigSource(name, problems=error.problems)
        return
    for each in found:
        yield ConfigSource(f"{name}: {each.path}" if each.path else name, each)


def _read(argument: str) -> str:
    try:
        if argument == STDIN:
            data = read_stream(sys.stdin.buffer)
        else:
            data = read_file(argument, pipes=True)
        data = as_utf8(data)
    except OSError as error:
        raise ConfigurationError(f"cannot be read: {reason(error)}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"not {error.encoding} text: byte {error.start}") from error
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"not UTF-8 text: byte {error.start} is wrong") from error
