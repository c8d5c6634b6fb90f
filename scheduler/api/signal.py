"""Signal: how a part tells others that are built later, or that it must not know, what happened."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic, ParamSpec

P = ParamSpec("P")


class Signal(Generic[P]):
    """Call it to call every listener.

    >>> moved = Signal[[str]]()
    >>> stop = moved.subscribe(print)
    >>> moved("n1")
    n1
    >>> stop()
    >>> moved("n2")
    """

    __slots__ = ("listeners",)

    def __init__(self) -> None:
        #: Empty if nobody listens; the owner may look, to save the work of a call.
        self.listeners: dict[Callable[P, object], None] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call the listeners in the order in which they subscribed; one that raises ends this."""
        for listener in tuple(self.listeners):
            listener(*args, **kwargs)

    def subscribe(self, listener: Callable[P, object]) -> Callable[[], None]:
        """Call `listener` from now on; return a function to stop that."""
        self.listeners[listener] = None
        return partial(self.unsubscribe, listener)

    def unsubscribe(self, listener: Callable[P, object]) -> None:
        """Call `listener` no more, if it was called."""
        self.listeners.pop(listener, None)
