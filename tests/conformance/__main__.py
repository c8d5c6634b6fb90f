"""`python -m tests.conformance [PATH...]`: compare decisions of kubestow and kube-scheduler.

A vector agrees when all its selected aspects agree; the last line counts vectors. Exit status: 0
when all agree, 1 when some differ, 2 when vectors are missing or the command is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from devtools.conformance.comparing import GROUPS, select_aspects
from devtools.conformance.printing import report
from devtools.conformance.reading import VECTORS, VectorError, find_files
from devtools.conformance.running import run_file


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        aspects = select_aspects(_names(options.aspects), _names(options.without_aspects))
        files = find_files(options.paths, _names(options.families))
        results = [run_file(file, aspects) for file in files]
    except (VectorError, ValueError) as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 2
    for line in report(results, options.limit_differences):
        print(line)
    return 0 if all(each.agree == each.total for each in results) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "paths",
        nargs="*",
        type=Path,
        default=[VECTORS],
        metavar="PATH",
        help="vector file, or directory with *.jsonl.gz and unit/; default: the committed vectors",
    )
    parser.add_argument(
        "--families", default="", help="only these, comma separated; `unit` is all unit files"
    )
    parser.add_argument(
        "--aspects",
        default="",
        help=f"only these, comma separated: {', '.join(GROUPS)}, or one part such as score.total",
    )
    parser.add_argument("--without-aspects", default="", help="not these, comma separated")
    parser.add_argument(
        "--limit-differences", type=int, default=3, metavar="N", help="shown per family (3)"
    )
    return parser


def _names(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


if __name__ == "__main__":
    sys.exit(main())
