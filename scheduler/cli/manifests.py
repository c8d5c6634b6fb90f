"""The objects of the manifests that a command is given: a file, or standard input."""

from __future__ import annotations

import json
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from scheduler.cli.pod_format import one_line
from scheduler.files import read_file, read_stream, reason

MAX_BYTES: Final = 50_000
STDIN: Final = "-"


class RepeatedKeyError(ValueError):
    """An object of JSON has a key twice."""


def documents(file: str, option: str) -> list[Any]:
    """Return the objects of a file of YAML or JSON: its values, and the items of Lists.

    Raises:
        click.BadParameter: it cannot be read; the text names the file, the line and what to do.
    """
    import yaml

    from scheduler.sanitizing.encodings import as_utf8
    from scheduler.sanitizing.lookalikes import advice
    from scheduler.sanitizing.yaml_limits import Loader, check_limits, located

    data = b""
    try:
        if file == STDIN:
            data = as_utf8(read_stream(sys.stdin.buffer, MAX_BYTES))
        else:
            data = as_utf8(read_file(file, MAX_BYTES, pipes=True))
        if data.lstrip()[:1] == b"{":
            with suppress(json.JSONDecodeError):  # YAML in braces looks the same
                return [item for each in _values(data.decode()) for item in _items(each)]
        check_limits(data)
        found = [each for each in yaml.load_all(data, Loader=Loader) if each is not None]
        return [item for each in found for item in _items(each)]
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        line, problem = located(error)
        problem = reason(error) if isinstance(error, OSError) else problem
        where = shown(file) + (f":{line}" if line else "")
        hint = advice(data)
        text = f"{where}: {one_line(problem)}" + (hint and f"; {hint}")
        raise click.BadParameter(text, param_hint=f"'{option}'") from error


def _values(text: str) -> list[Any]:
    """Return the values of JSON, one or several in a row. Raises JSONDecodeError."""
    decoder, found, end = json.JSONDecoder(object_pairs_hook=_unique), list[Any](), 0
    while text := text[end:].lstrip():
        value, end = decoder.raw_decode(text)
        found.append(value)
    return found


def _items(value: Any) -> list[Any]:
    """Return the items of a List as kubectl prints them, or of one of a kind; else the value."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or not kind.endswith("List"):
        return [value]
    items = value.get("items")
    if not isinstance(items, list):
        return [value]
    # Items of a PodList have no kind of their own.
    own = {} if kind == "List" else {"kind": kind.removesuffix("List")}
    if own and "apiVersion" in value:
        own["apiVersion"] = value["apiVersion"]
    return [{**own, **each} if isinstance(each, dict) else each for each in items]


def named(file: str) -> str:
    """Return a file as messages name it that have no room for its folder."""
    return shown(file) if file == STDIN else Path(file).name


def shown(file: str) -> str:
    """Return a file as messages name it."""
    return "standard input" if file == STDIN else file


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise RepeatedKeyError(f'the key "{twice:.60}" is repeated, so that a value would be lost')
    return found
