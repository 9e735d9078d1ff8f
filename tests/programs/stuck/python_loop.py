"""DIAGNOSIS busy.python: a loop in Python never meets the condition it waits for."""

from _stage import ready


def next_free(number: int, step: int) -> int:
    while number % 2 == 0:
        number += step
        if number > 10**6:
            number = 0
    return number


ready()
next_free(0, 2)
