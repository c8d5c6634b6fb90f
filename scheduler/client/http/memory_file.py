"""Files in memory: OpenSSL reads certificates and keys from files only.

The root file system of a container may be read-only, and a private key must not reach a disk.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def memory_file(content: bytes) -> Iterator[str]:
    """Yield the path of a file with this content, which only this process can open by it.

    Needs /proc, which every container has. Systems other than Linux get a temporary file.
    """
    if sys.platform == "linux":
        with os.fdopen(os.memfd_create("kubestow"), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        # Readable by the owner only, from its creation.
        with tempfile.NamedTemporaryFile(prefix="kubestow-") as file:
            file.write(content)
            file.flush()
            yield file.name
