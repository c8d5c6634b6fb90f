"""Fuzz one target in this process: `python -m tests.fuzzing.run TARGET [libFuzzer arguments]`."""

from __future__ import annotations

import sys
from random import Random

import atheris

from tests.fuzzing.json_mutator import mutate

with atheris.instrument_imports(include=["scheduler", "plugins", "config"]):
    from tests.fuzzing.targets import TARGETS


def _mutate(data: bytes, max_size: int, seed: int) -> bytes:
    changed = mutate(data, Random(seed))
    if changed is None or len(changed) > max_size:
        return bytes(atheris.Mutate(data, max_size))
    return changed


def main() -> None:
    """Entry point; libFuzzer ends the process."""
    name = sys.argv.pop(1)
    atheris.Setup(sys.argv, TARGETS[name], custom_mutator=_mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
