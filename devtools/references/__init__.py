"""The files of docs/ that are generated from definitions in the code.

`python -m devtools.references` writes them. They are committed, so that they can be read on the
code host; a test demands that they are current.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from devtools import notebooks
from devtools.references import (
    badges,
    commands,
    completion,
    configuration,
    debug_pages,
    layers,
    metrics,
    plugin_api,
    simulation,
)

FILES: Final[Mapping[str, Callable[[], str]]] = {
    **badges.FILES,
    **commands.FILES,
    "configuration-reference.md": configuration.page,
    "debug-pages.md": debug_pages.page,
    "debug-pages.schema.json": debug_pages.schema_text,
    "kubestow.schema.json": configuration.schema,
    "metrics.md": metrics.page,
    **plugin_api.FILES,
    "simulate.schema.json": simulation.schema_text,
    **{
        path.relative_to(notebooks.ROOT / "docs").with_suffix(".md").as_posix(): partial(
            notebooks.page, path
        )
        for path in notebooks.NOTEBOOKS
    },
    "../CONTRIBUTING.md": layers.page,
    **{
        f"../scheduler/cli/completion/kubestow.{shell}": partial(completion.script, shell)
        for shell in ("bash", "zsh", "fish")
    },
}
"""The text of each file by its path from docs/."""
