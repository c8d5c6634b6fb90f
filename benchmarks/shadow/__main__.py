"""`python -m benchmarks.shadow`: how far a shadow agrees with kube-scheduler, and what it costs."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.shadow.beside import Outcome, Plan, run

PROFILE: Final = "default-scheduler"
AGREEING: Final = ("same", "tie", "window")
BAR_PERCENT: Final = 99.5
NAMED_PERCENT: Final = 95.0


def _profile(strategy: str, percentage: int | None = 100) -> dict[str, Any]:
    resources = [{"name": name, "weight": 1} for name in ("cpu", "memory")]
    scoring = {"type": strategy, "resources": resources}
    fit = {"name": "NodeResourcesFit", "args": {"scoringStrategy": scoring}}
    profile: dict[str, Any] = {"schedulerName": PROFILE, "pluginConfig": [fit]}
    if percentage is not None:
        profile["percentageOfNodesToScore"] = percentage
    return {"profiles": [profile]}


SCENARIOS: Final[dict[str, dict[str, Any]]] = {
    "same": {"force": _profile("LeastAllocated"), "shadow": _profile("LeastAllocated")},
    "sampled": {"force": _profile("LeastAllocated", None), "shadow": _profile("LeastAllocated")},
    "most-allocated": {
        "force": _profile("LeastAllocated"),
        "shadow": _profile("MostAllocated"),
    },
    "may-write": {
        "force": _profile("LeastAllocated"),
        "shadow": _profile("LeastAllocated"),
        "may_write": True,
    },
    "alone": {"force": _profile("LeastAllocated"), "beside": False},
    "kubestow": {"ours": True, "beside": False},
}
"""What is compared: a shadow of the same profile, one beside a scheduler that scores a sample, one
of another profile, one with a token that may write; the scheduler alone, and kubestow in force."""


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--scenario", "names", multiple=True, type=click.Choice(sorted(SCENARIOS)),
              default=("same", "sampled", "most-allocated"))  # fmt: skip
@click.option("--nodes", default=1000)
@click.option("--pods", default=2000)
@click.option("--rate", default=100.0, help="Pods a second.")
@click.option("--seed", default=1)
@click.option("--restarts", default=0, help="How often the API server starts anew meanwhile.")
@click.option("--profile", default=0, help="Seconds to profile the API server; see --keep.")
@click.option("--keep", type=click.Path(path_type=Path), help="Keep logs in this folder.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write everything here.")
def main(names: tuple[str, ...], keep: Path | None, output: Path | None, **size: Any) -> None:
    """Compare, print the figures; exit code 1 if a bar is missed."""
    found: dict[str, Any] = {}
    missed = False
    for name in names:
        plan = Plan(**size, **SCENARIOS[name])
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) if keep is None else keep / name
            folder.mkdir(parents=True, exist_ok=True)
            outcome = run(plan, folder)
        missed |= _report(name, outcome)
        found[name] = dataclasses.asdict(outcome)
    if output is not None:
        output.write_text(json.dumps(found, indent=1))
    raise SystemExit(int(missed))


def agreement(outcome: Outcome) -> float:
    """Return the percentage of judgements of agreement."""
    verdicts, judged = outcome.summary["verdicts"], outcome.summary["judged"]
    agreeing = sum(verdicts.get(each, 0) for each in AGREEING)
    return 100 * agreeing / judged if judged else 0.0


def _report(name: str, outcome: Outcome) -> bool:
    """Print a scenario; return whether it misses its bar."""
    print(
        f"{name}: {outcome.seconds:.0f} s, the last pod created after {outcome.created:.0f} s, "
        f"{outcome.unbound} unbound"
    )
    for process, seconds in outcome.cpu.items():
        print(f"  {process}: {seconds:.1f} s CPU, {outcome.memory[process]:.0f} MiB")
    if not outcome.summary:
        return False
    verdicts, judged = outcome.summary["verdicts"], outcome.summary["judged"]
    share = agreement(outcome)
    print(f"  judged {judged}: {verdicts}; agreement {share:.2f} %")
    differing = [each for each in outcome.judged if each["verdict"] not in AGREEING]
    named = sum(bool(each.get("plugin")) for each in differing)
    plugins = Counter(each.get("plugin") or "none" for each in differing)
    print(f"  differences {len(differing)}, with a plugin {named}: {dict(plugins)}")
    kinds = Counter((each["pod"].split("/")[1].rsplit("-", 1)[0]) for each in differing)
    print(f"  by kind: {dict(kinds)}")
    print(f"  requests {dict(outcome.requests)}, writes {outcome.writes}")
    bad = outcome.writes > 0
    if name == "same":
        bad |= share < BAR_PERCENT
    if differing:
        bad |= 100 * named / len(differing) < NAMED_PERCENT
    return bad


if __name__ == "__main__":
    main()
