"""Following for `kubestow shadow`, from its options to its answer: connect, show, replay."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli import exit_codes
from scheduler.cli.cluster import SelectedCluster
from scheduler.cli.exit_codes import CommandError
from scheduler.cli.leader_errors import unauthenticated
from scheduler.cli.stopping import Stop, tell

if TYPE_CHECKING:
    from scheduler.client.credentials import Credentials
    from scheduler.explain.records.shadow import ShadowPod, ShadowSummary
    from scheduler.offline.assertions import Assertion
    from scheduler.offline.happenings import Happenings
    from scheduler.shadow.wiring import ShadowWiring

LIVE_SECONDS: Final = 1.0
ROWS: Final = 20
REPORT_ROWS: Final = 500
MAX_NAMES: Final = 5


@dataclass(frozen=True, slots=True)
class Asked:
    """The options."""

    config: str
    plugin_dirs: tuple[str, ...]
    feature_gates: tuple[str, ...]
    names: tuple[str, ...]
    #: Seconds to follow; None: until it is stopped.
    seconds: float | None
    output: str
    assertions: tuple[Assertion, ...]
    counterfactual: bool
    #: The address to serve at.
    address: tuple[str, int] | None
    cluster: SelectedCluster


@dataclass(frozen=True, slots=True)
class End:
    """The outcome at the end."""

    summary: ShadowSummary
    #: The same with more rows.
    whole: ShadowSummary
    #: Other scheduler names that pods have.
    others: list[str]
    #: The rights that were missing at the end, with the rules to add; None: no rights.
    missing: str | None = None
    #: Why judgements could not be printed.
    unprinted: OSError | None = None


class _Ending:
    """Ends the comparison early: before the first lists have arrived, without an answer."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        #: Set once there is something to report at the end.
        self.following = False
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()

    def signalled(self) -> None:
        """Stop, from a signal handler."""
        self._loop.call_soon_threadsafe(self.stop)

    def stop(self) -> None:
        """Stop."""
        self.event.set()
        if not self.following and self._task is not None:
            self._task.cancel()


async def follow(asked: Asked, signals: Stop) -> End:
    """Follow the cluster until the end."""
    from scheduler.client.configuration import load_configuration
    from scheduler.client.errors import ConfigurationError as ClientConfigurationError
    from scheduler.client.read_only import ReadOnlyTransport
    from scheduler.framework.status import ConfigurationError
    from scheduler.process.garbage_collection import keep_what_exists
    from scheduler.service.serving.certificates import ServingError
    from scheduler.shadow.running import (
        NotPermittedError,
        UnauthenticatedError,
        UnreachableError,
        following,
    )
    from scheduler.shadow.serving import served

    stop = _Ending()
    signals.end_early = stop.signalled
    try:
        configuration, registry = _configuration(asked)
        kubeconfig = asked.cluster.kubeconfig
        named = configuration.effective.client_connection.kubeconfig
        found = await load_configuration(
            kubeconfig=kubeconfig or named or None, context=asked.cluster.context or None
        )
        warn_of_expiry(found.credentials, asked.seconds)
        async with ReadOnlyTransport(found) as transport:
            wiring = _wired(configuration, registry, transport)
            async with served(asked.address, wiring), following(wiring):
                stop.following = True
                keep_what_exists()
                happenings = _kept(wiring) if asked.counterfactual else None
                unprinted = await _watch(asked, wiring, stop)
                signals.end_early = tell
                end = _ended(wiring, unprinted)
        return await _replayed(end, happenings, configuration, registry)
    except asyncio.CancelledError:
        if not stop.event.is_set():
            raise
        raise CommandError(
            "stopped before the first lists had arrived: nothing was compared",
            exit_codes.NOTHING_HAPPENED,
        ) from None
    except ConfigurationError as error:
        raise CommandError(str(error), exit_codes.BAD_INPUT) from error
    except ClientConfigurationError as error:
        raise CommandError(str(error), exit_codes.UNREACHABLE) from error
    except UnreachableError as error:
        raise CommandError(str(error), exit_codes.UNREACHABLE) from error
    except ServingError as error:
        raise CommandError(f"--listen: {error}") from error
    except UnauthenticatedError as error:
        raise unauthenticated(found.server, found.source) from error
    except NotPermittedError as error:
        raise not_permitted(str(error)) from error

    finally:
        signals.end_early = tell


def warn_of_expiry(credentials: Credentials, seconds: float | None) -> None:
    """Warn of a token that expires before the end, and that nothing renews."""
    from scheduler.client.credentials import StaticCredentials
    from scheduler.explain.records.wording import span

    expiry = credentials.expiry() if isinstance(credentials, StaticCredentials) else None
    left = math.inf if expiry is None else expiry - time.time()
    if 0 < left < (seconds or math.inf):
        click.echo(
            f"warning: the token in the kubeconfig expires in {span(left)}; what happens after "
            "that may not be seen",
            err=True,
        )


def _ended(wiring: ShadowWiring, unprinted: OSError | None) -> End:
    """Return the outcome, without that of a replay."""
    wiring.follower.doubts.settle()
    return End(
        wiring.summary(ROWS),
        wiring.summary(REPORT_ROWS),
        _other_names(wiring),
        wiring.state.permissions.ready(),
        unprinted,
    )


def _kept(wiring: ShadowWiring) -> Happenings:
    """Keep what happens from now on."""
    from scheduler.offline.happenings import Happenings

    happenings = Happenings(wiring.tally.names)
    wiring.keep(happenings)
    return happenings


async def _replayed(
    end: End, happenings: Happenings | None, configuration: Any, registry: Any
) -> End:
    """Return the outcome with that of a replay, if there is something to replay."""
    if happenings is None:
        return end
    from dataclasses import replace

    import msgspec

    from scheduler.offline.counterfactual import replay

    click.echo("simulating what would have become of the pods", err=True)
    now = end.summary.now
    # In a thread, since a world has an event loop of its own.
    found = await asyncio.to_thread(replay, happenings, configuration, registry, now)
    return replace(
        end,
        summary=msgspec.structs.replace(end.summary, counterfactual=found),
        whole=msgspec.structs.replace(end.whole, counterfactual=found),
    )


def _configuration(asked: Asked) -> tuple[Any, Any]:
    """Read the configuration. Raises ConfigurationError."""
    from config import FeatureGates
    from scheduler.cli.run import split_feature_gates
    from scheduler.process import logs
    from scheduler.service.options import RunOptions, available_plugins, read_configuration
    from scheduler.shadow.profiles import following

    logs.configure(verbosity=logs.WARNINGS)
    registry = available_plugins()
    gates, foreign = split_feature_gates(asked.feature_gates)
    for name in foreign:
        click.echo(f"warning: feature gate {name} has no effect on scheduling", err=True)
    options = RunOptions(
        config_file=asked.config,
        replace_default_scheduler=True,
        plugin_dirs=asked.plugin_dirs,
        feature_gates=FeatureGates.parse(gates),
    )
    return following(read_configuration(options, registry), asked.names), registry


def _wired(configuration: Any, registry: Any, transport: Any) -> ShadowWiring:
    from scheduler.metrics import SchedulerMetrics
    from scheduler.shadow.wiring import wire

    return wire(configuration, registry, transport, metrics=SchedulerMetrics())


def _other_names(wiring: ShadowWiring) -> list[str]:
    """Return the most frequent scheduler names of pods that are not followed."""
    from collections import Counter

    pods = wiring.state.listers.stores["pods"].list()
    counts = Counter(each.spec.scheduler_name[:80] for each in pods)
    followed = wiring.tally.names
    found = (name for name, _ in counts.most_common(MAX_NAMES + len(followed)))
    return [name for name in found if name not in followed][:MAX_NAMES]


async def _watch(asked: Asked, wiring: ShadowWiring, stop: _Ending) -> OSError | None:
    """Follow until the end, and show what happens meanwhile; return why that was not possible."""
    from scheduler.shadow.running import until

    lines = _Lines(stop.stop)
    if asked.output == "jsonl":
        wiring.tally.listeners.append(lines)
    click.echo(_begin(wiring), err=True)
    with ExitStack() as stack:
        show = None
        if asked.output == "table" and sys.stdout.isatty():
            show = stack.enter_context(_screen())

        async def look() -> None:
            if show is not None:
                show(wiring.summary(ROWS))

        await look()
        await until(stop.event, asked.seconds, LIVE_SECONDS, look)
    return lines.error


class _Lines:
    """Prints judgements. Once that fails, as when `head` has ended, the comparison ends as well."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self.error: OSError | None = None
        self._stop = stop

    def __call__(self, judged: ShadowPod) -> None:
        if self.error is not None:
            return
        try:
            click.echo(as_line(judged))
        except OSError as error:
            self.error = error
            self._stop()


def not_permitted(missing: str) -> CommandError:
    """Return the error about rights that are missing."""
    text = f"{missing}\n`kubestow config rbac --shadow` prints all rules"
    return CommandError(text, exit_codes.NOT_PERMITTED)


def _begin(wiring: ShadowWiring) -> str:
    """Return a line about what is followed."""
    from scheduler.explain.records.wording import counted

    names, pods = " and ".join(wiring.tally.names), sum(1 for _ in wiring.pods())
    if pods:
        nodes = counted(wiring.state.cache.table.node_count, "node")
        return f"following {names}: {counted(pods, 'pod')} now, in a cluster of {nodes}"
    return f"following {names}, which no pod has yet{named(_other_names(wiring))}"


def named(names: Sequence[str]) -> str:
    """Return the other scheduler names that pods have, to be appended to a sentence."""
    return f"; pods have {', '.join(names)}" if names else ""


def _screen() -> Any:
    from contextlib import contextmanager

    from rich.console import Console, Group
    from rich.live import Live

    from scheduler.cli.shadow_report import draw

    @contextmanager
    def opened() -> Iterator[Any]:
        console = Console(highlight=False)
        with Live(console=console, screen=True, auto_refresh=False) as live:

            def show(summary: ShadowSummary) -> None:
                size = console.size
                live.update(Group(*draw(summary, size.width)[: size.height]), refresh=True)

            yield show

    return opened()


def as_line(record: Any) -> str:
    """Return a record on one line."""
    import msgspec

    from scheduler.sanitizing.escaping import escaped_json

    return escaped_json(msgspec.json.encode(record)).decode()
