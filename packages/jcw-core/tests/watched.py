"""A run's folder in every state, and a server that watches it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import Any, Protocol

from report_samples import context_of, write_run

from jcw_core.report.stages import ReportStage
from jcw_core.run import records
from jcw_core.run.directory import RunDirectory
from jcw_core.run.standing import STANDING, Standing
from jcw_core.watch.server import Answer, Server

NOW = Standing(
    "search", 2, 5, ("profile",), 0.0, 0.0, "generation", 3, 12, ("best error 0.3", "<hypervolume>")
)


@dataclass
class Toy:
    """A stage of which only what a page asks for is there."""

    name: str
    makes: tuple[str, ...]
    shows: str | Exception = ""

    def so_far(self, scratch: Path) -> str:
        if isinstance(self.shows, Exception):
            raise self.shows
        return self.shows + (scratch / "state").read_text()


def stages(**changes: Any) -> Mapping[str, Any]:
    made = {
        "profile": ("table.npz",),
        "search": (records.FRONT,),
        "retrain": (records.MODELS,),
        "measure": (records.MEASUREMENTS,),
        "evaluate": (records.EVALUATION,),
    }
    found = {name: Toy(name, makes, changes.get(name, "")) for name, makes in made.items()}
    return {**found, "report": ReportStage()}


def works(root: Path, standing: Standing = NOW) -> None:
    """A run whose search has a checkpoint."""
    directory = RunDirectory(root)
    directory.finish("profile", "key", (), 61.0)
    (directory.scratch("search") / "state").write_text("<p>its front</p>")
    standing.write(root)


def finish(root: Path, *names: str) -> None:
    """All records, of which those of some stages hold."""
    context = context_of(root.parent)
    write_run(context)
    (root / STANDING).unlink(missing_ok=True)
    for name in names:
        RunDirectory(root).finish(name, "key", (), 2.0)
    if "report" in names:
        ReportStage().run(context)


class Served(Protocol):
    @property
    def by_path(self) -> Mapping[str, Callable[[], Answer]]: ...


@contextmanager
def serving(pages: Served) -> Iterator[Server]:
    with Server(0, pages.by_path) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def get(
    server: Server, path: str = "/", *, method: str = "GET", host: str | None = None
) -> tuple[int, str, Mapping[str, str]]:
    """Status, content and headers."""
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    try:
        connection.request(method, path, headers={} if host is None else {"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), dict(answer.getheaders())
    finally:
        connection.close()
