"""A headless Chromium and one page in it, driven by the Chrome DevTools protocol.

Written here, since what these tests need is four commands and three events of that protocol over a
WebSocket of aiohttp, which the project has anyway; Playwright brings a Node.js and its own
browsers, Selenium a second server.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import aiohttp

PROGRAM: Final = "chromium"
PATIENCE_SECONDS: Final = 60.0

FLAGS: Final = (
    "--headless=new",
    "--remote-debugging-port=0",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    # Whatever Chromium itself would ask the internet.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-features=OptimizationHints,MediaRouter,DialMediaRouteProvider",
    "--force-color-profile=srgb",
)

KEYS: Final = {
    "Tab": ("Tab", 9, ""),
    "Enter": ("Enter", 13, "\r"),
    "ArrowRight": ("ArrowRight", 39, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
    "End": ("End", 35, ""),
}


def installed() -> bool:
    """Whether there is a Chromium."""
    return shutil.which(PROGRAM) is not None


class Page:
    """One page. Keeps what went wrong in it and which addresses it asked for."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._next = 0
        self._replies: dict[int, asyncio.Future[dict[str, Any]]] = {}
        #: Errors and warnings of the console, exceptions, and violations of the policy.
        self.problems: list[str] = []
        #: Addresses of all requests.
        self.requests: list[str] = []
        self._loaded = asyncio.Event()
        #: The stream of the last trace, and whether it has ended.
        self.trace = ""
        self.traced = asyncio.Event()

    async def read(self) -> None:
        """Read replies and events until the connection ends."""
        async for message in self._socket:
            data = json.loads(message.data)
            if "id" in data:
                reply = self._replies.pop(data["id"])
                if not reply.done():
                    reply.set_result(data)
            else:
                self._note(data["method"], data["params"])

    def _note(self, method: str, event: dict[str, Any]) -> None:
        match method:
            case "Runtime.exceptionThrown":
                details = event["exceptionDetails"]
                self.problems.append(str(details.get("exception", details)))
            case "Runtime.consoleAPICalled" if event["type"] in ("error", "warning", "assert"):
                self.problems.append(str([each.get("value") for each in event["args"]]))
            case "Log.entryAdded" if event["entry"]["level"] in ("error", "warning"):
                entry = event["entry"]
                self.problems.append(f"{entry['text']} {entry.get('url', '')}")
            case "Network.requestWillBeSent":
                self.requests.append(event["request"]["url"])
            case "Page.loadEventFired":
                self._loaded.set()
            case "Tracing.tracingComplete":
                self.trace = event["stream"]
                self.traced.set()

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol."""
        self._next += 1
        reply = self._replies[self._next] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._next, "method": method, "params": parameters})
        async with asyncio.timeout(PATIENCE_SECONDS):
            data = await reply
        assert "error" not in data, f"{method}: {data['error']}"
        result: dict[str, Any] = data["result"]
        return result

    async def open(self, url: str) -> None:
        """Load an address."""
        self._loaded.clear()
        await self.call("Page.navigate", url=url)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._loaded.wait()

    async def prepare(self, script: str) -> None:
        """Run a script in each document that is loaded from now on, before its own scripts."""
        await self.call("Page.addScriptToEvaluateOnNewDocument", source=script)

    async def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, awaited."""
        found = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, f"{expression}: {found['exceptionDetails']}"
        return found["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until an expression is true in JavaScript's sense."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not await self.evaluate(f"Boolean({expression})"):
                    await self.evaluate("new Promise((resolve) => requestAnimationFrame(resolve))")
        except TimeoutError as error:
            seen = await self.evaluate(
                "`${location.hash}, ${document.visibilityState}: ${document.body.innerText}`"
            )
            raise AssertionError(f"never true: {expression}; the page at {seen}") from error

    async def text(self) -> str:
        """Return the text that the page shows."""
        return str(await self.evaluate("document.body.innerText"))

    async def press(self, key: str) -> None:
        """Press a key."""
        name, code, text = KEYS[key]
        common = {"key": name, "code": name, "windowsVirtualKeyCode": code}
        down = "keyDown" if text else "rawKeyDown"
        await self.call("Input.dispatchKeyEvent", type=down, text=text, **common)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    async def type(self, text: str) -> None:
        """Type a text into what has the focus."""
        await self.call("Input.insertText", text=text)

    async def prefer(self, **media: str) -> None:
        """Set media features: `prefer(color_scheme="dark")`."""
        features = [
            {"name": f"prefers-{name.replace('_', '-')}", "value": value}
            for name, value in media.items()
        ]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def size(self, width: int, height: int) -> None:
        """Set the size of the window."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    async def screenshot(self, format: str = "webp") -> bytes:  # noqa: A002 - the protocol's name
        """Return what the window shows as an image, such as `webp` or `png`."""
        quality = {} if format == "png" else {"quality": 80}
        found = await self.call("Page.captureScreenshot", format=format, **quality)
        return base64.b64decode(found["data"])


@asynccontextmanager
async def chromium(profile: Path) -> AsyncIterator[str]:
    """Run a browser with its profile in a folder; give the address of its DevTools."""
    sandbox = () if os.geteuid() else ("--no-sandbox",)
    process = await asyncio.create_subprocess_exec(
        *(PROGRAM, *FLAGS, *sandbox, f"--user-data-dir={profile}", "about:blank"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while b"DevTools listening on" not in (line := await process.stderr.readline()):
                assert line, "Chromium ended at once; run it by hand to see why"
        address = line.split(b"ws://")[1].split(b"/")[0].decode()
        # It writes more, which must not fill the pipe.
        reader = asyncio.create_task(process.stderr.read(), name="standard error of Chromium")
        yield f"http://{address}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        await process.wait()
    await reader


@asynccontextmanager
async def page(devtools: str) -> AsyncIterator[Page]:
    """Open an empty page in a browser."""
    async with aiohttp.ClientSession() as session:
        async with session.put(f"{devtools}/json/new?about:blank") as response:
            target = await response.json()
        url = target["webSocketDebuggerUrl"]
        async with session.ws_connect(url, max_msg_size=1 << 26) as socket:
            found = Page(socket)
            reader = asyncio.create_task(found.read(), name="events of the page")
            for domain in ("Page", "Runtime", "Network", "Log"):
                await found.call(f"{domain}.enable")
            yield found
            await session.get(f"{devtools}/json/close/{target['id']}")
        await reader
