"""The App: how a function becomes a task type, and what is refused before anything is written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Optional

import pytest

import supervisor
from supervisor import App, errors
from supervisor.app import SUBMIT_OPTIONS, Task
from supervisor.errors import ConfigError, InvalidSpec, UnknownTaskType
from supervisor.model.spec import NO_SOFT_TIMEOUT, SPEC_FIELDS, TaskSpec
from supervisor.settings import NO_MEMORY_LIMIT, TaskOptions

STORE = "sqlite:////nowhere/a.db"


def make() -> tuple[App, Task]:
    app = App(store=STORE)

    @app.task(
        queue="exports",
        timeout=60,
        soft_timeout=50,
        max_retries=3,
        progress_timeout=300,
        no_retry_for=(ValueError,),
        interrupt=False,
        secret_params=("report_type",),
    )
    def export_report(ctx: Any, user_id: int, report_type: str = "sales") -> dict[str, int]:
        """Export it."""
        return {"user": user_id}

    return app, export_report


class TestRegistration:
    def test_a_type_is_its_function_and_its_options(self) -> None:
        app, task = make()
        assert dict(app.types) == {"export_report": task}
        assert task.name == "export_report"
        assert task.__doc__ == "Export it."
        assert not task.is_async
        assert task.options == TaskOptions(
            queue="exports",
            timeout=60,
            soft_timeout=50,
            max_retries=3,
            progress_timeout=300,
            no_retry_for=(ValueError,),
            interrupt=False,
            secret_params=("report_type",),
        )

    def test_calling_it_runs_the_function_here(self) -> None:
        _, task = make()
        assert task(None, 7) == {"user": 7}

    def test_the_bare_decorator_and_async(self) -> None:
        app = App(store=STORE)

        @app.task
        async def sync_all(ctx: Any) -> None: ...

        assert app.types["sync_all"].is_async
        assert app.types["sync_all"].options == TaskOptions()

    def test_the_registry_cannot_be_written_from_outside(self) -> None:
        app, task = make()
        with pytest.raises(TypeError):
            app.types["other"] = task  # type: ignore[index]

    def test_release_hooks_keep_their_order(self) -> None:
        app = App(store=STORE)
        ran: list[int] = []
        app.on_release(lambda: ran.append(1))
        app.on_release(lambda: ran.append(2))
        for hook in app.release_hooks:
            hook()
        assert ran == [1, 2]
        with pytest.raises(ConfigError):
            app.on_release(3)  # type: ignore[arg-type]

    def test_a_name_is_taken_once(self) -> None:
        app, _ = make()
        with pytest.raises(ConfigError, match="export_report is registered twice: in test_app"):
            app.task(name="export_report")(lambda ctx: None)

    @pytest.mark.parametrize("name", ["", "9a", "a b", "<lambda>", "ü", "a" * 201])
    def test_bad_names_are_refused(self, name: str) -> None:
        app = App(store=STORE)
        with pytest.raises(ConfigError, match="type: must be") as caught:
            app.task(name=name)(lambda ctx: None)
        assert caught.value.remedy
        assert not app.types

    def test_a_bad_queue_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="queue: must be"):
            App(store=STORE).task(name="a", queue="9 a")(lambda ctx: None)

    @pytest.mark.parametrize(
        ("limits", "message"),
        [
            ({"timeout": 0}, "timeout: must be seconds"),
            ({"max_retries": -1}, "max_retries: must be a whole number"),
            ({"timeout": None}, "timeout: cannot be None .task .*leave it out"),
            ({"progress_timeout": None}, "progress_timeout: cannot be None"),
            ({"lease": 3}, "lease: is not a setting"),
            ({"timeuot": 3}, "did you mean timeout"),
            ({"timeout": 3, "soft_timeout": 3}, "soft_timeout: must be below timeout"),
            ({"no_retry_for": ValueError}, "tuple of exception classes"),
            ({"no_retry_for": (3,)}, "tuple of exception classes"),
            ({"interrupt": 0}, "interrupt must be True or False"),
            ({"secret_params": "pan"}, "secret_params must be a tuple of names"),
            ({"secret_params": (3,)}, "secret_params must be a tuple of names"),
        ],
    )
    def test_bad_options_are_refused(self, limits: dict[str, Any], message: str) -> None:
        app = App(store=STORE)
        with pytest.raises(ConfigError, match=message) as caught:
            app.task(name="a", **limits)(lambda ctx: None)
        assert caught.value.remedy
        assert not app.types

    def test_options_take_the_spellings_of_settings(self) -> None:
        as_text: dict[str, Any] = {"memory_limit_bytes": "1GiB", "timeout": "60"}
        options = App(store=STORE).task(name="a", **as_text)(lambda ctx: None).options
        assert (options.memory_limit_bytes, options.timeout) == (2**30, 60)

    @pytest.mark.parametrize("none", [None, "none"])
    def test_none_means_none(self, none: Any) -> None:
        app = App(store=STORE)
        given = {"timeout": 6, "soft_timeout": none, "memory_limit_bytes": none}
        task = app.task(name="a", **given)(lambda ctx: None)
        assert task.options == TaskOptions(
            timeout=6, soft_timeout=NO_SOFT_TIMEOUT, memory_limit_bytes=NO_MEMORY_LIMIT
        )
        limits = app.settings.for_task("a", "default", task.options)
        assert (limits.told_soft, limits.memory_limit_bytes) == (None, None)
        assert app.checked(task.spec(soft_timeout=None)).soft_timeout == NO_SOFT_TIMEOUT

    def test_functions_that_cannot_be_tasks_are_refused(self) -> None:
        def nothing() -> None: ...
        def keyword(*, ctx: Any) -> None: ...
        def starred(ctx: Any, *rest: int) -> None: ...
        def positional(ctx: Any, x: int, /) -> None: ...
        def clash(ctx: Any, priority: int) -> None: ...
        def generator(ctx: Any) -> Any:
            yield 1

        class CallableThing:
            def __call__(self, ctx: Any) -> None: ...

        expected: dict[Any, str] = {
            nothing: "takes no context",
            keyword: "takes no context",
            starred: "by position",
            positional: "by position",
            clash: "parameter 'priority', which is an option",
            generator: "is a generator",
        }
        for function, message in expected.items():
            with pytest.raises(ConfigError, match=message) as caught:
                App(store=STORE).task(function)
            assert caught.value.remedy
        with pytest.raises(ConfigError, match="is not a function"):
            App(store=STORE).task(name="a")(CallableThing())

    def test_submit_options_are_fields_of_a_task(self) -> None:
        assert SUBMIT_OPTIONS - {"by", "connection"} <= set(SPEC_FIELDS)
        unreachable = set(SPEC_FIELDS) - SUBMIT_OPTIONS
        assert unreachable == {"type", "params", "submitted_by"}


class TestParams:
    def refused(self, task: Task, **given: Any) -> list[str]:
        with pytest.raises(InvalidSpec) as caught:
            task.app.checked(task.spec(**given))
        return [str(problem) for problem in caught.value.problems]

    def test_the_spec_that_is_submitted(self) -> None:
        app, task = make()
        spec = task.spec(user_id=1, by="me", dedup_key="k", priority=7, tags=["a"])
        assert app.checked(spec) == TaskSpec(
            type="export_report",
            params_json='{"user_id":1}',
            queue="exports",
            submitted_by="me",
            dedup_key="k",
            priority=7,
            tags=("a",),
        )
        assert app.checked({**spec, "queue": "other"}).queue == "other"

    def test_missing_unknown_and_mistyped_are_named_by_path(self) -> None:
        _, task = make()
        assert self.refused(task) == ["params.user_id: is missing"]
        assert self.refused(task, user_id="1") == ["params.user_id: must be int (given: '1')"]
        assert self.refused(task, user_id=True) == ["params.user_id: must be int (given: True)"]
        assert self.refused(task, user_id=None) == ["params.user_id: must be int (given: None)"]
        assert self.refused(task, user_id=1, report_type=3, more=1) == [
            "params.report_type: must be str (given: 3)",
            "params.more: is unknown; the task takes user_id, report_type",
        ]

    def test_params_by_position_are_refused(self) -> None:
        _, task = make()
        with pytest.raises(InvalidSpec, match=r"params: are given by name \(user_id, report_type"):
            task.spec(1001)

    def test_what_is_not_json_is_refused_before_types_are_looked_at(self) -> None:
        _, task = make()
        [problem] = self.refused(task, user_id=object())
        assert problem.startswith("params.user_id: is not JSON")

    @pytest.mark.parametrize(
        ("hint", "good", "bad"),
        [
            (int, [1], [1.0, "1", True, None]),
            (float, [1.5, 2], ["1", True]),
            (bool, [True], [1, None]),
            (str, ["a"], [1]),
            (list, [[1], (1,)], ["a", {}]),
            (list[int], [[1], ["not looked into"]], ["a"]),
            (dict[str, int], [{"a": 1}], [[1]]),
            (int | None, [1, None], ["1"]),
            (Optional[str], ["a", None], [1]),  # noqa: UP045 (the old spelling must work too)
            (int | str, [1, "a"], [None, True]),
            (Any, [1, None, "a"], []),
            (int | Task, [1, "unchecked"], []),
        ],
    )
    def test_simple_annotations(self, hint: Any, good: list[Any], bad: list[Any]) -> None:
        app = App(store=STORE)

        def body(ctx: Any, x: Any) -> None: ...

        body.__annotations__ = {"x": hint}
        task = app.task(body)
        for value in good:
            app.checked(task.spec(x=value))
        for value in bad:
            [problem] = self.refused(task, x=value)
            assert problem.startswith("params.x: must be ")

    def test_annotations_that_cannot_be_resolved_are_not_checked(self) -> None:
        app = App(store=STORE)

        def body(ctx: Any, x: OnlyForACheckerToKnow) -> None: ...  # type: ignore[name-defined]  # noqa: F821

        task = app.task(body)
        assert app.checked(task.spec(x=object.__name__)).params_json == '{"x":"object"}'

    def test_open_ended_bodies_take_any_name(self) -> None:
        app = App(store=STORE)

        @app.task
        def anything(ctx: Any, x: int = 1, **rest: Any) -> None: ...

        assert app.checked(anything.spec(y=2)).params_json == '{"y":2}'

    def test_unknown_types_are_refused_by_an_app_that_has_types(self) -> None:
        app, _ = make()
        with pytest.raises(UnknownTaskType) as caught:
            app.checked({"type": "export_reprot"})
        assert caught.value.remedy == "Did you mean export_report? This app knows: export_report."
        assert App(store=STORE).checked({"type": "anything"}) == TaskSpec(type="anything")

    @pytest.mark.parametrize("spec", [None, 3, [], {}, {"type": []}, {"type": None}])
    def test_what_is_no_spec_is_refused_as_one(self, spec: Any) -> None:
        app, _ = make()
        with pytest.raises(InvalidSpec):
            app.checked(spec)


class TestSettings:
    def test_what_the_app_says_stands_above_the_defaults_only(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SUPERVISOR_LEASE", "31")
        app = App(store=STORE, lease=40, drain_grace=5)
        assert (app.settings.store, app.settings.lease, app.settings.drain_grace) == (STORE, 31, 5)
        assert app.settings is app.settings

    def test_bad_settings_are_refused_where_they_stand(self) -> None:
        with pytest.raises(ConfigError, match="did you mean lease"):
            App(leese=3)
        with pytest.raises(ConfigError, match="store: must be sqlite"):
            App(store="supervisor.db")


class TestNamesake:
    def test_supervisord_in_the_same_environment_is_told_at_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "supervisord.py").write_text("", "utf-8")
        monkeypatch.setattr(supervisor, "__path__", [*supervisor.__path__, str(tmp_path)])
        with pytest.warns(RuntimeWarning, match="shares the import name of 'task-supervisor'"):
            App(store=STORE)

    def test_nothing_is_told_without_it(self, recwarn: pytest.WarningsRecorder) -> None:
        App(store=STORE)
        assert list(recwarn) == []


HEAVY = (
    "sqlalchemy",
    "redis",
    "flask",
    "alembic",
    "click",
    "rich",
    "structlog",
    "prometheus_client",
)


def test_an_app_module_imports_nothing_heavy() -> None:
    program = (
        "import sys; from supervisor import App; app = App(store='sqlite:////nowhere/a.db')\n"
        "@app.task(timeout=3)\ndef a(ctx): ...\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.strip() == "[]"
    assert done.stderr == ""


def test_names_of_the_package_are_loaded_when_used() -> None:
    assert supervisor.App is App
    assert "TaskCanceled" in dir(supervisor)
    assert not issubclass(supervisor.TaskCanceled, Exception)
    for name in ("InvalidSpec", "NoResult", "Refused", "StoreUnavailable", "WaitTimeout"):
        assert getattr(supervisor, name) is getattr(errors, name)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = supervisor.Nothing
