"""The HTTPS endpoints of this process (`cmd/kube-scheduler/app/server.go: newEndpointsHandler`)."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from config import Configuration
from scheduler.api.pod import Pod
from scheduler.build_info import build_info
from scheduler.client.configuration import load_configuration
from scheduler.client.rest import ApiClient
from scheduler.client.reviews import review_access, review_resource_access, review_token
from scheduler.client.transport import Transport
from scheduler.process import logs
from scheduler.process.debug_pages import DebugPages
from scheduler.process.lease_thread import LeaseThread
from scheduler.process.own_address import OwnAddress
from scheduler.service.options import RunOptions
from scheduler.service.serving.access import Authenticator, Authorizer
from scheduler.service.serving.application import EndpointSources, create_handler
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
        pages = DebugPages(self._wiring, leading=self._leading, synced=lambda: self._synced)
        self._stack.enter_context(pages)
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
            debug=pages.debug,
            questions=pages.questions,
            streams=pages.streams,
            version=build_info().version_info(),
            pods=self._pods,
            find_pod=self._wiring.state.listers.pod,
            set_verbosity=logs.set_verbosity if profiling else None,
        )

    def _advisory_checks(self) -> dict[str, Check]:
        checks = {"optional-permissions": self._wiring.state.permissions.degraded}
        bridge = self._wiring.controllers.bridge
        return checks if bridge is None else {**checks, "node-provisioning-bridge": bridge.health}

    def _leading(self) -> bool:
        return self._elector is None or self._elector.leading

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
