"""`kubestow version` and `--version`: kubestow's version and the Kubernetes release it follows.

Under the name kube-scheduler the output begins like kube-scheduler's, because scripts parse it.
"""

from __future__ import annotations

import json
from typing import Any

import click


def version_text(program: str) -> str:
    """Return one line about this build.

    >>> version_text("kubestow").startswith("kubestow ")
    True
    """
    from scheduler.build_info import build_info

    build = build_info()
    if program == "kube-scheduler":
        return f"Kubernetes {build.git_version}"
    return f"kubestow {build.version} (schedules like Kubernetes v{build.major}.{build.minor})"


def version_json() -> str:
    """Return everything about this build."""
    from scheduler.build_info import build_info

    build = build_info()
    info = {"kubestowVersion": build.version, "pythonVersion": build.python, **build.version_info()}
    return json.dumps(info, indent=2)


def version_option() -> click.Option:
    """Build the option `--version`, with `--version=raw` for everything."""
    return click.Option(
        ["--version", "version"],
        is_flag=False,
        metavar="[true|false|raw]",
        flag_value="true",
        default=None,
        expose_value=False,
        is_eager=True,
        callback=_print_version,
        help="Show the version and exit; --version=raw shows everything about the build.",
    )


def _print_version(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is None or value == "false" or ctx.resilient_parsing:
        return
    raw = value == "raw"
    click.echo(version_json() if raw else version_text(str(ctx.find_root().info_name)))
    ctx.exit()


@click.command("version", short_help="Show the version.")
@click.option(
    "--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def command(**values: Any) -> None:
    """Show kubestow's version and the Kubernetes release it behaves like."""
    if values["output"] == "json":
        click.echo(version_json())
    else:
        click.echo(version_text("kubestow"))
