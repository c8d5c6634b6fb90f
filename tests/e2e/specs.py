"""The table of upstream's specs that concern a scheduler, read from `specs.toml` beside this file.

A spec is in one of four states: in the short set, in the whole set, an expected failure (run, and
an error if it passes), or not run. `python -m tests.e2e` also reports specs of the binary that
`SELECTED` finds and the table lacks, so that those of a new Kubernetes release are noticed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

TABLE: Final = Path(__file__).with_name("specs.toml")

SELECTED: Final = re.compile(r"^\[sig-scheduling\]|\[DRA\] control plane|PodGroup")
"""Which specs of the binary have to be in the table."""


class Spec(NamedTuple):
    """One spec, by its full name, and what is expected of it."""

    name: str
    short: bool = False
    fails: str = ""
    """Why kubestow fails it for now."""
    skip: str = ""
    """Why it is not run at all."""

    def describe(self) -> str:
        """Return one line: the set it is in, its name, and the reason if there is one."""
        kind = "short" if self.short else "whole"
        if self.fails or self.skip:
            kind = "fails" if self.fails else "skip"
        reason = self.fails or self.skip
        return f"{kind:5}  {self.name}" + (f"  ({reason})" if reason else "")


def choose(
    table: Sequence[Spec],
    *,
    short: bool = False,
    only: Sequence[str] = (),
    scheduler: str = "kubestow",
) -> list[Spec]:
    """Return the specs to run, each with the result that is expected of `scheduler`."""
    chosen = [
        spec
        for spec in table
        if not spec.skip
        and (spec.short or not short)
        and (not only or any(text.lower() in spec.name.lower() for text in only))
    ]
    if scheduler != "kubestow":
        # Expected failures of kubestow do not apply to the scheduler that it is compared with.
        return [spec._replace(fails="") for spec in chosen]
    return chosen


def read_table(text: str) -> tuple[Spec, ...]:
    """Read the table.

    Raises:
        ValueError: it is not TOML, has unknown keys, or misses a reason.
    """
    table: dict[str, Any] = tomllib.loads(text)
    specs = [Spec(name, short=True) for name in table.pop("short", ())]
    specs += [Spec(name) for name in table.pop("whole", ())]
    for state in ("fails", "skip"):
        for group in table.pop(state, ()):
            if set(group) != {"reason", "specs"} or not group["reason"]:
                msg = f"{TABLE.name}: each [[{state}]] has a reason and specs, one has {group}"
                raise ValueError(msg)
            specs += [Spec(name, **{state: group["reason"]}) for name in group["specs"]]
    if table:
        msg = f"{TABLE.name}: unknown keys {', '.join(table)}; want short, whole, fails or skip"
        raise ValueError(msg)
    return tuple(specs)


SPECS: Final = read_table(TABLE.read_text(encoding="utf-8"))
