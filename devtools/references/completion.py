"""The scripts that complete command lines of `kubestow`, from the templates of Click.

Written to files, since Click would start the program for them in each new shell.
"""

from __future__ import annotations

from click.shell_completion import get_completion_class

from scheduler.cli.main import program


def script(shell: str) -> str:
    """Return the script for `bash`, `zsh` or `fish`."""
    kind = get_completion_class(shell)
    assert kind is not None
    completion = kind(program, {}, "kubestow", "_KUBESTOW_COMPLETE")
    # Not `source()`, which asks the installed bash for its version.
    return completion.source_template % completion.source_vars()
