"""Who works on what a thread waits for as the result of a future.

Secret: the work items of thread pools, in a worker's hands or in their queue, and the tasks that
`run_coroutine_threadsafe` has put behind a future.
"""

from __future__ import annotations

from autopsy.cpython import layout as at
from autopsy.cpython.held import captured, function_name
from autopsy.cpython.interpreter import Interpreter, Thread
from autopsy.cpython.reader import OutOfTime, Unreadable

RESULT = "result"
_WORKER_FILE = "concurrent/futures/thread.py"
_FUTURES_FILE = "concurrent/futures/_base.py"
_ASKING = ("result", "exception")
_ASKING_MANY = ("wait", "as_completed")
_INNER_CALLS = 6
_MAX_QUEUED, _MAX_CALLBACKS = 10_000, 20
# What `run_coroutine_threadsafe` leaves at its future, and what it gives to the loop before.
_CHECK_CANCEL, _BEGINNING = "_call_check_cancel", "callback"


class Results:
    """The futures that the threads of a process work on or have in a queue."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter
        self._objects = interpreter.objects
        self._running: dict[int, Thread] = {}
        self._queued: dict[int, int] = {}
        self._workers: dict[int, list[Thread]] = {}
        for thread in interpreter.threads:
            try:
                self._look_at(thread)
            except (Unreadable, OutOfTime):
                continue

    def _look_at(self, thread: Thread) -> None:
        objects = self._objects
        worker = next((one for one in thread.calls if one.is_in(_WORKER_FILE, "_worker")), None)
        if worker is None:
            return
        queue, item = worker.local("work_queue"), worker.local("work_item")
        if queue not in self._workers:
            items, first = objects.memory.words(queue + at.SIMPLE_QUEUE_ITEMS, 2)
            for one in objects.elements(items, _MAX_QUEUED)[first:]:
                if objects.is_a(one, "concurrent.futures.thread._WorkItem"):
                    self._queued[objects.attribute(one, "future")] = queue
        self._workers.setdefault(queue, []).append(thread)
        if objects.is_a(item, "concurrent.futures.thread._WorkItem"):
            self._running[objects.attribute(item, "future")] = thread

    def awaited_by(self, thread: Thread) -> tuple[bool, Thread | None]:
        """Return whether a thread waits for a result, and who has to bring it, if that is known."""
        for frame in thread.calls[:_INNER_CALLS]:
            if frame.is_in(_FUTURES_FILE, *_ASKING):
                return True, self._bringer(frame.local("self"), thread)
            if frame.is_in(_FUTURES_FILE, *_ASKING_MANY):
                pending = frame.local("not_done") or frame.local("pending") or frame.local("fs")
                return True, self._first_bringer(pending, thread)
        return False, None

    def _first_bringer(self, futures: int, thread: Thread) -> Thread | None:
        try:
            listed = self._objects.elements(futures, _MAX_QUEUED) if futures else []
            found = (self._bringer(one, thread) for one in listed)
            return next((one for one in found if one is not None), None)
        except Unreadable:
            return None

    def _bringer(self, future: int, waiter: Thread) -> Thread | None:
        if future in self._running:
            return self._running[future]
        if future in self._queued:
            return self._next_free(self._workers[self._queued[future]], waiter)
        try:
            loop = self._loop_behind(future)
        except Unreadable:
            return None
        # A loop that waits for itself is blocked, whatever it waits for.
        return loop if loop is not waiter else None

    def _next_free(self, workers: list[Thread], waiter: Thread) -> Thread:
        """Return a worker that may come to take what is queued.

        One that does not itself wait for what is queued; when all do, the next after the waiter,
        so that they form a circle.
        """
        free = [one for one in workers if not self._waits_in_queue(one)]
        if free:
            return free[0]
        place = workers.index(waiter) + 1 if waiter in workers else 0
        return workers[place % len(workers)]

    def _waits_in_queue(self, worker: Thread) -> bool:
        asked = (
            one.local("self")
            for one in worker.calls[:_INNER_CALLS]
            if one.is_in(_FUTURES_FILE, *_ASKING)
        )
        return any(one in self._queued for one in asked)

    def _loop_behind(self, future: int) -> Thread | None:
        """Return the thread whose event loop completes a future, or is about to begin to."""
        objects = self._objects
        callbacks = objects.attribute(future, "_done_callbacks")
        for callback in objects.elements(callbacks, _MAX_CALLBACKS) if callbacks else []:
            if function_name(objects, callback) == _CHECK_CANCEL:
                for one in captured(objects, callback):
                    if objects.is_a(one, "_asyncio.Task", "_asyncio.Future"):
                        loop = objects.memory.word(one + at.FUTURE_LOOP)
                        return self._interpreter.thread_of_loop(loop)
        found = (one for one in self._interpreter.threads if self._is_about_to(one, future))
        return next(found, None)

    def _is_about_to(self, thread: Thread, future: int) -> bool:
        """Whether a thread's loop has not yet run what a coroutine of this future begins with."""
        objects = self._objects
        for frame in thread.calls:
            if not frame.is_in("asyncio/base_events.py", "run_forever"):
                continue
            ready = objects.attribute(frame.local("self"), "_ready")
            for handle in objects.elements(ready, _MAX_QUEUED):
                callback = objects.attribute(handle, "_callback")
                named = function_name(objects, callback) == _BEGINNING
                if named and future in captured(objects, callback):
                    return True
        return False
