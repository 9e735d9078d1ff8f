"""DIAGNOSIS leak.memory_python: every visit makes a session, and no session is ever dropped."""

import time

from _stage import LONG_S, ready

sessions = {}
ENOUGH, MOST = 200_000, 500_000


class Session:
    def __init__(self, number: int) -> None:
        self.number = number
        self.pages = [number, number + 7]
        self.cookie = str(number).zfill(300)


def visit(number: int) -> None:
    sessions[number] = Session(number)


for number in range(MOST):
    visit(number)
    if number == ENOUGH:
        ready()
    if number % 1000 == 0:
        time.sleep(0.001 if number < ENOUGH else 0.01)
time.sleep(LONG_S)
