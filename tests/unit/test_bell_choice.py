"""Which levels a node pops, in which order, and how many ids."""

from __future__ import annotations

import pytest

from supervisor.model.record import Due, Level
from supervisor.queue import ANY_PRIORITY
from supervisor.queue.choice import Choice
from supervisor.queue.redis import Keys, levels_of, member

HIGH, LOW = ("a", 9, "send"), ("a", 1, "send")
ONE, TWO, THREE = ("a", 5, "send"), ("b", 5, "send"), ("c", 5, "send")
PAINT = ("a", 5, "paint")


def due(task_id: str, level: Level = ONE) -> Due:
    return Due(level, task_id, 1.0)


@pytest.fixture
def choice() -> Choice:
    """A choice of all queues and one type, with places."""
    made = Choice()
    made.serve(None, frozenset({"send"}))
    made.want(10)
    return made


def test_nothing_is_chosen_before_anything_is_known() -> None:
    assert Choice().next(0) == ([], 0)


def test_high_priorities_first_and_only_what_is_served(choice: Choice) -> None:
    assert choice.learn([LOW, PAINT, TWO, HIGH, ONE])
    assert choice.next(0) == ([HIGH, ONE, TWO, LOW], 10)
    assert choice.serve(("b",), frozenset({"send"}))
    assert choice.next(0) == ([TWO], 10)
    assert choice.serve(None, frozenset({"paint"}))
    assert choice.next(0) == ([PAINT], 10)
    assert not choice.serve(None, frozenset({"paint"}))


def test_levels_of_one_priority_take_turns(choice: Choice) -> None:
    choice.learn([HIGH, ONE, TWO, THREE, LOW])
    choice.take(ONE, [due("x")])
    assert choice.next(0)[0] == [HIGH, TWO, THREE, ONE, LOW]
    choice.take(THREE, [due("y", THREE)])  # TWO was empty: it waits for nothing
    assert choice.next(0)[0] == [HIGH, ONE, TWO, THREE, LOW]
    choice.take(HIGH, [due("z", HIGH)])
    assert choice.next(0)[0] == [HIGH, ONE, TWO, THREE, LOW]


def test_a_turn_is_kept_through_a_change(choice: Choice) -> None:
    choice.learn([ONE, TWO])
    choice.take(ONE, [due("x")])
    choice.learn([THREE, LOW])
    assert choice.next(0)[0] == [THREE, TWO, ONE, LOW]
    choice.avoid(frozenset({("b", 5)}))
    choice.avoid(frozenset())
    assert choice.next(0)[0] == [TWO, THREE, ONE, LOW]


def test_a_paused_level_and_a_paused_queue_are_left_out(choice: Choice) -> None:
    choice.learn([HIGH, ONE, TWO, LOW])
    assert choice.avoid(frozenset({("a", 5)}))
    assert choice.next(0)[0] == [HIGH, TWO, LOW]
    assert choice.avoid(frozenset({("a", ANY_PRIORITY)}))
    assert choice.next(0)[0] == [TWO]
    assert not choice.avoid(frozenset({("a", ANY_PRIORITY)}))


def test_no_more_than_wanted_is_taken_and_the_rest_goes_back(choice: Choice) -> None:
    choice.learn([ONE])
    choice.want(2)
    popped = [due(f"task_{n}") for n in range(3)]
    assert choice.take(ONE, popped) == popped[2:]
    assert choice.next(0) == ([ONE], 0)
    choice.want(3)  # two wait to be taken
    assert choice.next(0) == ([ONE], 1)
    assert choice.hand_over() == popped[:2]
    assert choice.hand_over() == []


def test_what_was_popped_of_a_level_that_is_paused_meanwhile_goes_back(choice: Choice) -> None:
    choice.learn([ONE])
    choice.avoid(frozenset({("a", 5)}))
    assert choice.take(ONE, [due("x")]) == [due("x")]
    assert choice.hand_over() == []


def test_only_news_to_pop_from_is_news(choice: Choice) -> None:
    assert not choice.learn([PAINT])
    assert choice.learn([PAINT, ONE])
    assert not choice.learn([ONE])
    assert not choice.learn([PAINT], forget_others=True)
    assert choice.next(0)[0] == []
    assert choice.learn([ONE])


@pytest.mark.parametrize("level", [ONE, ("q:x.y-z", 0, "shop.tasks:send"), ("_", 9, "a:b")])
def test_a_level_is_read_as_it_was_written(level: Level) -> None:
    keys = Keys("abc")
    assert levels_of([member(level)]) == [level]
    assert keys.level(keys.due(level)) == level
    assert keys.due(level).startswith("supervisor:abc:due:")


def test_what_is_no_level_is_passed_over() -> None:
    assert levels_of(["5/a/send", "rubbish", "a/b", "x/a/b"]) == [("a", 5, "send")]
