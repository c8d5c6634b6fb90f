"""Redaction keeps every word of the messages of plugins, groups, engine and queue."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import get_args

import msgspec

import plugins
import scheduler.engine
import scheduler.groups
import scheduler.queue
from scheduler.framework import Status
from scheduler.recording.redaction import Redactor

_PLACES = re.compile(r'"?\{[^}]*\}"?s?')


def modules() -> Iterator[ModuleType]:
    for package in (plugins, scheduler.engine, scheduler.groups, scheduler.queue):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(module.name)


def texts() -> Iterator[tuple[str, str]]:
    """Yield the constants of all modules that are sentences, and the messages of statuses."""
    for module in modules():
        for name, value in vars(module).items():
            values = value.values() if isinstance(value, Mapping) else (value,)
            for each in values:
                text = each.message if isinstance(each, Status) else each
                if name.isupper() and isinstance(text, str) and " " in text:
                    yield f"{module.__name__}.{name}", _PLACES.sub(" 0 ", text)


def test_every_word_of_a_message_is_kept() -> None:
    redactor, found = Redactor(b"salt"), set(texts())
    assert len(found) > 100
    kept = {(name, redactor.text(text)) for name, text in found}
    assert kept - found == set(), "add their words to scheduler/sanitizing/vocabulary.py"


class _NoArguments(msgspec.Struct):
    pass


def test_every_value_that_an_argument_may_have_is_kept() -> None:
    """A redacted configuration must be valid, since a replay begins with it."""
    values = {
        value
        for plugin in plugins.in_tree()
        for each in msgspec.structs.fields(getattr(plugin, "args_type", _NoArguments))
        for value in get_args(each.type)
        if isinstance(value, str)
    }
    assert {"Always", "Auto", "Never"} <= values
    redactor = Redactor(b"salt")
    assert {value for value in values if redactor.text(value) != value} == set()
