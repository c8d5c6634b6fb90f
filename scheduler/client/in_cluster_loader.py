"""The in-cluster configuration of `kubernetes_asyncio`, without the generated code around it.

Importing anything below `kubernetes_asyncio` imports all of it: a thousand modules of models and
verbs, 50 MiB and a third of a second, of which the loader uses two names in annotations. So the
loader is imported with stand-ins for the two packages that import the rest, and for a module that
is not used. `load` removes the stand-ins: a later import of `kubernetes_asyncio` (by a plugin) gets
the real package.

If that fails, for example because a release has another layout, the plain import is used: larger
and slower, but correct. Not safe against another thread that imports `kubernetes_asyncio` at the
same time; the process loads its configuration before it starts threads.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Final

import structlog

_log = structlog.get_logger(__name__)

PACKAGE: Final = "kubernetes_asyncio"
CLIENT: Final = f"{PACKAGE}.client"

_NAMES_OF_CLIENT: Final = ("ApiClient", "Configuration")
"""Names that the loader and its neighbours import, used only if they get no target."""

OPENID: Final = f"{PACKAGE}.config.openid"
_NAMES_OF_OPENID: Final = ("OpenIDRequestor",)
"""Never used, since identity providers are ours (`oidc`). The module imports aiohttp, which takes
a third of the start-up time of a command that asks a scheduler."""


@dataclass(frozen=True, slots=True)
class Loaders:
    """The class of `kubernetes_asyncio` that reads the configuration, and its error."""

    in_cluster_config_loader: Any
    config_exception: type[Exception]


class _NotLoaded:
    """Stand-in for a generated class that is not used."""

    def __init__(self, *_: object, **__: object) -> None:
        raise RuntimeError(f"{type(self).__name__} was not loaded: pass load_and_set() a target")


@cache
def load() -> Loaders:
    """Return the loader, imported on the first call."""
    if PACKAGE in sys.modules:
        # Imported already: a stand-in would save nothing.
        return _import()
    try:
        with _stand_ins():
            return _import()
    # The boundary to another project's layout: anything may be missing, or raise.
    except Exception as error:  # noqa: BLE001
        _log.info("kubernetes_asyncio is imported whole", reason=repr(error))
    return _import()


def _import() -> Loaders:
    with _home_directory():
        in_cluster = importlib.import_module(f"{PACKAGE}.config.incluster_config")
    problems = importlib.import_module(f"{PACKAGE}.config.config_exception")
    return Loaders(in_cluster.InClusterConfigLoader, problems.ConfigException)


@contextmanager
def _home_directory() -> Iterator[None]:
    """Set HOME, if unset, while a module is imported that calls `Path.home()`.

    Without HOME that raises for a user who is not in /etc/passwd, as those that OpenShift assigns.
    """
    if "HOME" in os.environ:
        yield
        return
    os.environ["HOME"] = "/"
    try:
        yield
    finally:
        del os.environ["HOME"]


@contextmanager
def _stand_ins() -> Iterator[None]:
    """Replace the heavy packages by empty ones, and remove these afterwards."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{PACKAGE} is not an installed package", name=PACKAGE)
    folders = list(spec.submodule_search_locations)
    package, client = ModuleType(PACKAGE), ModuleType(CLIENT)
    package.__path__ = folders
    client.__path__ = [f"{folder}/client" for folder in folders]
    openid = ModuleType(OPENID)
    for module, names in ((client, _NAMES_OF_CLIENT), (openid, _NAMES_OF_OPENID)):
        for name in names:
            setattr(module, name, type(name, (_NotLoaded,), {}))
    sys.modules.update({PACKAGE: package, CLIENT: client, OPENID: openid})
    try:
        yield
    finally:
        for name in [*sys.modules]:
            if name == PACKAGE or name.startswith(f"{PACKAGE}."):
                del sys.modules[name]
