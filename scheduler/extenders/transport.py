"""Calls of HTTP extenders, each within its timeout and behind a circuit breaker.

Implements `ExtenderTransport`, on which a suspended scheduling cycle waits. Every call has the
extender's `httpTimeout`; after some consecutive failures a circuit breaker stops further calls, so
that an extender that hangs cannot delay scheduling for long.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec
import structlog

from config import Extender
from scheduler.api.pod import Pod
from scheduler.api.signatures.encodable import encodable
from scheduler.client.errors import ConfigurationError as ClientConfigurationError
from scheduler.client.errors import RequestError
from scheduler.client.store import Store
from scheduler.extenders.circuit_breaker import CircuitBreaker
from scheduler.extenders.extender import DeadlineExceededError, ExtenderError, display_name
from scheduler.extenders.http_client import ExtenderHttp, ExtenderStatusError
from scheduler.extenders.protocol import (
    ExtenderResultError,
    MalformedResponseError,
)
from scheduler.framework import Clock, ConfigurationError
from scheduler.metrics import SchedulerMetrics

_log = structlog.get_logger(__name__)

T = TypeVar("T")

_CLEANUP_TIMEOUT: Final = 1.0
"""Seconds for cancelled work to clean up when the process ends."""


def extender_problems(extenders: Sequence[Extender]) -> Iterator[tuple[str, str]]:
    """Yield a YAML path and a message for each extender that cannot be called."""
    for index, extender in enumerate(extenders):
        try:
            _http_client(extender)
        except ClientConfigurationError as error:
            yield f"extenders[{index}]", str(error)


def _http_client(extender: Extender) -> ExtenderHttp:
    return ExtenderHttp(
        extender.url_prefix,
        timeout=extender.http_timeout.total_seconds(),
        tls=extender.tls_config,
        lenient=extender.enable_https,
    )


class ExtenderCallError(ExtenderError):
    """A failed call and its cause; None when the extender was not called at all."""

    def __init__(self, text: str, cause: RequestError | MalformedResponseError | None) -> None:
        super().__init__(text)
        self.cause = cause

    @property
    def never_sent(self) -> bool:
        """Whether the extender certainly did not receive the request."""
        if self.cause is None:
            return True
        return isinstance(self.cause, RequestError) and not self.cause.outcome_unknown


@dataclass(slots=True, eq=False)
class ExtenderClient:
    """One extender, its name and its HTTP client."""

    extender: Extender
    name: str
    http: ExtenderHttp
    breakers: Mapping[str, CircuitBreaker]
    """By verb: one may work while another hangs."""
    under_way: int = 0
    """Number of calls that have not ended."""


class HttpExtenderTransport:
    """Implements `ExtenderTransport` over HTTP. Touched from one event loop."""

    def __init__(
        self,
        extenders: Sequence[Extender],
        *,
        clock: Clock,
        metrics: SchedulerMetrics,
        failures: int,
        cool_down: float,
        stores: Callable[[str], Any],
    ) -> None:
        """Stop calling a verb for `cool_down` seconds after `failures` in a row.

        `stores(plural)` returns the lister that keeps the raw bytes of nodes or pods.
        """
        self._clock = clock
        self._metrics = metrics
        self._stores = stores
        #: Cancelled work that has not ended yet.
        self._abandoned: set[asyncio.Future[Any]] = set()
        self._clients: dict[int, ExtenderClient] = {}
        #: Extenders whose unusual scores were reported.
        self._reported_scores: set[str] = set()
        self._failures = failures
        self._cool_down = cool_down
        #: Removed from the configuration; their connections are closed later.
        self._removed: list[ExtenderClient] = []
        self.replace(self.clients_of(extenders))

    def clients_of(self, extenders: Sequence[Extender]) -> list[ExtenderClient]:
        """Return a client for each: the present one, with its state, if nothing differs.

        Raises:
            ConfigurationError: lists every reason why an extender cannot be called.
        """
        present = list(self._clients.values())
        clients: list[ExtenderClient] = []
        problems: list[str] = []
        for index, each in enumerate(extenders):
            same = next((one for one in present if one.extender == each), None)
            if same is not None:
                present.remove(same)
                clients.append(same)
                continue
            try:
                clients.append(self._client(each, _http_client(each)))
            except ClientConfigurationError as error:
                problems.append(f"extenders[{index}]: {error}")
        if problems:
            raise ConfigurationError(problems)
        return clients

    def replace(self, clients: Sequence[ExtenderClient]) -> None:
        """Use these from now on; calls under way end as they began."""
        following = {id(each.extender): each for each in clients}
        for key, client in self._clients.items():
            if key not in following:
                self._removed.append(client)
                for verb in client.breakers:
                    self._metrics.extender_circuit(client.name, verb, open=False)
        for key, client in following.items():
            if key not in self._clients:
                for verb in client.breakers:
                    self._metrics.extender_circuit(client.name, verb, open=False)
        self._clients = following

    def _client(self, extender: Extender, http: ExtenderHttp) -> ExtenderClient:
        verbs = (
            extender.filter_verb, extender.prioritize_verb, extender.preempt_verb,
            extender.bind_verb,
        )  # fmt: skip
        breakers = {
            verb: CircuitBreaker(
                self._clock.monotonic, failures=self._failures, cool_down=self._cool_down
            )
            for verb in verbs
            if verb
        }
        return ExtenderClient(extender, display_name(extender), http, breakers)

    async def close_removed(self) -> None:
        """Close the connections to extenders that are no longer called, if no call is under way."""
        idle = [each for each in self._removed if not each.under_way]
        self._removed = [each for each in self._removed if each.under_way]
        for client in idle:
            await client.http.close()

    async def close(self) -> None:
        """Close all connections after cancelled work had time to clean up."""
        if self._abandoned:
            await asyncio.wait(self._abandoned, timeout=_CLEANUP_TIMEOUT)
        for client in (*self._removed, *self._clients.values()):
            await client.http.close()

    # -- calls -----------------------------------------------------------------------------------

    async def send(
        self, extender: Extender, verb: str, body: bytes, read: Callable[[bytes], T]
    ) -> T:
        """Send `body` and return the response as decoded by `read`. Raises ExtenderError."""
        client = self._clients.get(id(extender))
        if client is None:
            text = f"extender {display_name(extender)} is no longer in the configuration"
            raise ExtenderCallError(text, None)
        breaker = client.breakers[verb]
        if not breaker.allows():
            self._metrics.extender_not_called(client.name, verb)
            raise ExtenderCallError(
                f"extender {client.http.url(verb)} is not called: it failed {breaker.failures} "
                f"times in a row, the next try is in {math.ceil(breaker.remaining())}s",
                None,
            )
        started, result = self._clock.monotonic(), "error"
        client.under_way += 1
        try:
            response = read(await client.http.post(verb, body))
            result = "success"
        except ExtenderResultError as error:
            # The extender works; it reports that it failed for this pod.
            self._succeeded(client, verb)
            raise ExtenderCallError(_error_text(client, verb, error), error) from error
        except (RequestError, MalformedResponseError) as error:
            text = _error_text(client, verb, error)
            if _responded(error):
                # This pod may have provoked a useless response; other pods must not pay for it.
                self._succeeded(client, verb)
            else:
                self._failed(client, verb, text)
            raise ExtenderCallError(text, error) from error
        except Exception as error:
            # Peer boundary: whatever a response provokes must fail this call only.
            self._succeeded(client, verb)
            text = _error_text(client, verb, MalformedResponseError(repr(error)))
            raise ExtenderCallError(text, MalformedResponseError(text)) from error
        except BaseException:
            breaker.abandoned()
            raise
        finally:
            client.under_way -= 1
            elapsed = self._clock.monotonic() - started
            self._metrics.extender_request(client.name, verb, result, elapsed)
        self._succeeded(client, verb)
        return response

    def _succeeded(self, client: ExtenderClient, verb: str) -> None:
        if client.breakers[verb].succeeded():
            self._metrics.extender_circuit(client.name, verb, open=False)
            _log.info("extender responds again", extender=client.name, verb=verb)

    def _failed(self, client: ExtenderClient, verb: str, text: str) -> None:
        breaker = client.breakers[verb]
        if breaker.failed():
            self._metrics.extender_circuit(client.name, verb, open=True)
            _log.error(
                "extender keeps failing and is not called for a while",
                extender=client.name,
                verb=verb,
                failures=breaker.failures,
                next_try_in=math.ceil(breaker.remaining()),
                ignorable=client.extender.ignorable,
                error=text,
            )

    async def gather(self, work: Sequence[Coroutine[Any, Any, T]]) -> Sequence[T | BaseException]:
        """Run all concurrently."""
        results: Sequence[T | BaseException] = await asyncio.gather(*work, return_exceptions=True)
        return results

    async def wait_for(self, work: Awaitable[T], seconds: float) -> T:
        """Await `work` with a timeout; work that ignores its cancellation is left behind."""
        task = asyncio.ensure_future(work)
        try:
            done, _ = await asyncio.wait((task,), timeout=None if math.isinf(seconds) else seconds)
        finally:
            if not task.done():
                task.cancel()
                self._abandoned.add(task)
                task.add_done_callback(self._ended)
        if not done:
            raise DeadlineExceededError
        if task.cancelled():
            raise RuntimeError("it was cancelled")
        return task.result()

    def _ended(self, task: asyncio.Future[Any]) -> None:
        self._abandoned.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.warning("work that was given up failed", error=repr(task.exception()))

    def log_ignored_failure(
        self, extender: Extender, verb: str, pod: Pod, error: ExtenderError
    ) -> None:
        """Log the failure of an ignorable extender, unless its breaker logged it already."""
        if isinstance(error, ExtenderCallError) and error.cause is None:
            return
        _log.warning(
            "extender failure ignored",
            extender=display_name(extender),
            verb=verb,
            pod=pod.key,
            error=str(error),
        )

    def log_unusual_scores(self, extender: Extender, unusual: str) -> None:
        """Log unusual scores, once for each extender."""
        name = display_name(extender)
        if name not in self._reported_scores:
            self._reported_scores.add(name)
            _log.warning("unusual scores of an extender are used", extender=name, unusual=unusual)

    # -- objects ---------------------------------------------------------------------------------

    def pod_bytes(self, pod: Pod) -> bytes:
        """Return a pod as the server sent it, or its known fields if it is deleted already."""
        metadata = pod.metadata
        return _raw(self._stores("pods"), metadata.name, metadata.namespace) or _encoded(pod)

    def node_bytes(self, name: str) -> bytes:
        """Return a node as the server sent it, or just its name if it is deleted already."""
        found = _raw(self._stores("nodes"), name)
        return found or msgspec.json.encode({"metadata": {"name": name}})

    def statistics(self) -> Mapping[str, Any]:
        """Return state and consecutive failures by extender and verb."""
        return {
            client.name: {
                verb: {"state": breaker.state.value, "failures": breaker.failures}
                for verb, breaker in client.breakers.items()
            }
            for client in self._clients.values()
        }


def _raw(store: Any, name: str, namespace: str = "") -> bytes | None:
    return store.raw(name, namespace) if isinstance(store, Store) else None


def _encoded(pod: Pod) -> bytes:
    plain = encodable(pod)
    return msgspec.json.encode(
        {"metadata": plain.metadata, "spec": plain.spec, "status": plain.status}
    )


def _responded(error: RequestError | MalformedResponseError) -> bool:
    """Whether the extender itself responded, if only with an error."""
    if isinstance(error, ExtenderStatusError):
        return not error.unreachable
    return isinstance(error, MalformedResponseError)


def _error_text(
    client: ExtenderClient, verb: str, error: RequestError | MalformedResponseError
) -> str:
    url = client.http.url(verb)
    text = str(error)
    if isinstance(error, RequestError):
        text = text.removeprefix(f"{error.method} {error.path}: ")
        if isinstance(error, ExtenderStatusError):
            # Upstream's text, which names URL and verb.
            return text
    return f'extender "{url}": {text}'
