"""Groups of commands that suggest a command for one that does not exist."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

import click

MEANT: Final = {
    "apply": "config validate",
    "canary": "shadow",
    "dashboard": "ui",
    "describe": "explain",
    "diagnose": "explain",
    "doctor": "check",
    "dry-run": "shadow",
    "dump": "bundle",
    "events": "explain",
    "fit": "whatif",
    "gang": "gangs",
    "get": "queue",
    "init": "plugin new",
    "install": "run",
    "lint": "config validate",
    "list": "queue",
    "logs": "explain",
    "new": "plugin new",
    "nodes": "top",
    "pending": "queue",
    "permissions": "check",
    "plan": "simulate",
    "pods": "queue",
    "rbac": "config rbac",
    "schedule": "run",
    "serve": "run",
    "server": "apiserver",
    "start": "run",
    "status": "top",
    "sweep": "simulate --sweep",
    "validate": "config validate",
    "watch": "top",
    "web": "ui",
    "why": "explain",
}
"""Words of people for commands that have another name."""


class SuggestingGroup(click.Group):
    """A group of commands; of one that is misspelt, the nearest is named."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command as Click does; `help COMMAND` is `COMMAND --help`. Raises UsageError."""
        if args[0] == "help" and ctx.parent is None and not ctx.resilient_parsing:
            if len(args) == 1:
                click.echo(ctx.get_help())
                ctx.exit()
            args = [*args[1:], "--help"]
        name = args[0]
        names = self.list_commands(ctx)
        if name not in names and not name.startswith("-") and not ctx.resilient_parsing:
            meant = MEANT.get(name.lower(), "") if ctx.parent is None else ""
            found = [meant] if meant else get_close_matches(name.lower(), names, n=1)
            hint = f" Did you mean {found[0]}?" if found else f" There are: {', '.join(names)}."
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)
