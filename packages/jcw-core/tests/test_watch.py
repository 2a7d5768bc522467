"""``jcw watch``: a run in every state, files that are being replaced, and who may ask for what."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event, Thread
from urllib.request import urlopen

import pytest
from click.testing import CliRunner, Result
from watched import NOW, finish, get, serving, stages, works

import jcw_core.plugin
from jcw_core.cli.main import build
from jcw_core.registry import Registry
from jcw_core.run import records
from jcw_core.run.directory import RunDirectory
from jcw_core.run.standing import STANDING
from jcw_core.watch.pages import Pages
from jcw_core.watch.server import Server


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "run"


def shown(root: Path, path: str = "/now", **changes: object) -> str:
    with serving(Pages(root, stages(**changes))) as server:
        status, text, _ = get(server, path)
    assert status == 200
    return text


def rows(text: str) -> list[tuple[str, str]]:
    return re.findall(r'<tr><th scope="row">(.*?)</th><td>(.*?)</td>', text)


def test_a_stage_that_works_shows_how_far_it_is_and_what_it_has_found(root: Path) -> None:
    works(root)
    text = shown(root)
    assert "<strong>search</strong>: generation 3 of 12" in text
    assert 'max="12" value="3"></progress>' in text
    assert "Stage 3 of 5" in text
    assert "&lt;hypervolume&gt;" in text
    assert "<h2>search so far</h2><p>its front</p>" in text
    assert rows(text) == [("profile", "1 min 1 s"), ("search", "works")]
    assert "2 more to come" in text


def test_the_page_is_whole_without_its_script(root: Path) -> None:
    works(root)
    page = shown(root, "/")
    assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in page
    assert "generation 3 of 12" in page
    assert "//" not in re.sub(r"<script>.*?</script>", "", page)  # nothing from elsewhere


def test_records_of_an_earlier_attempt_are_not_taken_for_this_one(root: Path) -> None:
    works(root)
    finish(root, "search", "retrain", "report")
    NOW.write(root)
    text = shown(root)
    assert rows(text) == [("profile", "1 min 1 s"), ("search", "works")]
    assert "The front" not in text
    assert "<main>" in shown(root, "/")


def test_a_run_that_was_interrupted_says_so(root: Path) -> None:
    works(root)
    (root / STANDING).unlink()
    text = shown(root)
    assert "Nothing works on this run now. It was interrupted in search." in text
    assert rows(text) == [("profile", "1 min 1 s"), ("search", "interrupted")]
    assert "its front" in text


def test_models_come_in_as_far_as_they_are_known(root: Path) -> None:
    works(root)
    finish(root, "search")
    assert "search front (predicted)" in shown(root)
    assert "<h2>Models</h2>" not in shown(root)
    finish(root, "retrain")
    text = shown(root)
    assert '<th scope="row">m1</th><td>1.200</td><td>1.000</td><td>-</td><td>30.00%</td><td>-</td>' in text
    finish(root, "measure", "evaluate")
    text = shown(root)
    assert (
        '<th scope="row">m1</th><td>1.200</td><td>1.000</td><td>1.100</td><td>30.00%</td><td>10.50%</td>'
        in text
    )
    assert "models (measured)" in text


def test_the_report_takes_its_place(root: Path) -> None:
    finish(root, "search", "retrain", "measure", "evaluate", "report")
    with serving(Pages(root, stages())) as server:
        assert get(server, "/now")[0] == 204
        assert get(server)[1] == (root / "report.html").read_text()


def test_a_copy_without_hidden_files_is_a_report(root: Path) -> None:
    finish(root, "report")
    (root / ".state").rename(root.parent / "state")
    assert shown(root, "/") == (root / "report.html").read_text()


def test_a_stage_that_fails_takes_nothing_else_down(root: Path) -> None:
    works(root)
    text = shown(root, search=ValueError("<broken>"))
    assert "search cannot be shown now (ValueError: &lt;broken&gt;)" in text
    assert "generation 3 of 12" in text
    assert "search cannot be shown now (FileNotFoundError" in shown(
        root, **remove(root / ".state/search/state")
    )


def remove(path: Path) -> dict[str, object]:
    path.unlink()
    return {}


def test_a_run_that_is_gone_is_no_error(root: Path) -> None:
    assert "Nothing works on this run now." in shown(root)


def test_files_that_are_replaced_meanwhile(root: Path) -> None:
    """Whole files and pieces of them, in the middle of every request."""
    works(root)
    finish(root, "search", "retrain", "measure", "evaluate")
    works(root, replace(NOW, finished=("profile", "search", "retrain", "measure", "evaluate")))
    files = [root / name for name in (STANDING, records.FRONT, records.MODELS, records.EVALUATION)]
    contents, stop = [path.read_bytes() for path in files], Event()

    def replacing() -> None:
        while not stop.is_set():
            for path, content in zip(files, contents, strict=True):
                for length in (0, len(content) // 2, len(content)):
                    path.write_bytes(content[:length])
                path.unlink()
                path.write_bytes(content)

    thread = Thread(target=replacing)
    with serving(Pages(root, stages())) as server:
        thread.start()
        try:
            texts = [get(server, path) for _ in range(40) for path in ("/", "/now")]
        finally:
            stop.set()
            thread.join()
    assert {status for status, _, _ in texts} == {200}
    assert any("generation 3 of 12" in text for _, text, _ in texts)


def test_the_folder_stays_as_it_is_and_free_for_the_run(root: Path) -> None:
    works(root)
    with RunDirectory(root).locked():
        pass

    def tree() -> dict[Path, tuple[int, int]]:
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in [root, *root.rglob("*")]}

    before = tree()
    with serving(Pages(root, stages())) as server, RunDirectory(root).locked():
        for path in ("/", "/now"):
            assert get(server, path)[0] == 200
    assert tree() == before


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/?at=1", "GET", 200),
        ("/report.json", "GET", 404),
        ("/.state/", "GET", 404),
        ("/../run/.progress.json", "GET", 404),
        ("/now/", "GET", 404),
        ("/%2e%2e/", "GET", 404),
        ("/", "POST", 501),
        ("/", "HEAD", 501),
        ("/", "DELETE", 501),
    ],
)
def test_known_paths_alone_are_answered(root: Path, path: str, method: str, status: int) -> None:
    works(root)
    with serving(Pages(root, stages())) as server:
        found, text, headers = get(server, path, method=method)
    assert found == status
    if status == 404:
        assert text == "no such page; there is: /\n"
        assert headers["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8765", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:80", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example:8765", 403),
        ("localhost@evil.example", 403),
        ("evil.example#localhost", 403),
        ("", 403),
    ],
)
def test_a_name_that_was_pointed_here_learns_nothing(root: Path, host: str, status: int) -> None:
    works(root)
    with serving(Pages(root, stages())) as server:
        found, text, headers = get(server, host=host)
    assert found == status
    assert ("generation" in text) == (status == 200)
    assert "default-src 'none'" in headers["Content-Security-Policy"]


def jcw(*arguments: str) -> Result:
    return CliRunner().invoke(build(Registry()), ["watch", *arguments])


def test_what_is_no_run_is_said_in_a_line_that_names_those_nearby(root: Path) -> None:
    assert re.search(r"run: no such run; jcw run makes one", str(jcw(str(root)).exception))
    works(root)
    for given, said in ((root.parent, "holds no run"), (root.parent / "other", "no such run")):
        message = str(jcw(str(given)).exception)
        assert message == f"{given}: {said}; there is: {root}"
    assert "holds no run" in str(jcw(str(root / ".state" / "search")).exception)


def test_a_port_that_is_taken_names_a_way_out(root: Path) -> None:
    works(root)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = str(jcw(str(root), "--port", str(port)).exception)
    assert re.fullmatch(
        rf"port {port} of 127.0.0.1 cannot be used \(.*in use\); give another, or --port 0 .*", message
    )
    assert jcw(str(root), "--port", "70000").exit_code == 2


def test_only_this_machine_reaches_it(root: Path) -> None:
    with Server(0, {}) as server:
        assert server.server_address[0] == "127.0.0.1"


def test_stages_that_are_not_installed_show_nothing(root: Path) -> None:
    works(root)
    alone = Registry({"core": jcw_core.plugin}, installed=False)
    with serving(Pages(root, alone.stages)) as server:
        status, text, _ = get(server, "/now")
    assert status == 200
    assert "generation 3 of 12" in text
    assert "its front" not in text


def test_an_interrupt_ends_it_well(root: Path) -> None:
    works(root)
    command = [sys.executable, "-m", "jcw_core", "watch", str(root), "--port", "0"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        url = re.findall(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())[0]
        try:
            with urlopen(url) as answer:
                assert b"generation 3 of 12" in answer.read()
        finally:
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
