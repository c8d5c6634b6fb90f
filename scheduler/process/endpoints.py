"""The HTTPS endpoints of this process (`cmd/kube-scheduler/app/server.go: newEndpointsHandler`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import asdict
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final, Self

from config import Configuration
from scheduler.api.pod import Pod
from scheduler.build_info import build_info
from scheduler.client.configuration import load_configuration
from scheduler.client.kinds import Kinds
from scheduler.client.rest import ApiClient
from scheduler.client.reviews import review_access, review_resource_access, review_token
from scheduler.client.transport import Transport
from scheduler.explain.pages.decisions import DecisionPages
from scheduler.explain.pages.gangs import GangPages
from scheduler.explain.pages.group_explainer import GroupExplainer
from scheduler.explain.pages.nodes import NodePages
from scheduler.explain.pages.pods import PodPages
from scheduler.explain.pages.summary import SummaryPages
from scheduler.explain.pages.waiting import WaitingPages
from scheduler.explain.pages.what_if import WhatIfPages
from scheduler.explain.records import internals
from scheduler.framework.grouping import GroupingPlugin
from scheduler.process import logs
from scheduler.process.lease_thread import LeaseThread
from scheduler.process.own_address import OwnAddress
from scheduler.service.manifests import StoredObjects
from scheduler.service.options import RunOptions
from scheduler.service.serving.access import Authenticator, Authorizer
from scheduler.service.serving.application import EndpointSources, Page, create_handler
from scheduler.service.serving.certificates import ServingError, ServingTls
from scheduler.service.serving.client_authorities import (
    ClientAuthorities,
    NoAuthoritiesError,
    of_cluster,
    of_file,
)
from scheduler.service.serving.health import Check, scheduler_checks
from scheduler.service.serving.server import HttpsServer

if TYPE_CHECKING:
    from scheduler.explain.what_if.asker import Asker
    from scheduler.explain.what_if.trial import TrialParts
    from scheduler.recording.streams import BundleStreams
    from scheduler.reload.reloader import Reloader
    from scheduler.stages.wiring import Wiring

RENEWAL_GRACE_SECONDS: Final = 20.0
"""Seconds for which a leader with an expired Lease still counts as healthy (as upstream)."""


class Endpoints:
    """The HTTPS server of one run. An async context manager; serves nothing when the port is 0."""

    def __init__(
        self,
        options: RunOptions,
        configuration: Configuration,
        reloader: Reloader,
        wiring: Wiring,
        elector: LeaseThread | None,
        client: ApiClient,
        address: OwnAddress,
    ) -> None:
        self._options = options
        self._address = address
        #: The configuration at the start: fields that endpoints use change only by a restart.
        self._configuration = configuration
        self._reloader = reloader
        self._wiring = wiring
        self._elector = elector
        self._client = client
        self._synced = False
        self._stopping = False
        self._stack = AsyncExitStack()
        self._streams: BundleStreams | None = None
        self._authorities: ClientAuthorities | None = None
        #: The port to which the server listens; 0 if nothing is served.
        self.port = 0

    def mark_synced(self) -> None:
        """Note that every handler has processed its first list."""
        self._synced = True

    def mark_stopping(self) -> None:
        """Note that the process is ending and no longer ready."""
        self._stopping = True

    async def __aenter__(self) -> Self:
        if self._options.serving.secure_port:
            try:
                await self._start()
            except BaseException:
                await self._stack.aclose()
                raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        access = self._options.access
        token_client = await self._review_client(access.authentication_kubeconfig)
        access_client = await self._review_client(access.authorization_kubeconfig)
        handler = create_handler(
            self._sources(),
            Authenticator(partial(review_token, token_client), access),
            Authorizer(
                partial(review_access, access_client),
                access,
                review_resource=partial(review_resource_access, access_client),
            ),
        )
        self._stack.enter_context(self._address)
        tls = ServingTls(self._options.serving, loaded=self._address.shows)
        await self._prepare_authorities(tls, token_client)
        server = HttpsServer(handler, self._options.serving, tls)
        await self._stack.enter_async_context(server)
        self.port = server.port
        self._address.listens(server.port)

    async def run(self) -> None:
        """Keep the authorities of client certificates up to date until cancelled."""
        if self._authorities is not None:
            await self._authorities.run()

    async def _prepare_authorities(self, tls: ServingTls, client: ApiClient) -> None:
        access = self._options.access
        if access.client_ca_file:
            source = of_file(access.client_ca_file)
        elif access.skip_lookup:
            return
        else:
            source = of_cluster(client)
        connections = self._wiring.connections
        self._authorities = ClientAuthorities(
            source, tls.trust_clients, connections.clock, connections.random
        )
        if access.client_ca_file:
            try:
                await self._authorities.refresh()
            except NoAuthoritiesError as error:
                raise ServingError(f"--client-ca-file {error}") from error

    async def _review_client(self, kubeconfig: str) -> ApiClient:
        """Return the client of the cluster in `kubeconfig`; if empty, of our own."""
        if not kubeconfig:
            return self._client
        configuration = await load_configuration(kubeconfig=kubeconfig)
        transport = await self._stack.enter_async_context(Transport(configuration))
        return ApiClient(transport, user_agent="kubestow/access")

    def _sources(self) -> EndpointSources:
        profiling = self._configuration.effective.enable_profiling
        permissions = self._wiring.state.permissions
        groups = self._group_explainer()
        pods = self._pod_pages(groups)
        what_if = WhatIfPages(self._asker, pods.explain)
        return EndpointSources(
            health=scheduler_checks(
                shutdown=lambda: "process is shutting down" if self._stopping else None,
                handler_sync=lambda: None if self._synced else "informer handlers have not synced",
                leader_election=None if self._elector is None else self._check_renewal,
                permissions=permissions.ready,
                permissions_alive=permissions.alive,
                advisory=self._advisory_checks(),
            ),
            metrics=self._wiring.connections.metrics,
            configz=self._reloader.configz,
            debug=self._debug_pages(pods, what_if, groups),
            questions={"whatif": what_if.what_if},
            streams={name: partial(self._stream, name) for name in ("bundle", "record")},
            version=build_info().version_info(),
            pods=self._pods,
            requested=self._requested,
            set_verbosity=logs.set_verbosity if profiling else None,
        )

    async def _stream(self, name: str, query: Mapping[str, str]) -> AsyncGenerator[bytes]:
        # In a thread, as in `WhatIfPages`.
        module = await asyncio.to_thread(import_module, "scheduler.recording.streams")
        if self._streams is None:
            self._streams = module.BundleStreams(self._wiring, self._leading)
        async with aclosing(getattr(self._streams, name)(query)) as pieces:
            async for piece in pieces:
                yield piece

    def _advisory_checks(self) -> dict[str, Check]:
        checks = {"optional-permissions": self._wiring.state.permissions.degraded}
        bridge = self._wiring.controllers.bridge
        return checks if bridge is None else {**checks, "node-provisioning-bridge": bridge.health}

    def _group_explainer(self) -> GroupExplainer:
        wiring = self._wiring
        return GroupExplainer(
            wiring.scheduling.engine,
            wiring.scheduling.queue,
            wiring.scheduling.loop.groups,
            self._grouping,
            clock=wiring.connections.clock,
        )

    def _pod_pages(self, groups: GroupExplainer) -> PodPages:
        wiring = self._wiring
        history = wiring.scheduling.decisions.history
        return PodPages(
            wiring.scheduling.engine,
            wiring.scheduling.queue,
            wiring.state.listers.pod,
            clock=wiring.connections.clock,
            leading=self._leading,
            decisions=lambda *pod: history.of_pod(*pod) if history.enabled else None,
            faults=wiring.scheduling.plugin_faults,
            group_of=groups.of_pod,
        )

    def _asker(self) -> Asker:
        from scheduler.explain.what_if.asker import Asker  # noqa: PLC0415 - see `WhatIfPages`

        wiring = self._wiring
        return Asker(
            _trial_parts(wiring),
            at_rest=wiring.scheduling.loop.at_rest,
            versions=wiring.resource_version,
            clock=wiring.connections.clock,
            leading=self._leading,
            synced=lambda: self._synced,
        )

    def _debug_pages(
        self, pods: PodPages, what_if: WhatIfPages, groups: GroupExplainer
    ) -> dict[str, Page]:
        wiring = self._wiring
        nodes = NodePages(
            wiring.state.cache,
            wiring.scheduling.queue.nominator.nominated_pods_for_node,
            clock=wiring.connections.clock,
            leading=self._leading,
        )
        decisions = DecisionPages(
            wiring.scheduling.decisions.history,
            clock=wiring.connections.clock,
            leading=self._leading,
        )
        gangs = GangPages(
            self._grouping, groups, clock=wiring.connections.clock, leading=self._leading
        )
        summary = SummaryPages(
            wiring.state.cache,
            wiring.scheduling.queue,
            wiring.connections.metrics,
            clock=wiring.connections.clock,
            leading=self._leading,
            placements=decisions.placements,
        )
        waiting = WaitingPages(
            wiring.scheduling.queue,
            clock=wiring.connections.clock,
            leading=self._leading,
            decisions=wiring.scheduling.decisions.history.of_pod,
        )
        summary.start()
        self._stack.callback(summary.stop)
        return {
            "statistics": lambda _: internals(
                "Statistics", {**wiring.statistics(), "questions": what_if.statistics()}
            ),
            "queue": pods.queue,
            "explain": what_if.explain,
            "decisions": decisions.decisions,
            "summary": summary.summary,
            "cache": lambda _: internals(
                "CacheStatistics", asdict(wiring.state.cache.statistics())
            ),
            "gang": gangs.gang,
            "gangs": gangs.gangs,
            "nodes": nodes.nodes,
            "node": nodes.node,
            "waiting": waiting.waiting,
        }

    def _grouping(self) -> Iterator[GroupingPlugin]:
        """Yield the plugins that group pods, those of a reloaded configuration included."""
        for framework in self._wiring.profiles.frameworks.values():
            if framework.grouping is not None:
                yield framework.grouping

    def _leading(self) -> bool:
        return self._elector is None or self._elector.leading

    def _requested(self, namespace: str, name: str) -> Iterable[str]:
        """Return the names of the resources that a pod requests."""
        pod = self._wiring.state.listers.pod(namespace, name)
        return () if pod is None else (name for name, _ in pod.signature.requests.scalars)

    def _pods(self) -> tuple[Pod, ...]:
        if self._elector is not None and not self._elector.leading:
            return ()
        return tuple(self._wiring.state.listers["pods"].list())

    def _check_renewal(self) -> str | None:
        assert self._elector is not None
        settings = self._configuration.effective.leader_election
        age = settings.renew_deadline.total_seconds() - self._elector.fence.remaining()
        if age > settings.lease_duration.total_seconds() + RENEWAL_GRACE_SECONDS:
            return f"failed election to renew leadership on lease {settings.resource_name}"
        return None


def _trial_parts(wiring: Wiring) -> TrialParts:
    from scheduler.explain.what_if.trial import TrialParts  # noqa: PLC0415

    state, scheduling, connections = wiring.state, wiring.scheduling, wiring.connections
    return TrialParts(
        cache=state.cache,
        engine=scheduling.engine,
        stores=state.listers.stores,
        kinds=Kinds(each.resource for each in wiring.reflectors),
        signatures=state.signatures,
        subscriptions=state.subscriptions,
        random=connections.random,
        clock=connections.clock,
        features=scheduling.features,
        registered=scheduling.registered,
        existing=StoredObjects(
            state.listers.stores, connections.configuration.feature_gates, complete=True
        ),
    )
