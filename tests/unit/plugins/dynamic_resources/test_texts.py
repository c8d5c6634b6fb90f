"""The texts of the plugin consist of words that redaction keeps: else they would be unreadable."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping

import pytest

from plugins import dynamic_resources
from scheduler.framework import Status
from scheduler.text.vocabulary import KNOWN_WORDS

_PLACES = re.compile(r"\{[^}]*\}s?")
_WORDS = re.compile(r"[A-Za-z][\w-]*(?:\.k8s\.io)?")


def texts() -> Iterator[str]:
    """Yield the constants of all modules that are sentences, and the messages of statuses."""
    for module in pkgutil.iter_modules(dynamic_resources.__path__):
        found = importlib.import_module(f"{dynamic_resources.__name__}.{module.name}")
        for name, value in vars(found).items():
            values = value.values() if isinstance(value, Mapping) else (value,)
            for each in values:
                if isinstance(each, Status):
                    yield each.message
                elif isinstance(each, str) and " " in each and name.isupper():
                    yield each


@pytest.mark.parametrize("text", sorted(set(texts())))
def test_redaction_keeps_every_word_of_a_message(text: str) -> None:
    words = {word.removesuffix(".k8s.io") for word in _WORDS.findall(_PLACES.sub("", text))}
    assert words - KNOWN_WORDS - {"resource"} == set()
