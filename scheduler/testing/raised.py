"""Words for what the code of a plugin raised, with the plugin's own line."""

from __future__ import annotations

import inspect
import traceback
from pathlib import Path
from typing import Any

from scheduler.framework.field_errors import did_you_mean
from scheduler.sanitizing.exceptions import typed_text


def raised_text(plugin: Any, error: BaseException) -> str:
    """Return type and text of the error, with the innermost line in the folder of the plugin.

    Args:
        plugin: the class, or another factory.
        error: what one of its methods raised.
    """
    text = f"{typed_text(error)}{_meant(error)}"
    folder = _folder(plugin)
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if folder and each.filename.startswith(folder)]
    if not own:
        return text
    return f"{text} ({own[-1].filename}:{own[-1].lineno}: {own[-1].line})"


def _meant(error: BaseException) -> str:
    """Return a hint at the attribute that a misspelt one means, as tracebacks have it."""
    if not isinstance(error, AttributeError) or error.obj is None or not error.name:
        return ""
    public = (each for each in dir(error.obj) if not each.startswith("_"))
    return did_you_mean(error.name, public)


def _folder(plugin: Any) -> str:
    try:
        return str(Path(inspect.getsourcefile(plugin) or "").parent)
    except TypeError:
        return ""
