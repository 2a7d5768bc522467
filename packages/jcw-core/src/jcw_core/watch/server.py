"""A server of a few pages for this machine alone."""

from __future__ import annotations

import re
import socketserver
import sys
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from jcw_core.logs import logger

_log = logger(__name__)

ADDRESS = "127.0.0.1"
_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?", re.IGNORECASE)
"""Other names lead here where a foreign page has its own name point at this machine, to read what it must not."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data:; connect-src 'self'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


class Answer(NamedTuple):
    """What a page is at the moment: HTML, or nothing but a status."""

    status: HTTPStatus
    html: bytes = b""


class Server(ThreadingHTTPServer):
    """Answers GET of some paths, and nothing else.

    Args:
        port: 0 for any that is free.
        pages: by path, each made anew whenever it is asked for, in any thread.

    Raises:
        OSError: the port is taken, or may not be used.
    """

    daemon_threads = True

    def __init__(self, port: int, pages: Mapping[str, Callable[[], Answer]]) -> None:
        self.pages = pages
        super().__init__((ADDRESS, port), _Handler)

    def server_bind(self) -> None:
        """Bind without asking how this machine is called, which may take long where there is no network."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = ADDRESS, self.server_address[1]

    @property
    def url(self) -> str:
        """Where the pages are."""
        return f"http://{ADDRESS}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is no matter."""
        _log.debug("a request broke off: %r", sys.exc_info()[1])


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "jcw", ""
    timeout = 10

    def do_GET(self) -> None:
        """Answer with a page, or in a line why not."""
        path = self.path.partition("?")[0]
        if not _HOST.fullmatch(self.headers.get("Host", "")):
            self._say(HTTPStatus.FORBIDDEN, f"this is for {ADDRESS} and localhost alone")
        elif path not in self.server.pages:
            self._say(HTTPStatus.NOT_FOUND, "no such page; there is: /")
        else:
            try:
                status, html = self.server.pages[path]()
            except Exception as error:
                _log.exception("%s failed", path)
                self._say(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")
            else:
                self._send(status, "text/html; charset=utf-8", html)

    def _say(self, status: HTTPStatus, text: str) -> None:
        self._send(status, "text/plain; charset=utf-8", f"{text}\n".encode(errors="backslashreplace"))

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if status is not HTTPStatus.NO_CONTENT:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """To the log, which is silent unless somebody listens."""
        _log.debug(format, *arguments)
