"""Fuzz targets: each takes bytes and raises only when it found a fault.

Imported under atheris's instrumentation, and without it by the replay of the corpus.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import msgspec

import plugins
from benchmarks.engine_world import PROFILE, EngineWorld
from config import Configuration, load_configuration, to_data, to_yaml
from scheduler.api.meta import LabelSelector
from scheduler.api.pod import Pod
from scheduler.api.quantity import QuantityError, parse
from scheduler.api.selectors import SelectorError, compile_label_selector
from scheduler.client.http.parser import ProtocolError, ResponseParser
from scheduler.client.resources import PODS, RESOURCES
from scheduler.client.watch_decoding import LineSplitter, WatchDecodeError, WatchDecoder
from scheduler.framework import ConfigurationError
from scheduler.framework.registry import Registry
from scheduler.service.options import available_plugins

Target = Callable[[bytes], None]

_DECODERS: Final = [WatchDecoder(resource) for resource in RESOURCES.values()]
_SELECTOR: Final = msgspec.json.Decoder(LabelSelector)
_LABELS: Final[tuple[dict[str, str], ...]] = ({}, {"a": "1"}, {"a": "1", "b": "x"})
MAX_CHUNK_BYTES: Final = 16


def watch(data: bytes) -> None:
    """Decode lines of a watch as objects of every resource."""
    for decoder in _DECODERS:
        try:
            for line in LineSplitter().feed(data + b"\n"):
                decoder.decode(line)
        except WatchDecodeError:
            continue


def http(data: bytes) -> None:
    """Parse a response split into chunks in two ways: both results must be equal."""
    size = (data[0] if data else 0) % MAX_CHUNK_BYTES + 1
    whole = _parsed([data[1:]])
    pieces = [data[begin : begin + size] for begin in range(1, len(data), size)]
    assert _parsed(pieces) == whole, "the result depends on the chunks"


def _parsed(pieces: list[bytes]) -> tuple[int, bytes, bool] | None:
    parser = ResponseParser()
    body = b""
    try:
        for piece in pieces:
            if parser.is_complete():
                break
            body += parser.feed(piece)
    except ProtocolError:
        return None
    finally:
        parser.close()
    return parser.status, body, parser.is_complete()


def configuration(data: bytes) -> None:
    """Read a KubeSchedulerConfiguration; if valid, its printed form must be valid, too."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    try:
        loaded = _loaded(text)
    except ConfigurationError:
        return
    printed = to_yaml(to_data(loaded))
    assert to_yaml(to_data(_loaded(printed))) == printed


@cache
def _registry() -> Registry:
    return available_plugins()


def _loaded(text: str) -> Configuration:
    return load_configuration(
        text,
        registry=_registry(),
        default_plugins=plugins.DEFAULT_PLUGINS,
    )


def quantity(data: bytes) -> None:
    """Parse a quantity; its canonical text must have the same value."""
    try:
        amount = parse(data.decode(errors="surrogateescape"))
    except QuantityError:
        return
    assert parse(str(amount)) == amount
    assert (amount.value() > 0) == (amount.nano > 0)


def selector(data: bytes) -> None:
    """Compile a label selector and match it; labels that match must have its required pairs."""
    try:
        compiled = compile_label_selector(_SELECTOR.decode(data))
    except (SelectorError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    for labels in _LABELS:
        matched = compiled.matches(labels)
        needed = compiled.needed_labels
        if matched and needed is not None:
            assert needed & set(labels.items())


def attempt(data: bytes) -> None:
    """Schedule a pod on four nodes: no attempt may end with an internal error."""
    try:
        pod = PODS.decode(data)
    except (ValueError, msgspec.MsgspecError):
        return
    if not pod.metadata.name or pod.spec.node_name:
        return
    spec = msgspec.structs.replace(pod.spec, scheduler_name=PROFILE)
    metadata = msgspec.structs.replace(pod.metadata, uid="uid")
    _schedule(msgspec.structs.replace(pod, spec=spec, metadata=metadata))


def _schedule(pod: Pod) -> None:
    world = _world()
    try:
        world.signatures.intern(pod)
    except (ValueError, OverflowError):
        # As in the reflector: the object is named and skipped.
        return
    try:
        outcome = world.attempt(pod)
        assert outcome.fault is None, outcome.fault
        if outcome.failure is None:
            world.forget(outcome)
    finally:
        world.signatures.release(pod)


@cache
def _world() -> EngineWorld:
    return EngineWorld(4)


TARGETS: Final[dict[str, Target]] = {
    each.__name__: each for each in (attempt, configuration, http, quantity, selector, watch)
}
