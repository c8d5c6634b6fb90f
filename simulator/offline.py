"""The offline world under its former name: import `kubestow.offline` in new scripts."""

from scheduler import offline
from scheduler.offline import *

__all__: list[str] = []
__all__ += offline.__all__
