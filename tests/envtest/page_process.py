"""`kubestow ui` as a process that tests ask as the page does."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Ask = Callable[[str], Any]


@contextmanager
def page(kubeconfig: Path, *arguments: str) -> Iterator[Ask]:
    """Run the command as the user of a kubeconfig; give a function that asks a question there."""
    command = [
        *(sys.executable, "-m", "scheduler", "ui", "--no-browser"),
        *(f"--kubeconfig={kubeconfig}", *arguments),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()

        def ask(question: str) -> Any:
            with urllib.request.urlopen(f"{url}api/{question}", timeout=30) as response:
                return json.load(response)

        try:
            yield ask
        finally:
            process.terminate()
        assert process.wait() == 0
