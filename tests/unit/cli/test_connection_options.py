"""Whatever combination of connection options a command accepts, it uses each of them."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import click
import pytest

from scheduler.cli import endpoint
from scheduler.cli.direct import DirectRoute
from scheduler.cli.endpoint import Endpoint
from scheduler.cli.exit_codes import CommandError
from scheduler.cli.hints import SCHEDULER
from scheduler.cli.modes import _ASKED, MODES
from scheduler.client import configuration
from scheduler.client.configuration import ClientConfiguration
from tests.unit.cli.test_modes import ALL

INSECURE = "insecure_skip_tls_verify"
NAMED_NAMESPACE = ("explain", "whatif")
"""They use a kubeconfig also for the namespace of a name without one."""
SUBSETS = [chosen for count in (1, 2, 3) for chosen in combinations(SCHEDULER, count)]
VALUES = {"server": "https://there:1", "lease": "a/b", "token": "t", "tls_server_name": "tls"}


def asked(line: list[str], monkeypatch: pytest.MonkeyPatch) -> Endpoint | None:
    """Return what a command line asks; None if it is refused."""
    found: list[Endpoint] = []

    def ask(**values: Any) -> None:
        found.append(Endpoint(**values))
        raise CommandError("asked")

    monkeypatch.setattr(endpoint, "Endpoint", ask)
    try:
        ALL["queue"].main(line, standalone_mode=False)
    except click.UsageError:
        return None
    except CommandError:
        return found[0]
    raise AssertionError("nothing was asked")


def used(route: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield the values that a route uses."""
    if not isinstance(route, DirectRoute):
        yield from vars(route).values()
        return
    seen: list[Any] = []

    async def load(**values: Any) -> ClientConfiguration:
        seen.extend(values.values())
        return ClientConfiguration("https://api")

    monkeypatch.setattr(configuration, "load_configuration", load)
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda _, file: seen.append(file))
    access = route._access()
    yield from (route.server, access.authorization.removeprefix("Bearer "), access.server_name)
    yield access.tls.verify_mode is ssl.CERT_NONE
    yield from seen


def test_the_commands_that_ask_have_the_same_choices() -> None:
    for name, command in ALL.items():
        if "server" in {each.name for each in command.params} and name not in NAMED_NAMESPACE:
            assert MODES[name][-len(_ASKED) :] == _ASKED, name


@pytest.mark.slow
def test_each_accepted_option_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {name: str(tmp_path / name) for name in ("ca_file", "token_file", "kubeconfig")}
    for name, file in files.items():
        Path(file).write_text(name)
    values = {**VALUES, **files, "context": "c", INSECURE: True}
    # A token is used, not the name of its file.
    expected = {**values, "token_file": "token_file"}
    accepted = []
    for chosen in SUBSETS:
        options = (f"--{name.replace('_', '-')}={values[name]}" for name in chosen)
        line = [each.removesuffix("=True") for each in options]
        found = asked(line, monkeypatch)
        if found is None:
            continue
        accepted.append(chosen)
        seen = list(used(endpoint._route(found), monkeypatch))
        assert not [name for name in chosen if expected[name] not in seen], line
    assert len(accepted) > len(SCHEDULER)
