"""CEL, the Common Expression Language, as Kubernetes offers it to selectors of devices.

Expressions are parsed (`parser`), checked and compiled to nested functions (`compiler`), and
evaluated under the API server's cost limit (`evaluation`). What one costs at most is estimated as
the API server does before it stores it (`estimator`). Nothing here does I/O; time and memory
of an evaluation are bounded by its cost. Everything public is named in `__all__`.
"""

from scheduler.cel.devices import (
    DeviceSelector,
    ParsedExpression,
    check_storable,
    device_value,
    prepare,
)
from scheduler.cel.errors import CompileError, EvaluationCancelledError, EvaluationError
from scheduler.cel.renaming import rename

__all__ = [
    "CompileError",
    "DeviceSelector",
    "EvaluationCancelledError",
    "EvaluationError",
    "ParsedExpression",
    "check_storable",
    "device_value",
    "prepare",
    "rename",
]
