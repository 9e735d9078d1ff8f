"""Settings: sources and precedence, refusals, the limits of a task, rules between them."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.errors import ConfigError
from supervisor.settings import (
    NO_MEMORY_LIMIT,
    SCOPED,
    Intensity,
    Settings,
    TaskLimits,
    TaskOptions,
    check_values,
    default_store,
    fence_after,
    load_settings,
    node_grace,
    relation_problems,
    relation_warnings,
    show,
    store_file,
    table,
    toml_from,
    without_password,
)
from supervisor.settings.table import MEMO_MAX

STORE = "sqlite:////var/lib/tasks/a.db"
SERVER = "postgresql+psycopg://"
OPTIONS = "sslmode=require&connect_timeout=3&application_name=a&options=-c%20search_path%3Dt"


def toml(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "supervisor.toml"
    path.write_text(text, "utf-8")
    return path


def problems_of(*args: object, **kwargs: object) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_settings(*args, **kwargs)  # type: ignore[arg-type]
    assert caught.value.exit_code == 2
    assert caught.value.remedy
    listed = caught.value.facts["problems"]
    assert isinstance(listed, list)
    return listed


class TestTable:
    def test_every_setting_has_prose_a_kind_and_a_default_that_its_kind_accepts(self) -> None:
        for setting in table():
            assert setting.prose.endswith("."), setting.name
            assert setting.kind.accepted
            value = getattr(Settings(store=STORE), setting.name)
            if setting.name != "soft_timeout":
                assert setting.kind.parse(show(value)) == value, setting.name

    def test_names_flags_and_variables_are_distinct(self) -> None:
        entries = table()
        assert len({s.name for s in entries}) == len(entries)
        assert {s.flag for s in entries} >= {"--timeout", "--memory-limit-bytes"}
        assert {s.env for s in entries} >= {"SUPERVISOR_STORE", "SUPERVISOR_DRAIN_GRACE"}

    def test_what_a_type_may_set_is_the_same_everywhere(self) -> None:
        own = {"queue", "no_retry_for", "interrupt", "secret_params", "expected_duration"}
        assert {f.name for f in fields(TaskOptions)} - own == set(SCOPED)
        assert {f.name for f in fields(TaskLimits)} == {*SCOPED, "stall_after"}

    def test_fixed_defaults(self) -> None:
        settings = Settings(store=STORE)
        fixed = {
            "queue": "none", "heartbeat_interval": 30, "heartbeat_misses": 3,
            "progress_timeout": 300, "cpu_spin_after": 600, "memory_limit_bytes": None,
            "timeout": 60, "soft_timeout": None, "cancel_grace": 10, "drain_grace": 60,
            "drain_budget": 1, "checkpoint_budget": 30, "release_budget": 15, "exit_budget": 10,
            "lease": 90, "sweep_interval": 15, "requeue_safety": 30, "retry_base": 10,
            "retry_max": 3600, "max_retries": 3, "autopsy_budget": 10, "log_records": 100,
            "log_tail_bytes": 65536, "stack_window": 300, "metrics_listen": "127.0.0.1:9464",
            "web_listen": "127.0.0.1:8080", "web_proxies": None, "max_crashes": 3,
            "recycle_after_tasks": 10000, "recycle_growth_bytes": 256 * 2**20,
            "recycle_growth_fds": 200, "recycle_growth_threads": 50,
            "restart_intensity": Intensity(5, 60), "spawn": "zygote", "queues": (),
            "on_heartbeat_lost": "kill", "on_stalled": "capture", "on_cpu_spin": "capture",
            "on_memory": "kill", "dedup_ttl": None, "autopsy_databases": (),
            "end_statements": True,
        }  # fmt: skip
        assert {name: getattr(settings, name) for name in fixed} == fixed

    def test_autopsies_lie_beside_the_store(self) -> None:
        assert Settings(store=STORE).autopsy_dir == "/var/lib/tasks/autopsies"

    def test_those_of_a_store_on_a_server_lie_in_the_users_state_directory(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", "/home/somebody/.state")
        folder = "/home/somebody/.state/task-supervisor/autopsies"
        assert Settings(store=f"{SERVER}h/d").autopsy_dir == folder

    def test_the_default_store_is_absolute_and_the_users_own(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", "/home/somebody/.state")
        assert default_store() == "sqlite:////home/somebody/.state/task-supervisor/supervisor.db"
        assert store_file(default_store()) == Path(
            "/home/somebody/.state/task-supervisor/supervisor.db"
        )


class TestSources:
    def test_each_source_beats_the_one_after_it(self, tmp_path: Path) -> None:
        path = toml(tmp_path, "[supervisor]\ntimeout = 3\nlease = 30\nworkers = 3\nlog_records = 3")
        settings = load_settings(
            {"timeout": "1", "workers": None},
            {"SUPERVISOR_TIMEOUT": "2", "SUPERVISOR_LEASE": "31"},
            path,
            app={"timeout": 4, "lease": 32, "workers": 5, "drain_grace": 7},
        )
        assert settings.timeout == 1
        assert settings.lease == 31
        assert settings.workers == 3
        assert settings.log_records == 3
        assert settings.drain_grace == 7
        assert settings.exit_budget == 10
        assert settings.source_of("timeout") == "flag --timeout"
        assert settings.source_of("lease") == "environment SUPERVISOR_LEASE"
        assert settings.source_of("workers") == f"{path} [supervisor]"
        assert settings.source_of("drain_grace") == "App(...)"
        assert settings.source_of("exit_budget") == "default"

    def test_all_problems_of_all_sources_are_told_at_once(self, tmp_path: Path) -> None:
        path = toml(tmp_path, "[supervisor]\nlease = true\nworkerz = 3\n[queue.a]\nstore = 'x'")
        found = problems_of({"timeout": "soon"}, {"SUPERVISOR_DRAIN_GRACE": "-1"}, path)
        assert found == [
            "timeout: must be seconds from 0.01 to 2592000 (flag --timeout) (given: 'soon')",
            (
                "drain_grace: must be seconds from 0 to 86400 (environment "
                "SUPERVISOR_DRAIN_GRACE) (given: '-1')"
            ),
            f"lease: must be seconds from 1 to 3600 ({path} [supervisor]) (given: True)",
            f"workerz: is not a setting ({path} [supervisor]); did you mean workers?",
            f"store: is not a setting ({path} [queue.a])",
        ]

    def test_unknown_names_get_a_hint(self) -> None:
        assert problems_of({"time_out": 3}, {}) == [
            "time_out: is not a setting (flag); did you mean timeout?"
        ]
        assert problems_of({}, {"SUPERVISOR_WORKERS_": "3"}) == [
            "workers_: is not a setting (environment SUPERVISOR_WORKERS_); did you mean workers?"
        ]

    def test_variables_of_supervisord_and_our_own_marks_are_no_settings(self) -> None:
        env = {
            "SUPERVISOR_ENABLED": "1",
            "SUPERVISOR_PROCESS_NAME": "web",
            "SUPERVISOR_GROUP_NAME": "web",
            "SUPERVISOR_SERVER_URL": "unix:///x",
            "SUPERVISOR_ATTEMPT": "task_1:2",
            "SUPERVISOR_WORKER": "w",
            "SUPERVISOR_NODE": "n",
            "SUPERVISOR_CONFIG": "/x.toml",
            "SUPERVISOR_SOMETHING_ELSE": "1",
            "HOME": "/root",
        }
        assert load_settings({"store": STORE}, env) == Settings(store=STORE)

    def test_a_file_that_cannot_be_read_is_a_problem(self, tmp_path: Path) -> None:
        [missing] = problems_of({}, {}, tmp_path / "none.toml")
        assert missing.startswith(f"{tmp_path / 'none.toml'}: could not be read:")
        [broken] = problems_of({}, {}, toml(tmp_path, "[supervisor"))
        assert "could not be read" in broken
        [other] = problems_of({}, {}, toml(tmp_path, "[superviser]\nlease = 3"))
        assert "[superviser]: is not read" in other
        [flat] = problems_of({}, {}, toml(tmp_path, "supervisor = 3"))
        assert flat.endswith("[supervisor]: must be a table (given: 3)")
        [scope] = problems_of({}, {}, toml(tmp_path, "[type]\nexport = 3"))
        assert scope.endswith("[type.export]: must be a table (given: 3)")

    def test_a_scope_that_is_no_table_is_a_problem(self, tmp_path: Path) -> None:
        [found] = problems_of({}, {}, toml(tmp_path, "queue = 3"))
        assert found.endswith("[queue]: must be a table (given: 3)")

    def test_soft_not_below_hard_is_refused_where_both_are_said(self, tmp_path: Path) -> None:
        assert problems_of({"timeout": 5, "soft_timeout": 5}, {}) == [
            "soft_timeout: must be below timeout (5) (given: 5)"
        ]
        text = "[type.a]\ntimeout = 2\nsoft_timeout = 3"
        assert problems_of({}, {}, toml(tmp_path, text)) == [
            "[type.a] soft_timeout: must be below timeout (2) (given: 3)"
        ]

    def test_where_the_file_is_looked_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert toml_from({}) is None
        toml(tmp_path, "")
        assert toml_from({}) == Path("supervisor.toml")
        assert toml_from({"SUPERVISOR_CONFIG": "/etc/s.toml"}) == Path("/etc/s.toml")

    def test_values_in_code_are_checked_where_they_stand(self) -> None:
        assert check_values({"lease": 30, "dedup_ttl": None}, "App(...)") == {
            "lease": 30.0, "dedup_ttl": None
        }  # fmt: skip
        with pytest.raises(ConfigError, match=r"workers: cannot be None \(App.*leave it out"):
            check_values({"workers": None}, "App(...)")
        with pytest.raises(ConfigError, match=r"leese: is not a setting .*did you mean lease"):
            check_values({"leese": 30}, "App(...)")
        with pytest.raises(ConfigError, match="lease: is not a setting"):
            check_values({"lease": 30}, "task a", scoped=True)


class TestKinds:
    @pytest.mark.parametrize(
        ("name", "given", "value"),
        [
            ("timeout", "1.5", 1.5),
            ("timeout", 2, 2.0),
            ("soft_timeout", "none", math.inf),
            ("soft_timeout", "2", 2.0),
            ("workers", "4", 4),
            ("workers", 4.0, 4),
            ("memory_limit_bytes", "256MiB", 256 * 2**20),
            ("memory_limit_bytes", "1.5 gib", 3 * 2**29),
            ("memory_limit_bytes", 2**20, 2**20),
            ("memory_limit_bytes", "None", None),
            ("queues", "a, b,a", ("a", "b")),
            ("queues", ["a", "b"], ("a", "b")),
            ("queues", "all", ()),
            ("spawn", "exec", "exec"),
            ("restart_intensity", "5/60", Intensity(5, 60)),
            ("metrics_listen", "0.0.0.0:0", "0.0.0.0:0"),
            ("metrics_listen", "[::1]:9464", "[::1]:9464"),
            ("metrics_listen", "none", None),
            ("web_listen", "0.0.0.0:80", "0.0.0.0:80"),
            ("web_proxies", "10.0.0.0/8, ::1", "10.0.0.0/8,::1/128"),
            ("web_proxies", ["127.0.0.1"], "127.0.0.1/32"),
            ("web_proxies", "none", None),
            ("node_name", "10.0.0.7", "10.0.0.7"),
            ("store", "sqlite:////a/b.db?mode=rw", "sqlite:////a/b.db?mode=rw"),
            ("store", "postgres://h/d", f"{SERVER}h/d"),
            ("store", "POSTGRESQL://u:p%40@h:5432/d", f"{SERVER}u:p%40@h:5432/d"),
            ("store", f"{SERVER}u@[::1]:5432/d", f"{SERVER}u@[::1]:5432/d"),
            ("store", f"postgresql://h/d?{OPTIONS}", f"{SERVER}h/d?{OPTIONS}"),
            ("store", "postgresql:///d?host=/run/pg", f"{SERVER}/d?host=/run/pg"),
            ("store", "postgresql:///?service=tasks", f"{SERVER}/?service=tasks"),
            (
                "store",
                "postgresql:///d?host=a:1&host=b:2&target_session_attrs=read-write",
                f"{SERVER}/d?host=a:1&host=b:2&target_session_attrs=read-write",
            ),
            ("queue", "none", "none"),
            ("queue", "", "none"),
            ("queue", "redis://h", "redis://h"),
            ("queue", "REDIS://:p@h:6379/3", "redis://:p@h:6379/3"),
            ("queue", "rediss://u:p@h/0?ssl_cert_reqs=none", "rediss://u:p@h/0?ssl_cert_reqs=none"),
            ("queue", "unix:///run/redis.sock?db=1", "unix:///run/redis.sock?db=1"),
            ("autopsy_dir", "/a/b", "/a/b"),
        ],
    )
    def test_accepted(self, name: str, given: object, value: object) -> None:
        assert getattr(load_settings({name: given}, {}), name) == value

    @pytest.mark.parametrize(
        ("name", "given"),
        [
            ("timeout", "0"), ("timeout", "nan"), ("timeout", "inf"), ("timeout", True),
            ("timeout", "none"), ("timeout", 10**400), ("timeout", [3]),
            ("workers", "0"), ("workers", "2.5"), ("workers", ""),
            ("memory_limit_bytes", "12"), ("memory_limit_bytes", "5 parsecs"),
            ("queues", ""), ("queues", "a,,b"), ("queues", "9a"), ("queues", [3]), ("queues", []),
            ("spawn", "fork"), ("on_cpu_spin", "kill"),
            ("restart_intensity", "5"), ("restart_intensity", "0/60"),
            ("restart_intensity", "5/0"), ("restart_intensity", "5/x"),
            ("metrics_listen", "9464"), ("metrics_listen", ":9464"),
            ("metrics_listen", "h:99999"), ("metrics_listen", 9464),
            ("web_listen", "none"), ("web_proxies", "proxy.example"), ("web_proxies", "10.0.0.1/8"),
            ("web_proxies", []), ("web_proxies", 3), ("web_proxies", [3]),
            ("node_name", "a b"), ("node_name", ""),
            ("store", "supervisor.db"), ("store", "sqlite://"), ("store", "sqlite:///:memory:"),
            ("store", 3), ("store", "mysql://h/d"), ("store", "postgresql+asyncpg://h/d"),
            ("store", "postgresql+psycopg2://h/d"), ("store", "postgresql://h"),
            ("store", "postgresql://boss:p@ss/word@h/d"),
            ("store", "postgresql://h:0x1/d"), ("store", "postgresql://h:99999/d"),
            ("store", "postgresql://h/d e"), ("store", "postgresql://a,b/d"),
            ("store", "host=h dbname=d"), ("store", "postgresql://h/d\0"),
            ("queue", "redis"), ("queue", "redis://h/x"), ("queue", "redis://h:99999"),
            ("queue", "unix://a"), ("queue", "amqp://h"), ("queue", 3),
            ("autopsy_dir", ""), ("autopsy_dir", 3),
        ],
    )  # fmt: skip
    def test_refused_with_name_source_and_accepted_values(self, name: str, given: object) -> None:
        [setting] = [s for s in table() if s.name == name]
        [problem] = problems_of({name: given}, {})
        assert problem.startswith(f"{name}: must be {setting.kind.accepted} (flag {setting.flag})")

    @given(st.text() | st.integers() | st.floats() | st.booleans() | st.lists(st.text()))
    def test_no_value_breaks_the_reading(self, value: object) -> None:
        for setting in table():
            with suppress(ConfigError):  # the only way to say no
                taken = load_settings({"store": STORE, setting.name: value}, {})
                assert taken.source_of(setting.name) in {f"flag {setting.flag}", "default"}

    def test_a_relative_store_is_made_absolute(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert load_settings({"store": "sqlite:///a.db"}, {}).store == f"sqlite:///{tmp_path}/a.db"


class TestLimits:
    def settings(self, tmp_path: Path) -> Settings:
        path = toml(
            tmp_path,
            "[supervisor]\ntimeout = 100\nmax_retries = 1\ncancel_grace = 1\n"
            "[queue.slow]\ntimeout = 200\nretry_base = 2\nprogress_timeout = 20\n"
            "[type.export]\ntimeout = 300\nretry_max = 9\n",
        )
        return load_settings({"store": STORE}, {}, path)

    def test_nearest_wins(self, tmp_path: Path) -> None:
        settings = self.settings(tmp_path)
        assert settings.for_task("other", "default").timeout == 100
        assert settings.for_task("other", "slow").timeout == 200
        assert settings.for_task("export", "slow").timeout == 300
        assert settings.for_task("export", "slow", timeout=5).timeout == 5

    def test_the_operator_has_the_last_word_on_a_type(self, tmp_path: Path) -> None:
        declared = TaskOptions(timeout=7, retry_base=8)
        limits = self.settings(tmp_path).for_task("export", "slow", declared)
        assert (limits.timeout, limits.retry_base, limits.retry_max) == (300, 8, 9)
        assert self.settings(tmp_path).for_task("other", "slow", declared).timeout == 7

    def test_all_fields_of_a_task_without_any_say(self) -> None:
        assert Settings(store=STORE).for_task("a", "default") == TaskLimits(
            timeout=60,
            soft_timeout=54,
            max_retries=3,
            retry_base=10,
            retry_max=3600,
            max_crashes=3,
            progress_timeout=None,
            stall_after=300,
            cancel_grace=10,
            memory_limit_bytes=None,
            heartbeat_interval=30,
            heartbeat_misses=3,
            cpu_spin_after=600,
        )

    def test_only_a_type_allows_a_kill_for_want_of_progress(self, tmp_path: Path) -> None:
        settings = self.settings(tmp_path)
        queued = settings.for_task("other", "slow")
        assert (queued.progress_timeout, queued.stall_after) == (None, 20)
        typed = settings.for_task("other", "slow", TaskOptions(progress_timeout=5))
        assert (typed.progress_timeout, typed.stall_after) == (5, 5)

    @pytest.mark.parametrize(
        ("declared", "task", "limits"),
        [
            (TaskOptions(), {}, (60, 54)),
            (TaskOptions(timeout=10), {}, (10, 9)),
            (TaskOptions(timeout=10, soft_timeout=4), {}, (10, 4)),
            (TaskOptions(soft_timeout=4), {"timeout": 20}, (20, 18)),
            (TaskOptions(soft_timeout=50), {"timeout": 20}, (20, 18)),
            (TaskOptions(timeout=10), {"soft_timeout": 3}, (10, 3)),
            (TaskOptions(timeout=10), {"soft_timeout": 30}, (10, 9)),
            (TaskOptions(), {"timeout": 20, "soft_timeout": 5}, (20, 5)),
        ],
    )
    def test_soft_follows_hard(
        self, declared: TaskOptions, task: dict[str, float], limits: tuple[float, float]
    ) -> None:
        found = Settings(store=STORE).for_task("a", "q", declared, **task)  # type: ignore[arg-type]
        assert (found.timeout, found.soft_timeout) == limits

    def test_the_policy_is_the_same_numbers(self) -> None:
        policy = (
            Settings(store=STORE, max_retries=1, retry_base=2.0, max_crashes=9)
            .for_task("a", "q", max_retries=7)
            .policy
        )
        assert (policy.max_retries, policy.base_s, policy.max_s, policy.max_crashes) == (
            7, 2.0, 3600.0, 9,
        )  # fmt: skip

    def test_a_second_question_is_answered_from_memory(self) -> None:
        settings = Settings(store=STORE)
        assert settings.for_task("a", "q") is settings.for_task("a", "q")

    def test_a_declared_none_beats_what_stands_below_it(self) -> None:
        settings = Settings(store=STORE, soft_timeout=5, memory_limit_bytes=2**30)
        bare = TaskOptions(soft_timeout=math.inf, memory_limit_bytes=NO_MEMORY_LIMIT)
        limits = settings.for_task("a", "q", bare, timeout=9)
        assert (limits.soft_timeout, limits.told_soft) == (math.inf, None)
        assert limits.memory_limit_bytes is None
        assert settings.for_task("a", "q", bare, soft_timeout=3).told_soft == 3
        assert settings.for_task("a", "q").told_soft == 5
        assert settings.for_task("a", "q", soft_timeout=math.inf).told_soft is None

    def test_queues_named_by_data_do_not_fill_the_memory(self) -> None:
        settings = Settings(store=STORE)
        for number in range(MEMO_MAX + 10):
            settings.for_task("a", f"q{number}")
        assert len(settings._memo) <= MEMO_MAX


class TestRelations:
    def test_the_sum_of_a_stop(self) -> None:
        assert str(node_grace(Settings(store=STORE))) == (
            "drain_grace 60 + checkpoint_budget 30 + release_budget 15 + exit_budget 10 + "
            "autopsy_budget 10 + slack 2 = 127 s"
        )

    def test_a_grace_that_is_too_short_is_refused_with_the_sum(self) -> None:
        settings = Settings(store=STORE)
        assert [p.path for p in relation_problems(settings, 127)] == ["grace"]
        [problem] = relation_problems(settings, 45)
        assert "= 127 s" in problem.why
        assert problem.given == "45"
        assert relation_problems(settings, 128) == []

    def test_workers_are_gone_before_the_lease_is(self) -> None:
        server = f"{SERVER}h/d"
        assert fence_after(Settings(store=server)) == 65
        assert relation_problems(Settings(store=server, lease=26.0)) == []
        assert [p.path for p in relation_problems(Settings(store=server, lease=25.0))] == ["lease"]
        assert relation_problems(Settings(store=STORE, lease=25.0)) == []

    def test_a_lease_that_cuts_grace_and_evidence_short_is_told(self) -> None:
        assert relation_warnings(Settings(store=f"{SERVER}h/d")) == []
        assert relation_warnings(Settings(store=f"{SERVER}h/d", lease=50.0)) == []
        short = Settings(store=f"{SERVER}h/d", lease=40.0)
        assert relation_problems(short) == []
        [warning] = relation_warnings(short)
        assert str(warning) == (
            "lease: leaves a node that loses the store 20 s to end its attempts in order, of the "
            "25 s that cancel_grace and autopsy_budget ask for: both are cut short (given: 40)"
        )
        assert relation_warnings(Settings(store=STORE, lease=40.0)) == []
        refused = Settings(store=f"{SERVER}h/d", lease=20.0)
        assert relation_warnings(refused) == []
        assert [p.path for p in relation_problems(refused)] == ["lease"]

    def test_a_redis_needs_a_store_for_many_nodes(self) -> None:
        queue = "redis://:correct-horse@cache:6379/0"
        [problem] = relation_problems(Settings(store=STORE, queue=queue))
        assert (problem.path, problem.given) == ("queue", "redis://:***@cache:6379/0")
        assert "leave queue at none, or name a store on a PostgreSQL server" in problem.why
        assert relation_problems(Settings(store=f"{SERVER}h/d", queue=queue)) == []

    def test_other_pairs(self) -> None:
        crossed = Settings(store=STORE, soft_timeout=60.0, retry_base=20.0, retry_max=5.0)
        assert [p.path for p in relation_problems(crossed)] == ["soft_timeout", "retry_max"]


class TestSecrets:
    URL = "postgresql://boss:correct-horse@db/app"

    def test_addresses_of_databases_are_read_and_never_shown(self, tmp_path: Path) -> None:
        cache = "redis://:battery-staple@cache:6380/0"
        path = toml(tmp_path, f"[supervisor]\nautopsy_databases = ['{self.URL}', '{cache}']")
        from_file = load_settings({}, {}, path)
        from_env = load_settings({}, {"SUPERVISOR_AUTOPSY_DATABASES": f" {self.URL} {cache}\n"})
        for settings in (from_file, from_env):
            value = settings.autopsy_databases
            assert tuple(value) == (self.URL, cache)
            assert show(value) == str(value) == repr(value) == "2 given, not shown"
            assert "correct-horse" not in repr(settings)
        assert show(Settings(store=STORE).autopsy_databases) == "none"

    @pytest.mark.parametrize(
        ("address", "shown"),
        [
            ("sqlite:////a:b@c/d.db", "sqlite:////a:b@c/d.db"),
            ("postgresql://boss@db:5432/app", "postgresql://boss@db:5432/app"),
            ("postgresql://boss:pw@db/app", "postgresql://boss:***@db/app"),
            ("postgresql://boss:p@/w?#w@db/app", "postgresql://boss:***@db/app"),
            ("postgresql://db/app?user=u&password=pw", "postgresql://db/app?user=u&password=***"),
            ("postgresql://db/app?sslpassword=pw&a=b", "postgresql://db/app?sslpassword=***&a=b"),
            ("redis://:pw@h:6379/0", "redis://:***@h:6379/0"),
            ("unix://u:pw@/run/r?db=0&password=pw", "unix://u:***@/run/r?db=0&password=***"),
            ("boss:pw@db/app", "boss:***@db/app"),
            ("host=db password='p w' user=u", "host=db password=*** user=u"),
        ],
    )
    def test_no_address_shows_its_password(self, address: str, shown: str) -> None:
        assert without_password(address) == shown

    @given(st.text(st.characters(codec="ascii", exclude_characters="&=\0 \n"), min_size=5))
    def test_whatever_the_password_is(self, rest: str) -> None:
        secret = f"~{rest}~"
        for shown in (
            without_password(f"postgresql://boss:{secret}@db/app"),
            without_password(f"redis://:{secret}@h:6379/0"),
            without_password(f"postgresql://boss@db/app?password={secret}&sslmode=require"),
        ):
            assert secret not in shown

    @pytest.mark.parametrize("name", ["store", "queue"])
    def test_neither_a_good_nor_a_bad_address_of_ours_is_shown(self, name: str) -> None:
        scheme = {"store": "postgresql", "queue": "redis"}[name]
        good = load_settings({name: f"{scheme}://boss:correct-horse@db:1/0"}, {})
        assert "correct-horse" in getattr(good, name)
        assert "correct-horse" not in repr(good)
        [setting] = [s for s in table() if s.name == name]
        assert "correct-horse" not in str(setting.kind.shown(getattr(good, name)))
        for bad in ("amqp://boss:correct-horse@db", ["boss:correct-horse@db"]):
            [problem] = problems_of({name: bad}, {})
            assert problem.startswith(f"{name}: must be ")
            assert "correct-horse" not in problem
        with pytest.raises(ConfigError) as caught:
            check_values({name: "amqp://boss:correct-horse@db"}, "App(...)")
        assert "correct-horse" not in str(caught.value)

    def test_a_bad_address_is_refused_without_showing_it(self) -> None:
        bad = self.URL.replace("postgresql", "mysql")
        assert problems_of({"autopsy_databases": bad}, {}) == [
            (
                "autopsy_databases: must be postgresql:// or redis:// addresses separated by "
                "spaces (in TOML: a list), or none (flag --autopsy-databases)"
            )
        ]


@pytest.mark.parametrize(
    ("word", "value"), [("true", True), ("ON", True), ("0", False), ("no", False)]
)
def test_a_switch(word: str, value: bool) -> None:
    assert load_settings({"end_statements": word}, {}).end_statements is value
    assert load_settings({}, {}, app={"end_statements": value}).end_statements is value
    assert problems_of({"end_statements": "maybe"}, {}) == [
        "end_statements: must be true or false (flag --end-statements) (given: 'maybe')"
    ]
