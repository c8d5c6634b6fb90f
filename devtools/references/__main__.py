"""Writes every generated file into docs/."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from devtools.references import FILES

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"

for name, text in FILES.items():
    (DOCS / name).write_text(text(), encoding="utf-8")
