"""The page of nodes: who is there and what each worker does, as the nodes themselves say it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from api import Api
from harness import NodeUnderTest, Start, eventually, on_both_stores
from pages import Answer, Browser, PagesUnderTest, pages

from supervisor.model.record import NodeRecord, ProcessIdentity
from supervisor.model.states import State
from supervisor.store import Ledger
from supervisor.web.pages.nodes import GONE_MOST
from supervisor.web.pages.overview import NODES_SHOWN


@contextmanager
def site_of(node: NodeUnderTest, root: Path) -> Iterator[tuple[PagesUnderTest, Browser]]:
    """Show the store of a node."""
    with pages(root, start=False) as site:
        site.env["SUPERVISOR_STORE"] = node.url
        site.env["SUPERVISOR_QUEUE"] = node.place.queue
        site.env["XDG_RUNTIME_DIR"] = node.env["XDG_RUNTIME_DIR"]
        yield site, site.start().opened()


def shown(browser: Browser, text: str, timeout: float = 20.0) -> Answer:
    return eventually(lambda: (page := browser.get("/nodes")) and text in page.text and page,
                      timeout, text)  # fmt: skip


def plain(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


def rows(page: Answer, table: str) -> list[list[str]]:
    """Return the cells of a table as a person reads them, without the small lines."""
    (found,) = re.findall(rf'aria-label="{table}"(.*?)</table>', page.text, re.DOTALL)
    body = re.sub(r"<svg.*?</svg>", "", found.split("<tbody>")[1], flags=re.DOTALL)
    return [
        [plain(re.sub(r"^[^>]*>", "", cell)) for cell in row.split("<td")[1:]]
        for row in re.findall(r"<tr>.*?</tr>", body, re.DOTALL)
    ]


def order(browser: Browser, kind: str, **fields: str) -> Answer:
    page = browser.get("/nodes")
    (node_id,) = set(re.findall(r'name="node" value="([^"]+)"', page.text))
    (seen,) = set(re.findall(r'name="seen" value="([^"]+)"', page.text))
    values = {"node": node_id, "seen": seen, "reason": "we move house", **fields}
    return browser.post(f"/nodes/{kind}", page.token(), **values)


@on_both_stores
def test_a_node_its_workers_and_what_they_run(start_node: Start, tmp_path: Path) -> None:
    node = start_node(workers=2)
    handle = node.submit("wait")
    node.started(handle)
    with site_of(node, tmp_path) as (_, browser):
        page = shown(browser, handle.task_id)
        page = shown(browser, "2 wanted, 2 alive; it has 1 attempt")
        assert page.heading == "Nodes and workers"
        said = eventually(lambda: rows(shown(browser, "busy"), "Workers of node-under-test"), 20)
        assert [row[0] for row in said] == ["0", "1"]
        (busy,) = [row for row in said if row[2] == "busy"]
        (idle,) = [row for row in said if row[2] == "idle"]
        assert re.fullmatch(rf"…{handle.task_id[-8:]} wait, .* m?s", busy[3])
        assert idle[3:5] == ["–", "–"]
        living = {worker.pid for worker in node.reader.workers() if worker.ended_at is None}
        assert {int(row[1]) for row in said} == living
        assert re.fullmatch(r"\d+\.\d MiB", busy[5])
        assert int(busy[9]) > 5
        (_, share) = eventually(
            lambda: re.search(r"(CPU) +(\d+ %)", plain(browser.get("/nodes").text)), 20
        ).groups()
        assert share != "–"
        if node.is_alone:
            assert "none: this store is a file, and has one node" in page.text
        else:
            lease = r"\d s left; its clock is [+-]\d\.\d{3} s off the store's"
            assert re.search(lease, plain(page.text))
        node.kill()
        gone = shown(browser, "1 attempt reads RUNNING")
        assert "No node runs: no task starts." in gone.text
        (row,) = rows(gone, "Nodes that are gone")
        assert row[0] == "node-under-test"
        assert row[5].startswith("gone (")
        assert f"pid {node.pid})" in row[5]
        node.start()
        shown(browser, 'id="node-')
        assert handle.view().state is not State.SUCCESS


def test_a_node_is_drained_and_taken_back_and_stopped(start_node: Start, tmp_path: Path) -> None:
    node = start_node(workers=1)
    with site_of(node, tmp_path) as (_, browser):
        shown(browser, ">running</span>")
        shown(browser, "Said</dt><dd>")
        blank = order(browser, "drain", reason=" ")
        assert blank.flash == "Nothing was done: say why, it stands in the audit trail."
        told = order(browser, "drain")
        assert told.flash == "Drain: asked of node-under-test; its answer will stand below."
        page = shown(browser, ">drained</span>")
        assert re.search(r"asked it to drain: we move house → (?!no answer)\w", plain(page.text))
        late = order(browser, "drain", seen="running")
        assert late.flash == "Nothing was done: node-under-test is drained by now."
        waits = node.submit("ok")
        order(browser, "undrain")
        assert waits.wait(20).state is State.SUCCESS
        shown(browser, ">running</span>")
        order(browser, "stop")
        node.wait_exit(30)
        page = shown(browser, "No node runs: no task starts.")
        (row,) = rows(page, "Nodes that are gone")
        assert row[0] == "node-under-test"
        (worker,) = rows(page, "Workers that ended lately")
        assert (worker[1], worker[5] != "–") == ("node-under-test", True)
        assert browser.post("/nodes/drain", page.token(), node="x", reason="y").code == 400


def test_of_many_nodes_that_ended_some_are_shown_and_the_others_counted(tmp_path: Path) -> None:
    with pages(tmp_path) as site:
        store = site.client.reader.store
        now = store.clock.now()
        own = NodeRecord(
            node_id="", node_name="host-1", version="0.1.0", started_at=now,
            process=ProcessIdentity(pid=7, start_ticks=70, boot_id="boot", pid_ns=1),
        )  # fmt: skip
        with Ledger(store).transaction() as tx:
            for number in range(NODES_SHOWN + 3):
                tx.register_node(replace(own, node_id=f"node_r{number}"))
            for number in range(130):
                tx.register_node(replace(own, node_id=f"node_{number:03}"))
                tx.end_node(f"node_{number:03}", now, "stopped")
        page = site.opened().get("/nodes")
        assert len(rows(page, "Nodes that are gone")) == GONE_MOST
        assert f"{130 - GONE_MOST} more are not shown." in page.text
        assert "3 more are not shown." in site.opened().get("/").text
        api = Api(site.base, site.add_token("ci"))
        told = api.get("/nodes").document
        assert (len(told["nodes"]), told["left_out"]) == (NODES_SHOWN + 103, 30)
        for number in (0, 129):  # what is not listed is there
            assert api.get(f"/nodes/node_{number:03}/vitals").document == {"readings": []}
        assert api.get("/nodes/node_130/vitals").code == 404
        listed = site.cli("nodes", "--all").stdout
        assert listed.splitlines()[-1] == "30 more that ended are not listed"


@pytest.mark.parametrize("path", ["/nodes", "/queues", "/"])
def test_a_store_without_anything_is_told(tmp_path: Path, path: str) -> None:
    with pages(tmp_path) as site:
        page = site.opened().get(path)
        assert page.code == 200
        assert {"/": "No node runs.", "/nodes": "None has ended.", "/queues": "No queue yet"}[
            path
        ] in page.text
