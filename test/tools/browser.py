# Copyright (C) by the mpich-topo authors. See LICENSE.
"""A page in headless Chromium, which is driven through a pipe."""

import base64
import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Browser:
    """What it says without being asked, as errors on the console, is in events."""

    def __init__(self, to: int, back: int) -> None:
        self.to, self.back = to, os.fdopen(back, "rb", 0)
        self.events: list[dict[str, Any]] = []
        self.session: str | None = None
        self.number, self.rest = 0, b""

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def read(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            data = self.back.read(1 << 16)
            assert data, "the browser has ended"
            self.rest += data
        text, self.rest = self.rest.split(b"\0", 1)
        answer: dict[str, Any] = json.loads(text)
        return answer

    def value(self, script: str) -> Any:
        """Of an expression; a promise is waited for."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def open(self, path: Path, width: int = 1300, height: int = 900, dark: bool = False) -> None:
        """Load a file, and wait until it has drawn itself."""
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        self.events.clear()
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        shape = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **shape)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path.absolute().as_uri())
        loaded = "new Promise(r => document.readyState == 'complete' ? r(1) : addEventListener('load', r))"
        while self.value("location.protocol") != "file:":
            pass
        self.value(loaded)
        self.value("new Promise(r => requestAnimationFrame(() => setTimeout(r, 500)))")

    def requests(self) -> list[str]:
        return [
            e["params"]["request"]["url"]
            for e in self.events
            if e.get("method") == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[str]:
        """Errors, and warnings."""
        said = [json.dumps(e["params"]) for e in self.events if e.get("method") in COMPLAINTS]
        return [text for text in said if not text.startswith('{"type": "log"')]

    def picture(self) -> bytes:
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(shot["data"])


COMPLAINTS = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")


@contextlib.contextmanager
def chromium(program: str, profile: Path) -> Iterator[Browser]:
    """A browser while the block runs."""
    there, to = os.pipe()
    back, here = os.pipe()
    # it reads from 3 and writes to 4
    shell = f'exec 3<&{there} 4>&{here} && exec "$@"'
    command = [
        program,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--remote-debugging-pipe",
    ]
    command += ["--no-first-run", "--disable-background-networking", f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        ["bash", "-c", shell, "bash", *command],
        pass_fds=(there, here),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(there)
    os.close(here)
    browser = Browser(to, back)
    try:
        yield browser
    finally:
        process.kill()
        process.wait()
        os.close(to)
        browser.back.close()
