"""Who may sign in, kept by both kinds of store: users, sessions, tokens, and their notes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from ledger_scene import START, Scene

from supervisor.model.access import Person, Role
from supervisor.store import search
from supervisor.store.access import AccessBook
from supervisor.store.record import AutopsyRecord, TokenRecord, UserRecord
from supervisor.store.view import AutopsyFilter

ANNA = UserRecord(
    name="anna", password="hash 1", role=Role.OPERATOR, sees_autopsies=True,
    created_at=START, created_by="root", changed_at=START,
)  # fmt: skip
CI = TokenRecord(
    name="ci", token_hash="t" * 64, role=Role.VIEWER, sees_autopsies=False,
    created_at=START, created_by="anna", ends_at=START + timedelta(days=1),
)  # fmt: skip
EVENING = START + timedelta(hours=12)


@pytest.fixture
def book(scene: Scene) -> AccessBook:
    return AccessBook(scene.store)


def notes(scene: Scene) -> list[tuple[str, str, str | None]]:
    lines = scene.reader.audit(limit=50)
    return [(line.operator, line.reason, line.note) for line in reversed(lines)]


def sign_in(scene: Scene, user: UserRecord, key: str, ends_at: datetime = EVENING) -> bool:
    with scene.ledger.transaction() as tx:
        return tx.access.begin_session(user, key, "from ::1", scene.now, ends_at)


def test_a_name_is_given_once(scene: Scene, book: AccessBook) -> None:
    assert not book.has_users()
    for expected in (True, False):
        with scene.ledger.transaction() as tx:
            assert tx.access.add_user(ANNA) is expected
    assert book.has_users()
    assert (book.users(), book.user("anna"), book.user("Anna")) == ([ANNA], ANNA, None)
    assert notes(scene) == [("root", "user_added", "anna, operator, sees autopsies")]


def test_a_session_is_its_users_until_its_end(scene: Scene, book: AccessBook) -> None:
    with scene.ledger.transaction() as tx:
        tx.access.add_user(ANNA)
    assert sign_in(scene, ANNA, "k1")
    assert sign_in(scene, ANNA, "k2")
    anna = Person("anna", Role.OPERATOR, sees_autopsies=True)
    assert book.of_session("k1", START) == book.of_session("k2", START) == anna
    assert book.of_session("k3", START) is None
    assert book.of_session("k1", EVENING) is None
    with scene.ledger.transaction() as tx:
        tx.access.end_session("k1", "anna", START)
        tx.access.end_session("k1", "anna", START)
    assert book.of_session("k1", START) is None
    assert book.of_session("k2", START) == anna
    assert notes(scene)[1:] == [
        ("anna", "signed_in", "from ::1"),
        ("anna", "signed_in", "from ::1"),
        ("anna", "signed_out", None),
    ]


def test_sessions_end_with_the_password_and_with_the_user(scene: Scene, book: AccessBook) -> None:
    with scene.ledger.transaction() as tx:
        tx.access.add_user(ANNA)
        tx.access.add_user(replace(ANNA, name="tom"))
    assert sign_in(scene, ANNA, "k1")
    assert sign_in(scene, replace(ANNA, name="tom"), "k2")
    with scene.ledger.transaction() as tx:
        assert tx.access.change_password("anna", "hash 2", "root", EVENING)
        assert not tx.access.change_password("eve", "hash 2", "root", EVENING)
    assert book.of_session("k1", START) is None
    assert book.user("anna") == replace(ANNA, password="hash 2", changed_at=EVENING)
    # whoever gave the old password a moment ago comes too late
    assert not sign_in(scene, ANNA, "k3")
    with scene.ledger.transaction() as tx:
        assert tx.access.remove_user("tom", "root", EVENING)
        assert not tx.access.remove_user("tom", "root", EVENING)
    assert book.of_session("k2", START) is None
    assert not sign_in(scene, replace(ANNA, name="tom"), "k4")
    assert [note[1] for note in notes(scene)][-2:] == ["password_changed", "user_removed"]


def test_sessions_that_are_over_are_removed(scene: Scene, book: AccessBook) -> None:
    with scene.ledger.transaction() as tx:
        tx.access.add_user(ANNA)
    sign_in(scene, ANNA, "k1")
    scene.pass_time(13 * 3600)
    sign_in(scene, ANNA, "k2", scene.now + timedelta(hours=1))
    assert book.of_session("k1", START) is None  # not by its time: its row is gone
    assert book.of_session("k2", scene.now) is not None


def test_a_token_lets_in_until_its_end_or_its_revocation(scene: Scene, book: AccessBook) -> None:
    forever = replace(CI, name="forever", token_hash="u" * 64, ends_at=None)
    with scene.ledger.transaction() as tx:
        assert tx.access.add_token(CI)
        assert not tx.access.add_token(replace(forever, name="ci"))
        assert tx.access.add_token(forever)
    assert book.tokens() == [CI, forever]
    later = START + timedelta(days=2)
    assert book.of_token("t" * 64, START) == Person("token:ci", Role.VIEWER, sees_autopsies=False)
    assert book.of_token("t" * 64, later) is None
    assert book.of_token("u" * 64, later) is not None
    assert book.of_token("x" * 64, START) is None
    with scene.ledger.transaction() as tx:
        assert tx.access.revoke_token("forever", "anna", later)
        assert not tx.access.revoke_token("forever", "anna", later)
    assert book.of_token("u" * 64, START) is None
    assert notes(scene) == [
        ("anna", "token_created", "ci, viewer, until 2026-05-21 10:30Z"),
        ("anna", "token_created", "forever, viewer, for ever"),
        ("anna", "token_revoked", "forever"),
    ]


def test_all_processes_of_a_store_sign_with_one_key(scene: Scene, book: AccessBook) -> None:
    assert book.web_key() is None
    for new in ("first", "second"):
        with scene.ledger.transaction() as tx:
            assert tx.access.web_key(new) == "first"
    assert book.web_key() == "first"


def test_bundles_are_found_by_type_and_verdict_newest_first(scene: Scene) -> None:
    of_type = {kind: scene.submit(kind) for kind in ("greet", "part")}
    made = [
        record("a1", of_type["greet"], "timeout", 0),
        record("a2", of_type["part"], "timeout", 1),
        record("a3", of_type["greet"], "stalled", 2),
        record("a4", None, "timeout", 2),
        record("a5", "task_gone", None, 2),
    ]
    with scene.ledger.transaction() as tx:
        for one in made:
            tx.record_autopsy(one)
    found = scene.reader.find_autopsies(AutopsyFilter())
    types = ["greet", "part", "greet", None, None]
    assert found.autopsies == tuple(reversed(list(zip(made, types, strict=True))))
    assert found.next_id is None
    for wanted, ids in (
        (AutopsyFilter(type="greet"), ["a3", "a1"]),
        (AutopsyFilter(type="greet", verdict="timeout"), ["a1"]),
        (AutopsyFilter(verdict="timeout"), ["a4", "a2", "a1"]),
        (AutopsyFilter(type="x"), []),
        (AutopsyFilter(limit=2), ["a5", "a4"]),
        (AutopsyFilter(before_id="a4"), ["a3", "a2", "a1"]),
        (AutopsyFilter(before_id="a3", verdict="timeout", limit=1), ["a2"]),
        (AutopsyFilter(before_id="unknown"), []),
    ):
        page = scene.reader.find_autopsies(wanted)
        assert [one.autopsy_id for one, _ in page.autopsies] == ids
        more = wanted.limit < 50
        assert page.next_id == (ids[-1] if more else None)


def record(autopsy_id: str, task_id: str | None, verdict: str | None, hour: int) -> AutopsyRecord:
    return AutopsyRecord(
        autopsy_id=autopsy_id, task_id=task_id, attempt=1, node_id="node_a", pid=1, path="/x.zip",
        status="complete", verdict=verdict, diagnosis=None, diagnosis_json=None,
        created_at=START + timedelta(hours=hour), bytes=1, ms=1,
    )  # fmt: skip


def test_a_search_for_bundles_looks_at_a_bounded_number_and_says_where_it_stopped(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "WINDOW", 2)
    with scene.ledger.transaction() as tx:
        tx.record_autopsy(record("old", None, "memory", 0))
        for n in range(3):
            tx.record_autopsy(record(f"a{n}", None, "timeout", 1 + n))
    first = scene.reader.find_autopsies(AutopsyFilter(verdict="memory"))
    assert (first.autopsies, first.next_id) == ((), "a1")
    rest = scene.reader.find_autopsies(AutopsyFilter(verdict="memory", before_id="a1"))
    assert [one.autopsy_id for one, _ in rest.autopsies] == ["old"]
