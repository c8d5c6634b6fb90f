"""The entry point of the command `kubestow`."""

from __future__ import annotations

from kubestow import packages


def main() -> None:
    """Run the command with our packages, whatever else is on the path."""
    packages.put_first()
    packages.check()
    from scheduler.cli.main import main as run

    run()
