"""The web's pure parts: who may do what, how often a password is tried, what a path may be."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import supervisor.web
from supervisor.model.access import Person, Right, Role, is_name
from supervisor.store.ledger.audit import ACCESS_REASONS, NoteReason
from supervisor.testing.clock import ManualClock
from supervisor.web import secret, spreadsheet, wording
from supervisor.web.api import ENDPOINTS
from supervisor.web.api.endpoint import READ
from supervisor.web.limiter import (
    ADDRESS_MAX,
    KEY_LENGTH,
    KEYS_MAX,
    NAME_MAX,
    PAIR_MAX,
    WINDOW_S,
    Limiter,
)
from supervisor.web.pages.audit import NOTES
from supervisor.web.proxy import is_loopback
from supervisor.web.site import NAVIGATION, ROUTES
from supervisor.web.visit import own_path

SIGNS = ("=", "+", "-", "@")
#: What a program does, or asks, for what a page is there for.
OPERATIONS: Mapping[str, tuple[str, ...]] = {
    "access": ("access.list_users", "access.list_tokens"),
    "access_user": ("access.add_user",),
    "access_password": ("access.set_password",),
    "access_disable": ("access.disable_user",),
    "access_remove": ("access.remove_user",),
    "access_token": ("access.create_token",),
    "access_revoke": ("access.revoke_token",),
    "act": ("acts.act_on_task", "acts.resubmit_task", "nodes.capture_task"),
    "alerts": ("alertmanager.list_alerts",),
    "audit": ("audit.list_audit",),
    "audit_file": ("audit.list_audit",),
    "autopsies": ("autopsies.list_autopsies",),
    "autopsy": ("autopsies.get_autopsy", "autopsies.get_evidence"),
    "autopsy_group": ("autopsies.get_group",),
    "autopsy_group_act": ("acts.act_on_tasks",),
    "autopsy_groups": ("autopsies.list_groups",),
    "autopsy_open": ("autopsies.open_bundle",),
    "bulk": ("bulk.get_bulk",),
    "bulk_act": ("acts.act_on_tasks", "bulk.begin_bulk", "tasks.count_tasks"),
    "bulk_stop": ("bulk.stop_bulk",),
    "bulks": ("bulk.list_bulks",),
    "bundle": ("autopsies.get_bundle",),
    "change_password": ("me.change_own_password",),
    "choose_language": ("me.choose_own_language",),
    "dead": ("dead.list_dead",),
    "latest": ("autopsies.list_autopsies",),
    "node_order": ("nodes.order_node", "nodes.get_order"),
    "nodes": (
        "nodes.list_nodes", "nodes.list_workers", "nodes.get_vitals", "nodes.list_orders",
    ),
    "overview": ("numbers.get_numbers", "numbers.get_hour", "attention.get_attention"),
    "queue_act": ("queues.pause_queue", "queues.resume_queue"),
    "queues": ("queues.list_queues",),
    "report": ("autopsies.get_evidence",),
    "settings": ("settings.list_settings", "settings.list_types", "me.get_me"),
    "task": (
        "tasks.get_task", "tasks.get_history", "tasks.get_log", "nodes.orders_of_task",
    ),
    "tasks": ("tasks.list_tasks", "tasks.count_tasks"),
    "tasks_file": ("tasks.list_tasks",),
}  # fmt: skip
#: What is for people alone, and why.
OF_PEOPLE_ALONE: Mapping[str, str] = {
    "autopsy_ask": "an empty form",
    "enter": "a program comes with a token and begins no session",
    "leave": "a program has no session to end; its token is revoked",
    "sign_in": "an empty form",
}
STYLE = Path(supervisor.web.__file__).parent / "static" / "style.css"


def test_rights_come_with_roles_but_evidence_with_none() -> None:
    rights = {
        role: {right for right in Right if Person("p", role, sees_autopsies=False).may(right)}
        for role in Role
    }
    assert rights == {
        Role.VIEWER: {Right.TASKS},
        Role.OPERATOR: {Right.TASKS, Right.ACT, Right.SUBMIT},
        Role.ADMIN: {Right.TASKS, Right.ACT, Right.SUBMIT, Right.MANAGE, Right.TELL},
        Role.SUBMITTER: {Right.TASKS, Right.SUBMIT},
        Role.TELLER: {Right.TELL},
    }
    assert not Person("am", Role.TELLER, sees_autopsies=True).may(Right.AUTOPSIES)
    assert Person("p", Role.VIEWER, sees_autopsies=True).may(Right.AUTOPSIES)


@pytest.mark.parametrize("name", ["anna", "a.b@c-d+e", "_x", "9", "A" * 64])
def test_names(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize("name", ["", ".a", "-a", "a b", "a/b", "ä", "a\n", "A" * 65, "token:x"])
def test_no_names(name: str) -> None:
    assert not is_name(name)


def test_every_page_needs_a_right_but_the_door() -> None:
    assert {route.name for route in ROUTES if route.needs is None} == {"sign_in", "enter"}
    open_to_all = {route.name for route in ROUTES if route.needs is None}
    assert open_to_all == {"sign_in", "enter"}
    acts = {route.name: route.needs for route in ROUTES if route.method == "POST"}
    assert (acts["leave"], acts["act"]) == (Right.TASKS, Right.ACT)


def test_rooms_are_told_apart_and_lead_to_pages_that_need_the_same_right() -> None:
    names, keys = [room.name for room in NAVIGATION], [room.key for room in NAVIGATION]
    assert sorted(set(names)) == sorted(names)
    assert sorted(set(keys)) == sorted(keys)
    assert all(len(key) == 1 for key in keys)
    needs = {route.name: route.needs for route in ROUTES}
    assert {room.name: room.needs for room in NAVIGATION} == {name: needs[name] for name in names}


def test_every_note_of_the_trail_is_told_in_words() -> None:
    assert set(NOTES) == set(NoteReason)
    assert set(NoteReason) > ACCESS_REASONS


def test_a_pair_of_name_and_address_is_slowed_down_and_let_go_on() -> None:
    clock = ManualClock()
    limiter = Limiter(clock)
    for _ in range(PAIR_MAX):
        assert limiter.take("anna", "a") == 0
        clock.advance(1)
    assert limiter.take("Anna", "a") == WINDOW_S - PAIR_MAX
    assert limiter.take("anna", "b") == 0
    assert limiter.take("tom", "a") == 0
    clock.advance(WINDOW_S - PAIR_MAX)
    assert limiter.take("anna", "a") == 0
    assert limiter.take("anna", "a") > 0


def test_a_right_password_is_not_counted() -> None:
    limiter = Limiter(ManualClock())
    for _ in range(10 * NAME_MAX):
        assert limiter.take("anna", "a") == 0
        limiter.give_back("anna", "a")


def test_an_address_and_a_name_are_slowed_down_as_well() -> None:
    limiter = Limiter(ManualClock())
    tries = [limiter.take(f"name{n}", "a") for n in range(ADDRESS_MAX + 1)]
    assert [wait == 0 for wait in tries] == [True] * ADDRESS_MAX + [False]
    tries = [limiter.take("anna", f"address{n}") for n in range(NAME_MAX + 1)]
    assert [wait == 0 for wait in tries] == [True] * NAME_MAX + [False]


def test_what_the_limiter_remembers_is_bounded() -> None:
    limiter = Limiter(ManualClock())
    long = "x" * 60_000
    assert [limiter.take(f"{long}{n}", long) == 0 for n in range(PAIR_MAX + 1)][-1] is False
    assert max(len(part) for key in limiter._tries for part in key) == KEY_LENGTH
    for n in range(KEYS_MAX):
        limiter.take(f"name{n}", f"address{n}")
    assert len(limiter._tries) == KEYS_MAX


def test_passwords_and_tokens() -> None:
    kept = secret.hash_password("correct horse battery")
    assert secret.is_password(kept, "correct horse battery")
    assert not secret.is_password(kept, "correct horse batter")
    assert not secret.is_password(kept, "x" * (secret.PASSWORD_MAX + 1))
    assert "correct" not in kept
    assert [bool(secret.bad_password("x" * n)) for n in (9, 10, 200, 201)] == [1, 0, 0, 1]
    assert secret.new_token().startswith("svt_")
    assert secret.new_token() != secret.new_token()


@pytest.mark.parametrize("path", ["/", "/tasks?state=FAILED", "/autopsies/latest?type=a&verdict=b"])
def test_own_paths(path: str) -> None:
    assert own_path(path) == path


@pytest.mark.parametrize(
    "path", [None, "", "//evil", "/\\evil", "http://evil", "evil", "javascript:x", "/\n/x", "\t//x"]
)
def test_paths_of_others(path: str | None) -> None:
    assert own_path(path) == "/"


def test_what_only_this_host_can_reach() -> None:
    near = ["127.0.0.1", "127.9.9.9", "localhost", "[::1]", "::1"]
    far = ["0.0.0.0", "[::]", "10.0.0.1", "example.org", "", "localhost.evil", "::ffff:10.0.0.1"]
    assert [is_loopback(host) for host in near] == [True] * len(near)
    assert [is_loopback(host) for host in far] == [False] * len(far)


def test_words_of_a_page() -> None:
    now = datetime(2026, 5, 20, 10, 30, tzinfo=UTC)
    assert str(wording.moment(now)) == (
        '<time datetime="2026-05-20T10:30:00+00:00">2026-05-20 10:30:00.000Z</time>'
    )
    assert wording.line("a\nb\x1b\u202e") == "a b\\x1b\\x202e"
    assert wording.told("run `a <b>`, \x1b`") == "run <code>a &lt;b&gt;</code>, \\x1b`"
    assert (wording.line(None), wording.line(0)) == ("–", "0")
    assert wording.lines("x" * 20_001) == f"{'x' * 20_000}\n… 1 more"
    assert wording.pretty('{"a":[1,"ü"]}') == '{\n  "a": [\n    1,\n    "ü"\n  ]\n}'
    assert wording.pretty("{broken") == "{broken"
    assert wording.short(f"task_{'0' * 24}8823134a") == "…8823134a"
    assert [wording.percent(share) for share in (None, 0, 0.047, 0.5, 1)] == [
        "–", "0%", "4.7%", "50%", "100%",
    ]  # fmt: skip
    assert wording.query([("type", "a b&c"), ("verdict", "")]) == "type=a%20b%26c"
    assert (wording.meaning("raised"), wording.meaning("cancel_delivered")) == (
        "The body raised, or its params did not fit it.", "",
    )  # fmt: skip


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_every_ink_can_be_read_on_its_paper_in_both_themes_and_in_print() -> None:
    light, dark, print_ = (
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part))
        for part in re.findall(r":root \{(.*?)\}", STYLE.read_text(), re.DOTALL)
    )
    printed = {**light, **print_}
    pairs = [
        (ink, paper) for ink in ("ink", "dim", "accent", "hot") for paper in ("paper", "panel")
    ]
    pairs += [("on-accent", "accent"), ("ink", "hot-panel"), ("ink", "good-panel")]
    pairs += [("ink", "new-panel"), ("accent", "new-panel"), ("hot", "hot-panel")]
    pairs += [("good", "good-panel"), ("new", "new-panel"), ("live", "live-panel")]
    faint = {
        (ink, paper): round(_contrast(theme[ink], theme[paper]), 2)
        for theme in (light, dark, printed)
        for ink, paper in pairs
        if _contrast(theme[ink], theme[paper]) < 4.5
    }
    assert faint == {}
    # the edge of a field must be seen as well (WCAG 1.4.11)
    assert all(_contrast(theme["field"], theme["paper"]) >= 3 for theme in (light, dark))


def test_lines_in_the_text_and_numbers_of_charts() -> None:
    assert wording.sparkline([0, 1, 2], 96, 24) == ["1.0,22.0 48.0,12.0 95.0,2.0"]
    assert wording.sparkline([0, None, 4, 4], 96, 24) == ["1.0,22.0", "63.7,2.0 95.0,2.0"]
    assert wording.sparkline([0, 0], 96, 24) == ["1.0,22.0 95.0,22.0"]
    assert wording.sparkline([], 96, 24) == []
    assert [wording.amount(*one) for one in ((None, "s"), (1234.0, "/s"), (0.1234, ""))] == [
        "–",
        "1,234 /s",
        "0.123",
    ]
    assert (wording.amount(0.051, "ratio"), wording.amount(2048, "bytes")) == ("5.1%", "2.0 KiB")
    assert wording.clock(1_700_000_000) == "22:13:20"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (0, "0"),
        ("a=1, b-2; c", "a=1, b-2; c"),
        ("first\n\n  second", "first\n\n  second"),
        ("=1+1", "'=1+1"),
        ("  @x", "'  @x"),
        ("＝1", "'＝1"),
        ("|x", "'|x"),
        ("\tx", "'\tx"),
        ("a;=1+1", "a;'=1+1"),
        ("a\t +1", "a\t' +1"),
        ("a\n-1\n-2", "a\n'-1\n'-2"),
        ('a;"=1";b', """a;'"=1";b"""),
        ("a\0\r=1\u202e\udc00", "a\\x00\\x0d=1\\x202e\\xdc00"),
    ],
)
def test_a_cell_is_no_formula(value: object, shown: str) -> None:
    assert spreadsheet.cell(value) == shown


@given(st.text(st.sampled_from(' ;\t\n"=+-@a,') | st.characters(), max_size=12))
def test_no_spreadsheet_finds_a_formula_in_a_row(text: str) -> None:
    file = "".join(spreadsheet.as_csv(("id", "text", "more"), [("id", text, text)]))
    assert file.encode().decode() == file
    (_, row) = csv.reader(io.StringIO(file, newline=""))
    assert row == ["id", spreadsheet.cell(text), spreadsheet.cell(text)]
    assert not row[1].lstrip(" ").startswith(SIGNS)
    for cell in re.split("[;\t\r\n]", file.split("\r\n", 1)[1]):
        assert not cell.lstrip(' "').startswith(SIGNS), repr(file)


def test_what_a_page_shows_or_does_a_program_can_ask_for() -> None:
    names = {route.name for route in ROUTES}
    assert not OPERATIONS.keys() & OF_PEOPLE_ALONE.keys()
    assert OPERATIONS.keys() | OF_PEOPLE_ALONE.keys() == names
    methods = {endpoint.name: endpoint.method for endpoint in ENDPOINTS}
    for route in ROUTES:
        found = [methods[name] for name in OPERATIONS.get(route.name, ())]
        changes = [method for method in found if method != READ]
        assert bool(changes) is (route.method != READ and route.name in OPERATIONS), route.name


def test_who_may_on_a_page_may_as_a_program() -> None:
    needs = {endpoint.name: endpoint.needs for endpoint in ENDPOINTS}
    of_act = {"acts.resubmit_task": Right.SUBMIT}  # the page looks at it by itself
    for route in ROUTES:
        for name in OPERATIONS.get(route.name, ()):
            if needs[name] != (of_act.get(name) or route.needs):
                assert (route.name, name) in {
                    ("settings", "settings.list_settings"),  # the page leaves it out
                    ("bulk_act", "tasks.count_tasks"), ("node_order", "nodes.get_order"),
                }  # fmt: skip
