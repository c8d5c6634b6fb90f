"""The running process: wiring, event handlers, scheduling loop, binding cycles, metrics, endpoints.

Public: `Application` (or `run`, which also owns the event loop and the exit code), and the options
they are started with. Names are loaded on first use: `--version` must not import the configuration,
nor a reader of the configuration the whole stack.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.service.application import Application, run
    from scheduler.service.options import (
        AccessOptions,
        LoggingOptions,
        RunOptions,
        ServingOptions,
        available_plugins,
        missing_plugins,
        read_configuration,
    )
else:  # hidden from type checkers, for which it would make every name exist

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = "application" if name in {"Application", "run"} else "options"
        return getattr(import_module(f"{__name__}.{home}"), name)


__all__ = [
    "AccessOptions",
    "Application",
    "LoggingOptions",
    "RunOptions",
    "ServingOptions",
    "available_plugins",
    "missing_plugins",
    "read_configuration",
    "run",
]
