"""CEL, the expressions that select devices: for plugins that allocate devices themselves.

It is apart from `kubestow.plugin`, because the parser takes a while to load.
"""

from kubestow import packages

packages.check("scheduler")

from scheduler import cel
from scheduler.cel import *

__all__: list[str] = []
__all__ += cel.__all__
