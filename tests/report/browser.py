"""A real browser on this machine, driven over loopback by WebDriver (https://www.w3.org/TR/webdriver2/)."""

import base64
import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
WAIT = 60


class Browser:
    """One window."""

    def __init__(self, address: str, profile: Path) -> None:
        self._address = address
        self._open = build_opener(ProxyHandler({})).open
        options = {"binary": CHROMIUM, "args": [*FLAGS, f"--user-data-dir={profile}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        started = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{started['sessionId']}"

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(self._address + path, data, {"Content-Type": "application/json"}, method=method)  # noqa: S310
        with self._open(request, timeout=WAIT) as answer:
            return json.load(answer)["value"]

    def go(self, path: Path) -> None:
        self.ask("POST", f"{self._session}/url", {"url": path.as_uri()})

    def run(self, script: str, *arguments: Any) -> Any:
        return self.ask("POST", f"{self._session}/execute/sync", {"script": script, "args": list(arguments)})

    def text(self, identity: str) -> str:
        return str(self.run("return document.getElementById(arguments[0]).textContent", identity))

    def press(self, identity: str, key: str) -> None:
        """Press a key with the focus on an element."""
        found = self.ask("POST", f"{self._session}/element", {"using": "css selector", "value": f"#{identity}"})
        (element,) = found.values()
        self.ask("POST", f"{self._session}/element/{element}/value", {"text": key})

    def tool(self, command: str, **parameters: Any) -> Any:
        """Use a developer tool."""
        body = {"cmd": command, "params": parameters}
        return self.ask("POST", f"{self._session}/goog/cdp/execute", body)

    def look(self, *, width: int, dark: bool) -> None:
        """Set the width of the screen and the colour scheme."""
        self.tool(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.tool("Emulation.setEmulatedMedia", media="screen", features=[scheme])

    def pages_on_paper(self) -> int:
        """Print on A4 and count the pages."""
        self.tool("Emulation.setEmulatedMedia", media="")
        found = self.tool("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, preferCSSPageSize=True)
        return len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(found["data"])))

    def complaints(self) -> list[str]:
        """The messages on the console."""
        return [str(entry["message"]) for entry in self._log("browser")]

    def requests(self) -> list[str]:
        """Every address that was asked for."""
        messages = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        sent = [one for one in messages if one["method"] == "Network.requestWillBeSent"]
        return [str(one["params"]["request"]["url"]) for one in sent]

    def _log(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("POST", f"{self._session}/se/log", {"type": kind})
        return found

    def close(self) -> None:
        self.ask("DELETE", self._session)


@contextmanager
def open_browser(profile: Path) -> Iterator[Browser]:
    """Start the driver on a free port of this machine, and end it."""
    assert DRIVER
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    command = [DRIVER, f"--port={port}", "--allowed-ips=127.0.0.1", "--silent"]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        _wait_for(address)
        browser = Browser(address, profile)
        try:
            yield browser
        finally:
            browser.close()
    finally:
        driver.terminate()
        driver.wait(timeout=WAIT)


def _wait_for(address: str) -> None:
    ask = build_opener(ProxyHandler({})).open
    for _ in range(10 * WAIT):
        try:
            with ask(f"{address}/status", timeout=WAIT):
                return
        except (URLError, ConnectionError):
            time.sleep(0.1)
    raise TimeoutError("the driver did not start")
