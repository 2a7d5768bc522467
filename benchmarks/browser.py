"""A page in headless Chromium that does as ``wasm.mjs`` does in Node."""

from __future__ import annotations

import json
import mimetypes
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

PAGE = """<!doctype html><script type="module">
try {
  const { measure } = await import("/wasm.mjs");
  const bytes = async (path) => new Uint8Array(await (await fetch(path)).arrayBuffer());
  const { models, rounds, visitMs } = await (await fetch("/settings")).json();
  const found = await measure({
    load: (await import("/jcw/index.mjs")).load,
    ort: await import("/ort/ort.wasm.min.mjs"),
    image: new Float32Array((await bytes("/image")).buffer),
    models: await Promise.all(models.map(async (ours, i) => ({ ours, bytes: await bytes(`/models/${i}`) }))),
    rounds,
    visitMs,
    clock: () => performance.now(),
  });
  const host = navigator.userAgent.match(/Chrome\\/\\S+/)[0];
  await fetch("/result", { method: "POST", body: JSON.stringify({ host, ...found }) });
} catch (error) {
  await fetch("/result", { method: "POST", body: JSON.stringify({ error: String(error) }) });
}
</script>"""
PATIENCE = 1800
"""Seconds that a page may take."""


def in_browser(
    package: Path, peer: Path, image: Path, rounds: int, visit_ms: float, models: Sequence[Path]
) -> dict[str, Any]:
    """What the page found; arguments as of ``wasm.mjs``. Raises ``RuntimeError`` with its error."""
    settings = {
        "models": [path.suffix == ".jcw" for path in models],
        "rounds": rounds,
        "visitMs": visit_ms,
    }
    texts = {
        "/": ("text/html", PAGE.encode()),
        "/settings": ("application/json", json.dumps(settings).encode()),
    }
    files = {"/wasm.mjs": Path(__file__).with_name("wasm.mjs"), "/image": image}
    files |= {f"/models/{i}": path for i, path in enumerate(models)}
    files |= {f"/jcw/{path.name}": path for path in package.iterdir()}
    files |= {f"/ort/{path.name}": path for path in (peer / "dist").iterdir()}
    results: Queue[dict[str, Any]] = Queue()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, texts, files, results))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as profile:
        command = [
            "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            f"--user-data-dir={profile}", f"http://127.0.0.1:{server.server_port}/",
        ]  # fmt: skip
        with subprocess.Popen(
            [*command, "--remote-debugging-port=0"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as browser:
            try:
                found = results.get(timeout=PATIENCE)
            finally:
                browser.terminate()
                server.shutdown()
    if "error" in found:
        raise RuntimeError(f"Chromium: {found['error']}")
    return found


class Handler(BaseHTTPRequestHandler):
    """Serves texts and files, and takes the result."""

    def __init__(
        self,
        texts: Mapping[str, tuple[str, bytes]],
        files: Mapping[str, Path],
        results: Queue[dict[str, Any]],
        *connection: Any,
    ) -> None:
        self._texts, self._files, self._results = texts, files, results
        super().__init__(*connection)

    def do_GET(self) -> None:
        """A text or a file."""
        if self.path in self._texts:
            return self._answer(*self._texts[self.path])
        if self.path not in self._files:
            return self.send_error(404)
        file = self._files[self.path]
        kind = "text/javascript" if file.suffix == ".mjs" else mimetypes.guess_type(file.name)[0]
        self._answer(kind or "application/octet-stream", file.read_bytes())

    def do_POST(self) -> None:
        """The result."""
        self._results.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._answer("text/plain", b"")

    def _answer(self, kind: str, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""
