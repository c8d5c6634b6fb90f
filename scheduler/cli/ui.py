"""`kubestow ui`: a page in the browser about queue, pods, nodes and decisions."""

from __future__ import annotations

import asyncio
import signal
import webbrowser
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, nullcontext
from contextvars import copy_context
from http import HTTPStatus
from threading import Thread
from typing import TYPE_CHECKING, Final

import click

from scheduler.cli.endpoint import Endpoint, endpoint_options
from scheduler.cli.modes import ModalCommand

if TYPE_CHECKING:
    from scheduler.cli.page.sources import PageSource

HELP: Final = """\
Open a page in the browser about a running scheduler.

It shows the pods that wait and why, the story of a pod, the nodes as a heat map by zone, and
decisions as they are made. It reads only, asks nobody but the scheduler, and works without the
internet. The leader is found by its Lease and asked through the API server, as the user of your
kubeconfig; who may only ask about one namespace sees its queue and its pods.

The page is served on this machine only, at an address with a secret: who knows the address sees
what you may see, until the command ends.

\b
On a machine without a browser, seen from a laptop:
  ssh -L 8642:127.0.0.1:8642 HOST kubestow ui --port 8642 --no-browser

\b
A finished run, a bundle or a recording, with a slider for the time:
  kubestow ui --simulate incident.recording

\b
What `kubestow shadow --listen 127.0.0.1:10260` has compared so far:
  kubestow ui --shadow http://127.0.0.1:10260
"""


@click.command("ui", cls=ModalCommand, help=HELP, short_help="Show the scheduler in the browser.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default="one that is free",
    help="Port on 127.0.0.1 to serve the page at.",
)
@click.option("--no-browser", is_flag=True, help="Print the address, and open no browser.")
@click.option(
    "--simulate",
    type=click.Path(exists=True, dir_okay=False),
    metavar="RUN",
    help="Show this finished run, bundle or recording instead of a running scheduler.",
)
@click.option(
    "--shadow",
    metavar="URL",
    help="Show what a shadow has compared; its address on this machine (`kubestow shadow "
    "--listen`, or kubectl port-forward).",
)
@endpoint_options
def command(
    *, endpoint: Endpoint, port: int, no_browser: bool, simulate: str | None, shadow: str | None
) -> None:
    """Serve the page until interrupted."""
    # Imported here, so that an error of usage comes without the time to load them.
    from scheduler.cli.page.recorded import RecordedSource
    from scheduler.cli.page.sources import LiveSource, ShadowSource

    source: PageSource
    if simulate:
        source = RecordedSource.load(simulate)
    elif shadow:
        try:
            source = ShadowSource(shadow)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="'--shadow'") from error
    else:
        source = LiveSource(endpoint)
    asyncio.run(_serve(source, port, browser=not no_browser))


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[None]:
    """Start a browser; the file that leads it to the page stays until the end."""
    from scheduler.cli.page.address_file import address_file

    with ExitStack() as stack:
        try:
            path = stack.enter_context(address_file(url))
            started = await asyncio.to_thread(webbrowser.open, path.as_uri())
        except OSError:
            started = False
        if not started:
            click.echo("No browser could be started: open the address yourself.", err=True)
        yield


def tell_problem(source: PageSource) -> None:
    """Say on standard error why a scheduler does not answer, as the other commands do."""
    from scheduler.cli.page.questions import QuestionError
    from scheduler.cli.reporting import safe

    try:
        source.ask("/debug/summary", {}, None)
    except QuestionError as error:
        # Who may not see the summary may see one namespace.
        if error.status == HTTPStatus.BAD_GATEWAY:
            click.echo(f"note: {safe(str(error))}\nThe page asks again until it answers.", err=True)


async def _serve(source: PageSource, port: int, *, browser: bool) -> None:
    from scheduler.cli.page.server import LOOPBACK, PageServer
    from scheduler.cli.page.sources import LiveSource

    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    try:
        async with PageServer(source, port=port) as server:
            click.echo(f"{server.url}\nCtrl-C ends it.")
            if isinstance(source, LiveSource):
                # A daemon, since an answer may take longer than the user waits.
                Thread(
                    target=copy_context().run,
                    args=(tell_problem, source),
                    name="first-question",
                    daemon=True,
                ).start()
            async with _opened(server.url) if browser else nullcontext():
                await ended.wait()
    except OSError as error:
        reason = error.strerror or error
        raise click.ClickException(
            f"cannot listen on {LOOPBACK}:{port}: {reason}; choose another --port"
        ) from error
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
