"""The cluster that a command works on, and errors worth reading.

For commands that read and write objects of the API server themselves.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from scheduler.cli.hints import given_options

if TYPE_CHECKING:
    from scheduler.client.rest import ApiClient

T = TypeVar("T")
JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedCluster:
    """The cluster that the command line selects."""

    kubeconfig: str
    context: str

    def run(self, work: Callable[[ApiClient], Awaitable[T]]) -> T:
        """Connect, do the work, disconnect.

        Raises:
            click.ClickException: no cluster, no response or an error; the message gives the reason.
        """
        from scheduler.client.errors import ConfigurationError, RequestError

        try:
            return asyncio.run(self._run(work))
        except (ConfigurationError, RequestError) as error:
            raise click.ClickException(str(error)) from error

    async def _run(self, work: Callable[[ApiClient], Awaitable[T]]) -> T:
        from scheduler.cli.direct import api_server_failure
        from scheduler.cli.leader_errors import unauthenticated
        from scheduler.client.configuration import load_configuration
        from scheduler.client.errors import ApiError, ConnectionFailed, RequestTimeout
        from scheduler.client.rest import ApiClient
        from scheduler.client.transport import Transport

        found = await load_configuration(
            kubeconfig=self.kubeconfig or None, context=self.context or None
        )
        try:
            async with Transport(found) as transport:
                return await work(ApiClient(transport, user_agent="kubestow/cli"))
        except ApiError as error:
            if error.status != 401:
                raise
            text = unauthenticated(found.server, found.source).message
            raise click.ClickException(text) from error
        except (ConnectionFailed, RequestTimeout) as error:
            if error.sent or not isinstance(error.__cause__, OSError):
                raise
            text = api_server_failure(found.server, found.source, error.__cause__)
            raise click.ClickException(text) from error


def cluster_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which gets them as `cluster`."""

    @functools.wraps(command)
    def with_cluster(**values: Any) -> None:
        cluster = SelectedCluster(
            kubeconfig=values.pop("kubeconfig") or "", context=values.pop("context") or ""
        )
        with given_options(click.get_current_context()):
            command(cluster=cluster, **values)

    decorated: Callable[..., None] = with_cluster
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


_OPTIONS: Final = (
    click.option(
        "--kubeconfig",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="Kubeconfig with cluster and credentials. Default: as kubectl; in a pod its service "
        "account.",
    ),
    click.option("--context", metavar="NAME", help="Context of the kubeconfig."),
)
