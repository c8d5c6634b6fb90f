"""Faults of a round: each begins, lasts a while, and ends.

While it lasts, replicas that ended are started again, as a Deployment would. The API server and
etcd stay away until all faults of the round have ended: an API server does not start without etcd.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from benchmarks.robustness.proxy import Mode
from benchmarks.robustness.replicas import Replica, Site

MAX_CLOCK_JUMP_SECONDS: Final = 2400.0
"""Less than an hour: the API server's certificate is valid from one hour before its making."""

End = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """`begin` starts it and returns what ends it."""

    name: str
    begin: Callable[[Site, Random], End]


def _nothing() -> None:
    """End a fault of which nothing stays; what it ended, the round starts again."""


def _kill(choose: Callable[[Site], list[Replica]]) -> Callable[[Site, Random], End]:
    def begin(site: Site, _: Random) -> End:
        for replica in choose(site):
            replica.process.kill()
        return _nothing

    return begin


def _pause(choose: Callable[[Site], list[Replica]]) -> Callable[[Site, Random], End]:
    def begin(site: Site, _: Random) -> End:
        paused = [replica.process for replica in choose(site)]
        for process in paused:
            process.pause()

        def end() -> None:
            for process in paused:
                process.resume()

        return end

    return begin


def _connections(
    mode: Mode, choose: Callable[[Site], list[Replica]]
) -> Callable[[Site, Random], End]:
    def begin(site: Site, _: Random) -> End:
        cut = [replica.proxy for replica in choose(site)]
        for proxy in cut:
            proxy.set_mode(mode)

        def end() -> None:
            for proxy in cut:
                proxy.set_mode(Mode.OPEN)

        return end

    return begin


def _jump(choose: Callable[[Site], list[Replica]]) -> Callable[[Site, Random], End]:
    def begin(site: Site, random: Random) -> End:
        for replica in choose(site):
            # It stays so: a clock that is set right again is the next jump.
            replica.clock.set(random.uniform(-MAX_CLOCK_JUMP_SECONDS, MAX_CLOCK_JUMP_SECONDS))
        return _nothing

    return begin


def _stop_api_server(*, kill: bool) -> Callable[[Site, Random], End]:
    def begin(site: Site, _: Random) -> End:
        plane = site.control_plane
        if kill:
            plane.kill_apiserver()
        else:
            plane.stop_apiserver()
        return _nothing

    return begin


def _pause_api_server(site: Site, _: Random) -> End:
    process = site.control_plane.api_server
    process.pause()
    return process.resume


def _kill_etcd(site: Site, _: Random) -> End:
    site.control_plane.etcd.kill()
    return _nothing


def _pause_etcd(site: Site, _: Random) -> End:
    process = site.control_plane.etcd
    process.pause()
    return process.resume


def _leader(site: Site) -> list[Replica]:
    return [site.leader()]


def _standby(site: Site) -> list[Replica]:
    return [site.standby()]


def _all(site: Site) -> list[Replica]:
    return site.replicas


FAULTS: Final = (
    Fault("kill the leader", _kill(_leader)),
    Fault("kill the standby", _kill(_standby)),
    Fault("kill both replicas", _kill(_all)),
    Fault("stop and continue the leader", _pause(_leader)),
    Fault("stop and continue both replicas", _pause(_all)),
    Fault("stall the leader's connections", _connections(Mode.STALLED, _leader)),
    Fault("stall all connections", _connections(Mode.STALLED, _all)),
    Fault("reset the leader's connections", _connections(Mode.RESET, _leader)),
    Fault("reset all connections", _connections(Mode.RESET, _all)),
    Fault("set the leader's clock", _jump(_leader)),
    Fault("set all clocks", _jump(_all)),
    Fault("restart the API server", _stop_api_server(kill=False)),
    Fault("kill the API server", _stop_api_server(kill=True)),
    Fault("stop and continue the API server", _pause_api_server),
    Fault("kill etcd", _kill_etcd),
    Fault("stop and continue etcd", _pause_etcd),
)
