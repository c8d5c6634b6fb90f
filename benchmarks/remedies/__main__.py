"""`python -m benchmarks.remedies`: the share of pending pods that get a remedy that works."""

from __future__ import annotations

import time

import click

from benchmarks.remedies.judging import judge, worlds

BAR = 0.95


@click.command()
@click.option("--worlds", "count", default=300, show_default=True, help="Random worlds.")
@click.option("--first-seed", default=0, show_default=True, help="Seed of the first worlds.")
@click.option("--verbose", is_flag=True, help="List the pods without a remedy.")
def main(count: int, first_seed: int, verbose: bool) -> None:
    """Look for remedies in random worlds, and carry each out in a fresh world.

    Exits with 1 if fewer than 95 % of the pending pods get one that works, or one is wrong.
    """
    began = time.perf_counter()
    found = judge(worlds(count, first_seed))
    seconds = time.perf_counter() - began
    click.echo(
        f"{found.worlds} worlds, {found.pods} pods, {found.pending} pending: {found.helped} "
        f"({found.share:.1%}) with a remedy that works; {found.remedies} remedies shown, "
        f"{len(found.wrong)} wrong; {found.trials} trials; {seconds:.0f} s"
    )
    click.echo(", ".join(f"{code} {times}" for code, times in found.codes.most_common()))
    for line in found.wrong + (found.helpless if verbose else []):
        click.echo(f"  {line}")
    if found.share < BAR or found.wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
