"""One verdict from all probes: limits first, then the strongest evidence, held in doubt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.model.health import (
    SPIN_RATIO,
    Action,
    Code,
    Host,
    Limits,
    Pulse,
    Rules,
    Signs,
    Verdict,
    judge,
)

BEGIN = 1000.0
CALM = Host()
FAR = Limits(timeout_at=1e9)
STARVED = Host(cpu_pressure=95.0)


def pulse(at: float = BEGIN, **signs: Any) -> Pulse:
    return Pulse.begin(Signs(at=at, beats=1, **signs))


def silent(for_s: float, **signs: Any) -> tuple[Pulse, float]:
    """A worker that has not beaten for that long, seen now."""
    return pulse(**signs), BEGIN + for_s


def beating(until: float, *, every: float = 30.0, **signs: Any) -> Pulse:
    """A worker that beats up to `until` and shows otherwise always the same signs."""
    seen, at, beats = pulse(**signs), BEGIN, 1
    while at < until:
        at, beats = min(at + every, until), beats + 1
        seen = seen.observe(Signs(at=at, beats=beats, **signs))
    return seen


def test_the_defaults_are_those_of_the_specification() -> None:
    assert Rules() == Rules(
        heartbeat_s=90.0,
        progress_s=300.0,
        progress_is_limit=False,
        spin_s=600.0,
        memory_bytes=None,
        on_heartbeat_lost=Action.KILL,
        on_stalled=Action.CAPTURE,
        on_cpu_spin=Action.CAPTURE,
        on_memory=Action.KILL,
    )
    calm = Host(last_gap_at=None, cpu_pressure=0.0, memory_pressure=0.0, io_pressure=0.0)
    assert calm == CALM


class TestHeartbeat:
    def test_below_three_missed_beats_all_is_well(self) -> None:
        seen, now = silent(89.9)
        assert judge(seen, Rules(), FAR, CALM, now) is None

    def test_three_missed_beats_kill(self) -> None:
        seen, now = silent(90.0)
        assert judge(seen, Rules(), FAR, CALM, now) == Verdict(
            Code.HEARTBEAT_LOST, Action.KILL, "no heartbeat for 90.0 s (limit 90 s)"
        )

    def test_what_was_let_go_on_is_not_blamed_for_the_time_it_stood(self) -> None:
        """Its first beat comes a moment after: a look in between sees it alive, and silent."""
        stopped = beating(BEGIN + 60)
        for after in (70, 600):
            stopped = stopped.observe(Signs(at=BEGIN + after, beats=3, proc_state="T"))
        going = stopped.observe(Signs(at=BEGIN + 601, beats=3))
        assert judge(going, Rules(), FAR, CALM, BEGIN + 601) is None
        assert (going.beat_at, going.progress_at) == (BEGIN + 60 + 531, BEGIN + 531)
        late = judge(going, Rules(), FAR, CALM, BEGIN + 60 + 531 + 90)
        assert late is not None
        assert late.code is Code.HEARTBEAT_LOST

    @pytest.mark.parametrize("letter", ["T", "t"])
    def test_a_stopped_process_is_named(self, letter: str) -> None:
        seen, now = silent(120.0, proc_state=letter)
        assert judge(seen, Rules(), FAR, CALM, now) == Verdict(
            Code.STOPPED,
            Action.KILL,
            "process is stopped; no heartbeat for 120.0 s (limit 90 s)",
        )

    def test_a_stop_that_still_beats_is_no_verdict(self) -> None:
        seen = beating(BEGIN + 60, proc_state="T")
        assert judge(seen, Rules(), FAR, CALM, BEGIN + 60) is None

    def test_one_beat_starts_the_wait_anew(self) -> None:
        seen = pulse().observe(Signs(at=BEGIN + 89, beats=2))
        assert judge(seen, Rules(), FAR, CALM, BEGIN + 178.9) is None
        verdict = judge(seen, Rules(), FAR, CALM, BEGIN + 179)
        assert verdict is not None
        assert verdict.code is Code.HEARTBEAT_LOST

    def test_a_counter_that_starts_again_is_a_beat(self) -> None:
        seen = pulse().observe(Signs(at=BEGIN + 89, beats=0))
        assert seen.beat_at == BEGIN + 89


class TestProgress:
    def test_five_minutes_without_are_evidence_and_no_kill(self) -> None:
        now = BEGIN + 300
        assert judge(beating(now), Rules(), FAR, CALM, now) == Verdict(
            Code.STALLED, Action.CAPTURE, "no progress for 300.0 s (limit 300 s)"
        )
        assert judge(beating(now - 0.1), Rules(), FAR, CALM, now - 0.1) is None

    @pytest.mark.parametrize(
        ("limit", "changes", "action"),
        [
            (True, 1, Action.KILL),
            (True, 0, Action.CAPTURE),
            (False, 1, Action.CAPTURE),
            (False, 0, Action.CAPTURE),
        ],
    )
    def test_it_kills_only_by_choice_and_after_some_progress(
        self, limit: bool, changes: int, action: Action
    ) -> None:
        now = BEGIN + 300
        rules = Rules(progress_is_limit=limit)
        verdict = judge(beating(now, progress_changes=changes), rules, FAR, CALM, now)
        assert verdict is not None
        assert (verdict.code, verdict.action) == (Code.STALLED, action)

    def test_an_hour_of_work_that_never_reports_is_not_killed(self) -> None:
        seen = beating(BEGIN + 3600)
        verdict = judge(seen, Rules(progress_is_limit=True), FAR, CALM, BEGIN + 3600)
        assert verdict is not None
        assert verdict.action is Action.CAPTURE

    def test_equal_progress_is_no_progress(self) -> None:
        seen = pulse(progress_changes=1, progress_done=10)
        for step in range(1, 31):
            at = BEGIN + 10 * step
            seen = seen.observe(Signs(at=at, beats=1 + step, progress_changes=1, progress_done=10))
        assert seen.progress_at == BEGIN
        verdict = judge(seen, Rules(), FAR, CALM, BEGIN + 300)
        assert verdict is not None
        assert verdict.code is Code.STALLED

    def test_slow_but_advancing_is_left_alone_for_a_day(self) -> None:
        seen = pulse()
        for step in range(1, 290):
            at = BEGIN + 299 * step
            seen = seen.observe(Signs(at=at, beats=1 + step, progress_changes=step))
            assert judge(seen, Rules(progress_is_limit=True), FAR, CALM, at) is None


class TestSpin:
    def spun(self, ratio: float, seconds: float) -> Pulse:
        seen, at = pulse(), BEGIN
        while at < BEGIN + seconds:
            at += 10
            signs = Signs(
                at=at,
                beats=int(at),
                progress_changes=int(at),
                cpu_s=(at - BEGIN) * ratio,
            )
            seen = seen.observe(signs)
        return seen

    def test_ten_minutes_of_a_full_core(self) -> None:
        assert judge(self.spun(1.0, 600), Rules(), FAR, CALM, BEGIN + 600) == Verdict(
            Code.CPU_SPIN, Action.CAPTURE, "a full core used for 600 s"
        )
        assert judge(self.spun(1.0, 590), Rules(), FAR, CALM, BEGIN + 590) is None

    def test_several_cores_count_as_well(self) -> None:
        assert self.spun(3.5, 600).spinning_since == BEGIN

    def test_the_share_that_counts_as_a_full_core(self) -> None:
        seen = Pulse.begin(Signs(at=0.0, beats=1)).observe(Signs(at=1.0, beats=2, cpu_s=SPIN_RATIO))
        assert seen.spinning_since == 0.0

    def test_less_than_a_core_is_no_spin(self) -> None:
        assert self.spun(SPIN_RATIO - 0.01, 1200).spinning_since is None

    def test_one_pause_starts_the_wait_anew(self) -> None:
        seen = self.spun(1.0, 590)
        seen = seen.observe(replace(seen.last, at=seen.last.at + 10))
        assert seen.spinning_since is None

    def test_what_a_busy_host_takes_does_not_end_it(self) -> None:
        """Nineteen looks of a whole core and one of seven tenths, over and over."""
        seen, cpu_s = Pulse.begin(Signs(at=0.0, beats=0)), 0.0
        for second in range(1, 601):
            cpu_s += 0.7 if second % 20 == 0 else 1.0
            seen = seen.observe(Signs(at=float(second), beats=second, cpu_s=cpu_s))
        assert seen.spinning_since == 0.0

    def test_most_of_a_core_is_no_whole_one(self) -> None:
        seen, cpu_s = Pulse.begin(Signs(at=0.0, beats=0)), 0.0
        for second in range(1, 601):
            cpu_s += 0.8 if second % 2 else 1.0
            seen = seen.observe(Signs(at=float(second), beats=second, cpu_s=cpu_s))
            assert seen.spinning_since in (None, second - 1.0)

    def test_a_spin_from_second_zero_keeps_its_start(self) -> None:
        seen = Pulse.begin(Signs(at=0.0, beats=0))
        for at in (1.0, 2.0, 3.0):
            seen = seen.observe(Signs(at=at, beats=0, cpu_s=at))
        assert seen.spinning_since == 0.0

    def test_two_looks_at_the_same_moment_say_nothing(self) -> None:
        seen = pulse().observe(Signs(at=BEGIN, beats=1, cpu_s=99.0))
        assert seen.spinning_since is None


class TestLimits:
    def test_timeout(self) -> None:
        limits = Limits(timeout_at=BEGIN + 60)
        assert judge(pulse(), Rules(), limits, CALM, BEGIN + 59.9) is None
        assert judge(pulse(), Rules(), limits, CALM, BEGIN + 60) == Verdict(
            Code.TIMEOUT, Action.KILL, "ran past its time limit"
        )

    def test_cancel_grace(self) -> None:
        limits = Limits(timeout_at=1e9, cancel_at=BEGIN + 10)
        assert judge(pulse(), Rules(), limits, CALM, BEGIN + 9.9) is None
        assert judge(pulse(), Rules(), limits, CALM, BEGIN + 10) == Verdict(
            Code.CANCELED, Action.KILL, "asked to stop and did not within the grace"
        )

    def test_memory(self) -> None:
        rules = Rules(memory_bytes=100)
        assert judge(pulse(rss_bytes=100), rules, FAR, CALM, BEGIN) is None
        assert judge(pulse(rss_bytes=101), Rules(), FAR, CALM, BEGIN) is None
        assert judge(pulse(rss_bytes=101), rules, FAR, CALM, BEGIN) == Verdict(
            Code.MEMORY, Action.KILL, "uses 101 bytes of memory, the limit is 100"
        )

    def test_a_memory_limit_of_zero_is_a_limit(self) -> None:
        verdict = judge(pulse(rss_bytes=1), Rules(memory_bytes=0), FAR, CALM, BEGIN)
        assert verdict is not None
        assert verdict.code is Code.MEMORY

    @pytest.mark.parametrize(
        ("field", "code"),
        [
            ("on_heartbeat_lost", Code.HEARTBEAT_LOST),
            ("on_stalled", Code.STALLED),
            ("on_cpu_spin", Code.CPU_SPIN),
            ("on_memory", Code.MEMORY),
        ],
    )
    @pytest.mark.parametrize("action", list(Action))
    def test_what_follows_is_a_setting(self, field: str, code: Code, action: Action) -> None:
        sick: dict[Code, Pulse] = {
            Code.HEARTBEAT_LOST: pulse(),
            Code.STALLED: replace(pulse(), beat_at=BEGIN + 700),
            Code.CPU_SPIN: replace(
                pulse(), beat_at=BEGIN + 700, progress_at=BEGIN + 700, spinning_since=BEGIN
            ),
            Code.MEMORY: pulse(BEGIN + 700, rss_bytes=2),
        }
        wanted: dict[str, Any] = {field: action}
        rules = replace(Rules(memory_bytes=1), **wanted)
        verdict = judge(sick[code], rules, FAR, CALM, BEGIN + 700)
        assert verdict is not None
        assert (verdict.code, verdict.action) == (code, action)


#: verdict, what its setting says (None: there is none), whether the type set progress_timeout,
#: whether it has reported progress → what follows. Only what a person may set is listed.
FOLLOWS = [
    (Code.CANCELED, None, False, False, Action.KILL),
    (Code.TIMEOUT, None, False, False, Action.KILL),
    *[(Code.MEMORY, action, False, False, action) for action in Action],
    *[(Code.HEARTBEAT_LOST, action, False, False, action) for action in Action],
    *[(Code.STOPPED, action, False, False, action) for action in Action],
    (Code.STALLED, Action.ALERT, False, False, Action.ALERT),
    (Code.STALLED, Action.ALERT, False, True, Action.ALERT),
    (Code.STALLED, Action.ALERT, True, False, Action.ALERT),
    (Code.STALLED, Action.ALERT, True, True, Action.KILL),
    (Code.STALLED, Action.CAPTURE, False, False, Action.CAPTURE),
    (Code.STALLED, Action.CAPTURE, False, True, Action.CAPTURE),
    (Code.STALLED, Action.CAPTURE, True, False, Action.CAPTURE),
    (Code.STALLED, Action.CAPTURE, True, True, Action.KILL),
    (Code.CPU_SPIN, Action.ALERT, False, False, Action.ALERT),
    (Code.CPU_SPIN, Action.CAPTURE, False, False, Action.CAPTURE),
]
NOW = BEGIN + 700
SETTING = {
    Code.MEMORY: "on_memory",
    Code.HEARTBEAT_LOST: "on_heartbeat_lost",
    Code.STOPPED: "on_heartbeat_lost",
    Code.STALLED: "on_stalled",
    Code.CPU_SPIN: "on_cpu_spin",
}


def sick(*codes: Code, reported: bool = False) -> tuple[Pulse, Limits]:
    """Return what shows exactly these at NOW."""
    wrongs = set(codes)
    signs = Signs(
        at=NOW,
        beats=1,
        progress_changes=int(reported),
        rss_bytes=2 if Code.MEMORY in wrongs else 1,
        proc_state="T" if Code.STOPPED in wrongs else "S",
    )
    seen = Pulse(
        last=signs,
        beat_at=BEGIN if wrongs & {Code.HEARTBEAT_LOST, Code.STOPPED} else NOW,
        progress_at=BEGIN if Code.STALLED in wrongs else NOW,
        spinning_since=BEGIN if Code.CPU_SPIN in wrongs else None,
    )
    limits = Limits(
        timeout_at=NOW if Code.TIMEOUT in wrongs else 1e9,
        cancel_at=NOW if Code.CANCELED in wrongs else None,
    )
    return seen, limits


def ruled(**actions: Action) -> Rules:
    return replace(Rules(memory_bytes=1), **actions)  # type: ignore[arg-type]


class TestWhatFollows:
    @pytest.mark.parametrize(("code", "setting", "limit", "reported", "action"), FOLLOWS)
    def test_the_table(
        self, code: Code, setting: Action | None, limit: bool, reported: bool, action: Action
    ) -> None:
        seen, limits = sick(code, reported=reported)
        rules = replace(
            ruled(**({SETTING[code]: setting} if setting else {})), progress_is_limit=limit
        )
        verdict = judge(seen, rules, limits, CALM, NOW)
        assert verdict is not None
        assert (verdict.code, verdict.action) == (code, action)
        held = judge(seen, rules, limits, STARVED, NOW)
        declared = code in (Code.CANCELED, Code.TIMEOUT, Code.MEMORY)
        assert held is not None
        assert held == verdict if declared else held.code is Code.STARVED_HOST
        assert held.action is (action if declared else Action.ALERT)

    def test_every_verdict_is_in_the_table(self) -> None:
        assert {row[0] for row in FOLLOWS} | {Code.STARVED_HOST} == set(Code)

    @pytest.mark.parametrize("told", [Action.ALERT, Action.CAPTURE])
    def test_what_is_only_told_hides_no_kill(self, told: Action) -> None:
        seen, limits = sick(Code.MEMORY, Code.STALLED, Code.HEARTBEAT_LOST)
        verdict = judge(seen, ruled(on_memory=told), limits, CALM, NOW)
        assert verdict is not None
        assert (verdict.code, verdict.action) == (Code.HEARTBEAT_LOST, Action.KILL)

    def test_one_after_the_other_is_told_once(self) -> None:
        seen, limits = sick(Code.MEMORY, Code.STALLED, Code.CPU_SPIN)
        rules, known = ruled(on_memory=Action.ALERT), set[Code]()
        told = []
        while (verdict := judge(seen, rules, limits, CALM, NOW, known)) is not None:
            told.append((verdict.code, verdict.action))
            known.add(verdict.code)
        assert told == [
            (Code.MEMORY, Action.ALERT),
            (Code.STALLED, Action.CAPTURE),
            (Code.CPU_SPIN, Action.CAPTURE),
        ]

    def test_a_kill_is_no_news_and_stays_a_kill(self) -> None:
        seen, limits = sick(Code.HEARTBEAT_LOST)
        verdict = judge(seen, Rules(), limits, CALM, NOW, {Code.HEARTBEAT_LOST})
        assert verdict is not None
        assert verdict.action is Action.KILL

    def test_what_was_held_is_acted_on_when_the_host_is_well_again(self) -> None:
        seen, limits = sick(Code.STALLED)
        held = judge(seen, Rules(), limits, STARVED, NOW)
        assert held is not None
        assert judge(seen, Rules(), limits, STARVED, NOW, {held.code}) is None
        verdict = judge(seen, Rules(), limits, CALM, NOW, {held.code})
        assert verdict is not None
        assert (verdict.code, verdict.action) == (Code.STALLED, Action.CAPTURE)


#: Everything that can be wrong with one attempt, in the order in which it is named.
WRONGS = [
    Code.CANCELED,
    Code.TIMEOUT,
    Code.MEMORY,
    Code.HEARTBEAT_LOST,
    Code.STALLED,
    Code.CPU_SPIN,
]


@pytest.mark.parametrize("first", range(len(WRONGS)))
@pytest.mark.parametrize("starved", [False, True])
def test_of_many_wrongs_the_first_in_order_is_named(first: int, starved: bool) -> None:
    wrongs, now = set(WRONGS[first:]), BEGIN + 5000
    sick = Pulse(
        last=Signs(at=now, beats=1, rss_bytes=2 if Code.MEMORY in wrongs else 0),
        beat_at=BEGIN if Code.HEARTBEAT_LOST in wrongs else now,
        progress_at=BEGIN if Code.STALLED in wrongs else now,
        spinning_since=BEGIN,
    )
    limits = Limits(
        timeout_at=BEGIN if Code.TIMEOUT in wrongs else 1e9,
        cancel_at=BEGIN if Code.CANCELED in wrongs else None,
    )
    verdict = judge(sick, Rules(memory_bytes=1), limits, STARVED if starved else CALM, now)
    assert verdict is not None
    declared = WRONGS[first] in (Code.CANCELED, Code.TIMEOUT, Code.MEMORY)
    assert verdict.code is (WRONGS[first] if declared or not starved else Code.STARVED_HOST)


class TestDoubt:
    @pytest.mark.parametrize(
        ("host", "doubt"),
        [
            (Host(), ""),
            (Host(last_gap_at=BEGIN - 10), ""),
            (Host(last_gap_at=BEGIN - 9.5), "own loop stood still 9.5 s ago"),
            (Host(cpu_pressure=89.9, memory_pressure=39.9, io_pressure=79.9), ""),
            (Host(cpu_pressure=90), "cpu pressure 90 % (limit 90 %)"),
            (Host(memory_pressure=40), "memory pressure 40 % (limit 40 %)"),
            (Host(io_pressure=99), "io pressure 99 % (limit 80 %)"),
        ],
    )
    def test_when_a_host_cannot_be_trusted(self, host: Host, doubt: str) -> None:
        assert host.doubt(BEGIN) == doubt

    def test_an_inferred_verdict_is_held_and_said(self) -> None:
        seen, now = silent(200.0)
        assert judge(seen, Rules(), FAR, STARVED, now) == Verdict(
            Code.STARVED_HOST,
            Action.ALERT,
            "observer unreliable (cpu pressure 95 % (limit 90 %)); held: heartbeat_lost, "
            "no heartbeat for 200.0 s (limit 90 s)",
        )

    def test_a_starved_host_alone_is_no_verdict_on_an_attempt(self) -> None:
        assert judge(pulse(), Rules(), FAR, STARVED, BEGIN) is None


class TestShifted:
    def test_all_clocks_move_together(self) -> None:
        before = replace(pulse(), beat_at=1.0, progress_at=2.0, spinning_since=3.0)
        last = replace(before.last, at=BEGIN + 5.0)
        moved = replace(before, last=last, beat_at=6.0, progress_at=7.0, spinning_since=8.0)
        assert before.shifted(5.0) == moved

    def test_a_spin_goes_on_after_it(self) -> None:
        seen = Pulse.begin(Signs(at=0.0, beats=0)).observe(Signs(at=300.0, beats=1, cpu_s=300.0))
        seen = seen.shifted(60.0).observe(Signs(at=660.0, beats=2, cpu_s=600.0))
        assert seen.spinning_since == 60.0

    def test_no_spin_stays_no_spin(self) -> None:
        assert pulse().shifted(5.0).spinning_since is None

    def test_a_suspended_host_kills_nobody(self) -> None:
        seen = beating(BEGIN + 60).shifted(7200)
        assert judge(seen, Rules(), FAR, CALM, BEGIN + 60 + 7200) is None


seconds = st.floats(0, 10_000)
signs = st.builds(
    Signs,
    at=seconds,
    beats=st.integers(0, 3),
    progress_changes=st.integers(0, 3),
    rss_bytes=st.integers(0, 10),
    cpu_s=seconds,
    proc_state=st.sampled_from("RSDTtZ"),
)
pulses = st.builds(
    Pulse, last=signs, beat_at=seconds, progress_at=seconds, spinning_since=st.none() | seconds
)
rule_sets = st.builds(
    Rules,
    heartbeat_s=st.floats(1, 1000),
    progress_s=st.floats(1, 1000),
    progress_is_limit=st.booleans(),
    spin_s=st.floats(1, 1000),
    memory_bytes=st.none() | st.integers(0, 10),
    on_heartbeat_lost=st.sampled_from(Action),
    on_stalled=st.sampled_from(Action),
    on_cpu_spin=st.sampled_from([Action.ALERT, Action.CAPTURE]),
    on_memory=st.sampled_from(Action),
)
limit_sets = st.builds(Limits, timeout_at=seconds, cancel_at=st.none() | seconds)
percent = st.floats(0, 100)
hosts = st.builds(
    Host,
    last_gap_at=st.none() | seconds,
    cpu_pressure=percent,
    memory_pressure=percent,
    io_pressure=percent,
)


@settings(deadline=None, max_examples=50)
@given(pulses, rule_sets, limit_sets, hosts, seconds)
def test_the_same_sight_gives_the_same_verdict(
    seen: Pulse, rules: Rules, limits: Limits, host: Host, now: float
) -> None:
    first = judge(seen, rules, limits, host, now)
    assert judge(replace(seen), replace(rules), replace(limits), replace(host), now) == first
    if first is not None and first.code not in (Code.CANCELED, Code.TIMEOUT, Code.MEMORY):
        held = host.doubt(now) != ""
        assert (first.code is Code.STARVED_HOST) == held
        assert not (held and first.action is Action.KILL)


@settings(deadline=None, max_examples=50)
@given(signs, rule_sets, hosts, st.lists(st.floats(0, 0.999), max_size=8), seconds)
def test_what_beats_and_advances_within_its_limits_is_never_killed(
    first: Signs, rules: Rules, host: Host, shares: list[float], cpu_s: float
) -> None:
    rules = replace(rules, memory_bytes=None)
    seen, patience = Pulse.begin(first), min(rules.heartbeat_s, rules.progress_s)
    for step, share in enumerate(shares, start=1):
        at = seen.last.at + patience * share
        verdict = judge(seen, rules, Limits(timeout_at=1e9), host, at)
        assert verdict is None or verdict.action is not Action.KILL
        changes = first.progress_changes + step
        seen = seen.observe(
            replace(first, at=at, beats=first.beats + step, progress_changes=changes, cpu_s=cpu_s)
        )


@settings(deadline=None, max_examples=50)
@given(pulses, rule_sets, seconds, st.floats(0, 1e6))
def test_time_in_which_nobody_looked_changes_no_inferred_verdict(
    seen: Pulse, rules: Rules, now: float, gap_s: float
) -> None:
    before = judge(seen, rules, FAR, CALM, now)
    after = judge(seen.shifted(gap_s), rules, Limits(timeout_at=1e12), CALM, now + gap_s)
    # At the very edge of a limit the sum may round to either side.
    clocks = (seen.beat_at, rules.heartbeat_s), (seen.progress_at, rules.progress_s)
    spin = (now if seen.spinning_since is None else seen.spinning_since, rules.spin_s)
    if all(abs(now - since - limit) > 1e-3 for since, limit in (*clocks, spin)):
        assert (before and before.code) == (after and after.code)
