"""A file that leads a browser to the page.

The address of the page has a secret, and every user of a machine can read the command line of a
browser. So the browser gets the name of a file that only its owner can read.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_PAGE: Final = """\
<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>kubestow</title>
<p><a href="{url}">The page of kubestow ui</a></p>
"""


@contextmanager
def address_file(url: str) -> Iterator[Path]:
    """Write a page that leads to `url`; it is removed at the end. Raises OSError."""
    # The folder of the session, where there is one, is in memory and no other user's.
    parent = os.environ.get("XDG_RUNTIME_DIR") or None
    if parent is not None and not os.access(parent, os.W_OK | os.X_OK):
        parent = None
    with tempfile.TemporaryDirectory(prefix="kubestow-ui-", dir=parent) as folder:
        path = Path(folder) / "page.html"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(_PAGE.format(url=url))
        yield path
