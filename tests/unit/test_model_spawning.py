"""Births halt after too many early deaths, ever longer; work is handed ahead only if short."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.model.spawning import (
    LOOK_AHEAD_MAX,
    LOOK_AHEAD_S,
    Intensity,
    is_short,
    look_ahead,
)


def deaths(intensity: Intensity, count: int, *, at: float, lived_s: float = 0.1) -> Intensity:
    for _ in range(count):
        intensity = intensity.died(lived_s, at)
    return intensity


class TestIntensity:
    def test_five_early_deaths_are_borne_and_the_sixth_halts(self) -> None:
        borne = deaths(Intensity(), 5, at=100.0)
        assert borne == Intensity(recent=(100.0,) * 5)
        assert not borne.is_halted(100.0)
        halted = deaths(borne, 1, at=100.0)
        assert halted == Intensity(halts=1, halted_until=102.0)
        assert [halted.is_halted(now) for now in (100.0, 101.99, 102.0)] == [True, True, False]

    def test_deaths_outside_the_window_are_forgotten(self) -> None:
        intensity = Intensity()
        for step in range(100):
            intensity = intensity.died(0.1, 100.0 + 13 * step)
        assert intensity.halts == 0
        assert len(intensity.recent) == 5

    def test_a_death_at_the_edge_of_the_window_is_outside(self) -> None:
        assert deaths(Intensity(), 1, at=100.0).died(0.1, 160.0).recent == (160.0,)
        assert deaths(Intensity(), 1, at=100.0).died(0.1, 159.9).recent == (100.0, 159.9)

    def test_each_halt_is_twice_as_long_up_to_a_minute(self) -> None:
        intensity, now, waits = Intensity(), 0.0, []
        for _ in range(8):
            intensity = deaths(intensity, 6, at=now)
            assert intensity.halted_until is not None
            waits.append(intensity.halted_until - now)
            now = intensity.halted_until
        assert waits == [2, 4, 8, 16, 32, 60, 60, 60]

    def test_days_of_a_crash_loop_do_not_overflow(self) -> None:
        halted = deaths(Intensity(halts=5000), 6, at=0.0)
        assert halted == Intensity(halts=5001, halted_until=60.0)

    def test_a_stable_life_closes_the_breaker(self) -> None:
        halted = deaths(Intensity(), 6, at=100.0)
        assert halted.died(10.0, 101.0) == Intensity()
        assert halted.died(9.99, 101.0) == Intensity(recent=(101.0,), halts=1, halted_until=102.0)

    def test_the_next_halt_after_a_stable_life_is_the_first_again(self) -> None:
        calm = deaths(Intensity(), 18, at=0.0).died(60.0, 100.0)
        assert deaths(calm, 6, at=200.0).halted_until == 202.0

    def test_the_numbers_are_settings(self) -> None:
        strict = Intensity(deaths=0, window_s=1.0)
        assert strict.died(0.1, 5.0).is_halted(5.0)

    @settings(deadline=None, max_examples=30)
    @given(st.lists(st.tuples(st.floats(0, 30), st.floats(0, 20)), max_size=40))
    def test_it_stays_bounded(self, lives: list[tuple[float, float]]) -> None:
        intensity, now = Intensity(), 0.0
        for passed, lived in lives:
            now += passed
            intensity = intensity.died(lived, now)
            assert len(intensity.recent) <= intensity.deaths
            assert all(now - at < intensity.window_s for at in intensity.recent)
            if intensity.halted_until is not None:
                assert intensity.halted_until - now <= 60.0


class TestLookAhead:
    @pytest.mark.parametrize(
        ("durations", "places"),
        [
            ([], 1),
            ([0.0], LOOK_AHEAD_MAX),
            ([1e-9], LOOK_AHEAD_MAX),
            ([0.0005], 100),
            ([0.01], 5),
            ([0.025], 2),
            ([0.03], 1),
            ([3600.0], 1),
            ([0.001, 0.025], 2),
            ([0.0001, 60.0], 1),
        ],
    )
    def test_places_by_the_slowest_type(self, durations: list[float], places: int) -> None:
        assert look_ahead(durations) == places

    @settings(deadline=None, max_examples=30)
    @given(st.lists(st.floats(0, 1e6), max_size=5))
    def test_its_bounds(self, durations: list[float]) -> None:
        places = look_ahead(durations)
        assert 1 <= places <= LOOK_AHEAD_MAX
        slowest = max(durations, default=LOOK_AHEAD_S)
        assert places == 1 or places * slowest <= LOOK_AHEAD_S * (1 + 1e-9)

    def test_short_means_that_two_fit(self) -> None:
        assert [is_short(s) for s in (0.0, 0.025, 0.0251)] == [True, True, False]
        assert look_ahead([0.025]) == 2
