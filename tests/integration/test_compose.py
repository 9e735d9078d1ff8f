"""The image and the compose file: what their tools say of them, and every service at work.

There is no engine here. The Dockerfile's own steps are carried out in a root of their own, and each
service is started from the very files, command and environment that compose would use, as its user,
with its capabilities, on a read-only root, in a pid namespace; only ports differ.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import compose
import image
import otlp
import psycopg
import pytest
import yaml
from container import ABSENT, OWN_IMAGE, Stack, document
from harness import eventually

from supervisor import App
from supervisor.model.states import State
from supervisor.settings import Settings, node_grace

SECRETS = {name: f"test-{name.lower()}" for name in compose.variables() if "PASSWORD" in name}
SERVICES = compose.services(SECRETS)
NODES = ["node-1", "node-2"]
WATCHERS = ["web", "prometheus", "alertmanager", "grafana", "otel-collector"]
LOCK = compose.REPOSITORY / "requirements.lock"
IMAGE_LOCK = compose.REPOSITORY / "deploy" / "requirements.lock"

_SECRET = re.compile("PASSWORD|AUTH$|STORE|QUEUE")

# The image fetches its packages, as every one does.
pytestmark = pytest.mark.timeout(400)
every_service = pytest.mark.parametrize("name", SERVICES)


# -- docker-compose.yml as it stands


def test_the_compose_file_follows_the_specification() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*command, compose.FILE], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "ok -- validation done"), done.stdout


def test_it_has_the_servers_a_migration_two_nodes_and_what_watches() -> None:
    assert list(SERVICES) == ["postgres", "redis", "migrate", *NODES, *WATCHERS]
    assert SERVICES["migrate"]["command"] == ["supervisor", "db", "upgrade"]
    assert [SERVICES[name]["command"][:2] for name in NODES] == [["supervisor", "run"]] * 2
    names = [SERVICES[name]["environment"]["SUPERVISOR_NODE_NAME"] for name in NODES]
    assert names == ["local-1", "local-2"]


@pytest.mark.parametrize("missing", SECRETS)
def test_nothing_starts_without_every_password(missing: str) -> None:
    given = {name: value for name, value in SECRETS.items() if name != missing}
    with pytest.raises(compose.VariableMissing, match=missing):
        compose.services(given)


def test_no_password_stands_in_the_file() -> None:
    told = {name: one.get("environment", {}) for name, one in compose.raw()["services"].items()}
    secret = [value for one in told.values() for name, value in one.items() if _SECRET.search(name)]
    assert len(secret) == len(["PASSWORD"] * 3 + ["REDISCLI_AUTH"] + ["STORE", "QUEUE"] * 4)
    assert [value for value in secret if "PASSWORD:?" not in value] == []
    assert SERVICES["node-1"]["environment"]["SUPERVISOR_STORE"] == (
        f"postgresql://supervisor:{SECRETS['SUPERVISOR_DB_PASSWORD']}@postgres:5432/supervisor"
    )


def test_the_example_names_each_variable_with_its_default() -> None:
    lines = compose.EXAMPLE.read_text("utf-8").splitlines()
    said = dict(
        line.removeprefix("#").split("=", 1) for line in lines if re.match(r"#?[A-Z]", line)
    )
    said = {name: value for name, value in said.items() if re.fullmatch("[A-Z_]+", name)}
    assert said == {
        name: "" if rest.startswith(":?") else rest.removeprefix(":-")
        for name, rest in compose.variables().items()
    }


@every_service
def test_each_file_that_is_mounted_exists(name: str) -> None:
    files = [source for source, _, _ in compose.mounts(SERVICES[name]) if source.startswith(".")]
    assert [file for file in files if not (compose.REPOSITORY / file).exists()] == []
    read_only = {source: read_only for source, _, read_only in compose.mounts(SERVICES[name])}
    assert [file for file in files if not read_only[file]] == []


@every_service
def test_a_container_may_do_no_more_than_it_needs(name: str) -> None:
    service = SERVICES[name]
    assert service["init"] is service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service.get("cap_add", []) == (["SYS_PTRACE"] if name in NODES else [])
    loose = {"privileged", "pid", "ipc", "network_mode", "userns_mode", "devices", "cgroup_parent"}
    assert loose & service.keys() == set()
    assert service.get("user", "10001:10001").split(":")[0] not in ("root", "0")
    assert [source for source, *_ in compose.mounts(service) if "docker.sock" in source] == []
    assert [port for port in service.get("ports", []) if not port.startswith("127.0.0.1:")] == []


@every_service
def test_memory_and_logs_have_limits_and_what_ends_starts_again(name: str) -> None:
    service = SERVICES[name]
    assert compose.size(service["deploy"]["resources"]["limits"]["memory"]) <= 2 * 2**30
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}
    assert service["restart"] == ("no" if name == "migrate" else "unless-stopped")


def test_every_service_that_stays_is_watched() -> None:
    checks = {name: service["healthcheck"] for name, service in SERVICES.items()}
    assert checks.pop("migrate") == checks.pop("otel-collector") == {"disable": True}
    assert {name: check["test"][1] for name, check in checks.items()} == {
        "postgres": "pg_isready",
        "redis": "redis-cli",
        "node-1": "python",
        "node-2": "python",
        "web": "python",
        "prometheus": "wget",
        "alertmanager": "wget",
        "grafana": "wget",
    }
    (own,) = [one for one in image.instructions() if one.name == "HEALTHCHECK"]
    assert checks["node-1"]["test"] == own.args


def test_nodes_wait_for_the_tables_and_for_no_bell() -> None:
    for name in NODES:
        waits = {other: how["condition"] for other, how in SERVICES[name]["depends_on"].items()}
        assert waits == {
            "migrate": "service_completed_successfully",
            "postgres": "service_healthy",
            "redis": "service_started",
        }


def test_a_node_is_given_the_time_that_its_longest_stop_takes() -> None:
    for name in NODES:
        needed = node_grace(Settings())
        given = compose.seconds(SERVICES[name]["stop_grace_period"])
        assert needed.total < given <= needed.total + 30


def test_only_one_service_builds_the_image_and_no_node_pulls_it() -> None:
    own = {name: one for name, one in SERVICES.items() if one["image"] == OWN_IMAGE}
    assert list(own) == ["migrate", *NODES, "web"]
    assert [name for name, one in own.items() if "build" in one] == ["migrate"]
    assert [own[name]["pull_policy"] for name in (*NODES, "web")] == ["never"] * 3
    assert f":{_project()['version']}" in OWN_IMAGE
    others = {one["image"] for one in SERVICES.values()} - {OWN_IMAGE}
    assert others == {
        "postgres:15-bookworm",
        "redis:7.2-bookworm",
        "prom/prometheus:v3.5.3",
        "prom/alertmanager:v0.28.1",
        "grafana/grafana:12.1.1",
        "otel/opentelemetry-collector-contrib:0.135.0",
    }


# -- Dockerfile


def test_the_linter_of_dockerfiles_finds_nothing() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([linter, image.DOCKERFILE], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_starts_from_one_pinned_python_and_does_not_run_as_root() -> None:
    told = image.instructions()
    bases = {one.args[0] for one in told if one.name == "FROM"}
    (base,) = bases
    assert re.fullmatch(r"python:3\.11\.\d+-slim-bookworm", base)
    users = [one.args[0] for one in told if one.name == "USER"]
    assert users == ["10001:10001"]
    after = told[next(i for i, one in enumerate(told) if one.name == "USER") + 1 :]
    assert [one.name for one in after] == ["CMD"]
    assert [one.args for one in told if one.name == "STOPSIGNAL"] == [["SIGTERM"]]


def test_nothing_is_fetched_but_what_the_lock_names() -> None:
    told = image.instructions()
    assert [one.original for one in told if one.name == "ADD"] == []
    lines = [one.args[0] for one in told if one.name == "RUN"]
    assert [line for line in lines if re.search(r"\b(apt(-get)?|curl|wget|git|gcc)\b", line)] == []
    installs = re.findall(r"pip (?:--python \S+ )?(?:install|wheel) [^&\n]*", "\n".join(lines))
    assert len(installs) == 4
    locked = [one for one in installs if "--require-hashes --only-binary=:all:" in one]
    assert [re.findall(r"--requirement (\S+)", one) for one in locked] == [
        ["deploy/requirements.lock"],
        ["deploy/build-requirements.lock"],
    ]
    assert all("--no-index --no-deps" in one for one in installs if one not in locked)


def test_every_source_that_is_copied_reaches_the_build_and_nothing_else() -> None:
    copies = [one for one in image.instructions() if one.name == "COPY" and not one.flags]
    sources = [source for one in copies for source in one.args[:-1]]
    assert [source for source in sources if not list(image.context_files(source))] == []
    reaching = {path.parts[0] for path in image.context_files(".")}
    assert reaching == {source.split("/")[0] for source in sources}
    deploy = {str(path) for path in image.context_files("deploy")}
    assert deploy == {source for source in sources if source.startswith("deploy/")}
    assert [path for path in image.context_files("supervisor") if path.suffix == ".pyc"] == []


def test_the_lock_of_the_image_is_the_part_of_the_lock_that_a_node_needs() -> None:
    whole, part = _locked(LOCK), _locked(IMAGE_LOCK)
    assert part.items() <= whole.items()
    extras = _project()["optional-dependencies"]
    direct = {_name(line) for line in (*_project()["dependencies"], *extras["otel"])}
    assert direct <= part.keys()
    # What the exporter of spans brings along, tests read spans with.
    tools = {_name(line) for line in extras["dev"]} - direct - {"opentelemetry-proto"}
    assert tools & part.keys() == set()


def _project() -> dict[str, object]:
    text = (compose.REPOSITORY / "pyproject.toml").read_text("utf-8")
    project: dict[str, object] = tomllib.loads(text)["project"]
    return project


def _name(requirement: str) -> str:
    return re.split(r"[^a-z0-9-]", requirement)[0]


def _locked(file: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Read a lock: name → version and hashes."""
    entries = re.findall(
        r"^([a-z0-9-]+)==(\S+) \\\n((?:    --hash=\S+(?: \\)?\n)+)", file.read_text(), re.MULTILINE
    )
    return {name: (version, tuple(sorted(hashes.split()))) for name, version, hashes in entries}


# -- what watches, as it stands


def test_what_watches_asks_for_what_this_version_has() -> None:
    command = [
        *(sys.executable, "-m", "supervisor.cli", "check", "--metrics-listen", "0.0.0.0:9464"),
        *("--prometheus", "deploy/prometheus/prometheus.yml", "--rules", "alerts"),
        *("--alertmanager", "alerts/alertmanager.yml", "--dashboards", "dashboards", "--json"),
    ]
    done = subprocess.run(command, cwd=compose.REPOSITORY, capture_output=True, text=True)
    found = [(one["about"], one["level"]) for one in json.loads(done.stdout)["findings"]]
    watched = ["rules", "dashboards", "prometheus", "alertmanager"]
    assert (done.returncode, found) == (0, [(about, "ok") for about in watched]), done.stdout


def test_every_service_with_metrics_is_scraped_at_its_port() -> None:
    jobs = _yaml("deploy/prometheus/prometheus.yml")["scrape_configs"]
    targets = {
        one["job_name"]: [target for group in one["static_configs"] for target in group["targets"]]
        for one in jobs
    }
    assert targets == {
        "supervisor": [f"{name}:9464" for name in NODES],
        "supervisor-web": ["web:8080"],
        "prometheus": ["127.0.0.1:9090"],
        "alertmanager": ["alertmanager:9093"],
    }


def test_grafana_finds_its_prometheus_and_its_dashboards() -> None:
    (source,) = _yaml("deploy/grafana/provisioning/datasources/prometheus.yml")["datasources"]
    (provider,) = _yaml("deploy/grafana/provisioning/dashboards/supervisor.yml")["providers"]
    assert source["url"] == "http://prometheus:9090"
    targets = [target for _, target, _ in compose.mounts(SERVICES["grafana"])]
    assert provider["options"]["path"] in targets


def test_the_collector_takes_spans_where_nodes_send_them_and_uses_all_that_it_declares() -> None:
    config = _yaml("deploy/otel/collector.yml")
    endpoint = SERVICES["node-1"]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"]
    assert endpoint == "http://otel-collector:4318"
    assert config["receivers"]["otlp"]["protocols"]["http"]["endpoint"] == "0.0.0.0:4318"
    (pipeline,) = config["service"]["pipelines"].values()
    for kind in ("receivers", "processors", "exporters"):
        assert list(config[kind]) == pipeline[kind]


def _yaml(path: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((compose.REPOSITORY / path).read_text("utf-8"))
    return read


# -- all of it at work


@pytest.fixture(scope="module")
def collector() -> Iterator[otlp.Collector]:
    """What takes the spans of the nodes, in the place of the service."""
    with otlp.collecting() as made:
        yield made


@pytest.fixture(scope="module")
def stack(collector: otlp.Collector) -> Iterator[Stack]:
    """The image built and every service up that can be had here."""
    if os.geteuid() != 0 or not shutil.which("bwrap"):
        pytest.skip("needs root and bubblewrap: users and namespaces are made")
    built = Path(tempfile.mkdtemp(prefix="image-"))
    watch = built / "watch"
    given = {
        **SECRETS,
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "ALERTS_DIR": str(watch),
    }
    made = Stack(Path(tempfile.mkdtemp(prefix="stack-")), given, image.build(built))
    try:
        built.chmod(0o755)
        export_rules(watch, "--web-hook-url", f"http://127.0.0.1:{made.ports['web']}")
        made.up()
        for name in NODES:
            made[name].wait_healthy()
        let_somebody_in(made)
        told = made["node-1"].run("supervisor", "tokens", "create", "a", "--role", "teller")
        (watch / "teller.token").write_text(told.stdout)
        yield made
    finally:
        made.down()
        shutil.rmtree(built)


def export_rules(folder: Path, *flags: str) -> None:
    """Write what watches as the page says, with a token that is read when it is needed."""
    words = ["rules", "export", str(folder), "--web-token-file", "teller.token", *flags]
    done = subprocess.run(
        [sys.executable, "-m", "supervisor.cli", *words], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def let_somebody_in(stack: Stack) -> None:
    """Do what the page says; until then the pages do not open, and say why."""
    web = stack["web"]
    assert web.wait() == 1
    assert "Add one with `supervisor users add NAME --role admin`" in web.log
    words = "supervisor users add anna --role admin --autopsies --password-file -"
    added = stack["node-1"].run("sh", "-c", f"echo correct horse battery | {words}")
    assert added.returncode == 0, added.stderr
    web.start()  # as the engine does, by itself


@pytest.fixture(scope="module")
def app(stack: Stack) -> Iterator[App]:
    """A program on the host, which reaches the servers at their published ports."""
    environment = stack["node-1"].environment
    made = App(store=environment["SUPERVISOR_STORE"], queue=environment["SUPERVISOR_QUEUE"])
    yield made
    made.client.close()


def test_every_service_is_healthy(stack: Stack) -> None:
    watched = [name for name in SERVICES if name not in ("migrate", *ABSENT)]
    health = {name: stack[name].wait_healthy().is_healthy() for name in watched}
    assert health == dict.fromkeys(watched, True)


def test_the_servers_run_with_their_files(stack: Stack) -> None:
    told = stack["postgres"].run(
        *("psql", "--username=supervisor", "--dbname=supervisor", "--tuples-only", "--no-align"),
        "--command=select name, setting from pg_settings where source = 'configuration file'",
    )
    settings = dict(line.lower().split("|") for line in told.stdout.splitlines())
    written = (compose.REPOSITORY / "deploy/postgresql/postgresql.conf").read_text()
    names = set(re.findall(r"^(\w+) = ", written, re.MULTILINE))
    assert names - settings.keys() == set()
    assert (settings["autovacuum_naptime"], settings["synchronous_commit"]) == ("5", "on")
    told = stack["redis"].run("redis-cli", "-p", "6379", "config", "get", "maxmemory-policy")
    assert told.stdout.split() == ["maxmemory-policy", "noeviction"]
    told = stack["redis"].run("redis-cli", "-p", "6379", "config", "get", "save")
    assert told.stdout.split() == ["save"]  # never


def test_a_password_is_needed_and_the_role_of_the_tasks_is_no_superuser(stack: Stack) -> None:
    url = stack["node-1"].environment["SUPERVISOR_STORE"]
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "select rolsuper, rolcreaterole, rolcreatedb from pg_roles where rolname = current_user"
        ).fetchone()
        assert row == (False, False, False)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(url.replace(SECRETS["SUPERVISOR_DB_PASSWORD"], "guessed"))
    alone = stack["redis"].run("env", "-u", "REDISCLI_AUTH", "redis-cli", "-p", "6379", "ping")
    assert alone.stdout.strip() == "NOAUTH Authentication required."


def test_a_task_runs_on_a_node(stack: Stack, app: App) -> None:
    handles = [app.submit({"type": "report", "params": {"pages": 2}}) for _ in range(12)]
    assert {handle.wait(30).state for handle in handles} == {State.SUCCESS}
    hosts = {handle.result()["host"] for handle in handles}
    assert hosts <= set(NODES)
    assert {node.node_name for node in app.client.reader.nodes()} == {"local-1", "local-2"}


def test_both_nodes_listen_to_the_bell(stack: Stack, app: App) -> None:
    app.submit({"type": "report", "params": {"pages": 1}}).wait(30)  # now its queue is known

    def waiting() -> bool:
        told = stack["redis"].run("redis-cli", "-p", "6379", "client", "list", "type", "normal")
        return told.stdout.count("cmd=bzmpop") == len(NODES)

    eventually(waiting, 15, "two connections wait for ids")


@pytest.mark.parametrize("name", NODES)
def test_the_check_is_content_with_grace_store_app_and_rights(stack: Stack, name: str) -> None:
    grace = compose.seconds(SERVICES[name]["stop_grace_period"])
    told = stack[name].run("supervisor", "check", "tasks:app", "--grace", str(grace), "--json")
    findings = {one["about"]: one["level"] for one in document(told)["findings"]}
    assert told.returncode == 0, told.stdout
    for about in ("settings", "grace", "store", "autopsies", "evidence", "app"):
        assert findings[about] == "ok", told.stdout


def test_a_node_writes_only_where_it_may(stack: Stack) -> None:
    node = stack["node-1"]
    assert node.run("sh", "-c", "id -u").stdout.strip() == "10001"
    for place in ("/app/x", "/opt/task-supervisor/x", "/etc/x", "/x"):
        assert node.run("touch", place).returncode == 1, place
    assert node.run("touch", "/tmp/x", "/var/lib/task-supervisor/autopsies/x").returncode == 0


def test_evidence_is_complete_with_the_rights_of_a_node(stack: Stack, app: App) -> None:
    handle = app.submit({"type": "report", "params": {"pages": 600}})
    eventually(lambda: handle.view().started_at, 20, "the task runs")
    (attempt,) = app.client.reader.attempts(handle.task_id)
    (node,) = [stack[name] for name in NODES if attempt.node_id.startswith(f"local-{name[-1]}-")]
    told = node.run("supervisor", "autopsy", "capture", handle.task_id, "--json")
    assert told.returncode == 0, told.stderr
    assert document(told)["autopsy"]["status"] == "complete"
    assert "deploy/app" not in told.stdout  # the container's own path of the app
    assert "/app/tasks.py" in document(told)["report"]
    handle.cancel(by="tester", reason="seen")
    assert handle.wait(30).state == State.CANCELED


def test_the_pages_show_the_evidence_of_every_node(stack: Stack, app: App) -> None:
    """In what they share, the bundle of the test before."""
    made = stack["node-2"].run("supervisor", "tokens", "create", "t", "--autopsies", "--json")
    base = f"http://127.0.0.1:{stack.ports['web']}"
    signed = {"Authorization": f"Bearer {document(made)['token']}"}
    asked = Request(f"{base}/autopsies/latest?type=report", headers=signed)
    with urlopen(asked, timeout=10) as answer:
        assert answer.status == 200
        place, page = answer.url, answer.read().decode()
    assert "The bundle is not on this host" not in page
    with urlopen(Request(f"{place}/bundle", headers=signed), timeout=10) as answer:
        assert answer.read(2) == b"PK"
    assert stack["web"].run("touch", "/var/lib/task-supervisor/autopsies/x").returncode == 1


def test_prometheus_scrapes_all_and_the_alertmanager_hears_of_it(stack: Stack) -> None:
    def api(service: str, path: str) -> Any:
        with urlopen(f"http://127.0.0.1:{stack.ports[service]}{path}", timeout=5) as answer:
            return json.load(answer)

    def health() -> set[tuple[str, str, str]]:
        targets = api("prometheus", "/api/v1/targets")["data"]["activeTargets"]
        return {(one["labels"]["job"], one["health"], one["lastError"]) for one in targets}

    jobs = ("supervisor", "supervisor-web", "prometheus", "alertmanager")
    wanted = {(job, "up", "") for job in jobs}
    with contextlib.suppress(AssertionError):
        eventually(lambda: health() == wanted, 60, "all are scraped")
    assert health() == wanted
    groups = api("prometheus", "/api/v1/rules")["data"]["groups"]
    written = [_yaml(f"alerts/{name}.rules.yml") for name in ("recording", "alerts", "slo")]
    assert {one["name"] for one in groups} == {
        group["name"] for content in written for group in content["groups"]
    }
    heard = "the alert that always fires"
    eventually(lambda: [one for one in api("alertmanager", "/api/v2/alerts")
                        if one["labels"]["alertname"] == "Watchdog"], 90, heard)  # fmt: skip
    failed = [
        rule["name"] for group in groups for rule in group["rules"] if rule["health"] == "err"
    ]
    assert failed == []


def test_the_pages_hear_of_alerts_from_the_alertmanager(stack: Stack) -> None:
    made = stack["node-1"].run("supervisor", "tokens", "create", "reads", "--json")
    signed = {"Authorization": f"Bearer {document(made)['token']}"}
    asked = Request(f"http://127.0.0.1:{stack.ports['web']}/api/v1/alerts", headers=signed)

    def told() -> list[str]:
        with urlopen(asked, timeout=10) as answer:
            return [one["name"] for one in json.load(answer)["alerts"]]

    eventually(lambda: "Watchdog" in told(), 90, "the alert that always fires, on the pages")


def test_spans_of_tasks_come_from_the_nodes(
    stack: Stack, app: App, collector: otlp.Collector
) -> None:
    handle = app.submit({"type": "report", "params": {"pages": 1}})
    assert handle.wait(30).state == State.SUCCESS
    (span,) = collector.wait(lambda: collector.of(handle.task_id), 20, "the span of the attempt")
    assert (span.kind, span.attributes["supervisor.task.type"]) == ("CONSUMER", "report")


def test_the_commands_of_the_page_work(stack: Stack) -> None:
    page = (compose.REPOSITORY / "docs" / "deployment.md").read_text("utf-8")
    lines = re.findall(r"^docker compose exec (\S+) (.+)$", page, re.MULTILINE)
    assert len(lines) >= 3
    for service, line in lines:
        done = stack[service].run(*shlex.split(line.partition(" > ")[0]))
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


def test_packages_of_an_app_are_added_as_the_page_says(stack: Stack) -> None:
    page = (compose.REPOSITORY / "docs" / "deployment.md").read_text("utf-8")
    (layer,) = re.findall(r"^```dockerfile\n(.+?)^```", page, re.MULTILINE | re.DOTALL)
    told = {one.name: one.args for one in image.instructions(layer)}
    assert (told["FROM"], told["USER"]) == ([OWN_IMAGE], ["10001:10001"])
    made = stack["node-1"].made
    assert made is not None
    made.inside("requirements.txt").write_text("click\n")
    assert "Requirement already satisfied: click in /opt/" in image.run(*told["RUN"], made)


def test_a_stopped_node_leaves_in_order_and_the_other_goes_on(stack: Stack, app: App) -> None:
    assert stack["node-2"].stop() == 0, stack["node-2"].log
    handle = app.submit({"type": "report", "params": {"pages": 1}})
    assert handle.wait(30).state == State.SUCCESS
    assert handle.result() == {"pages": 1, "host": "node-1"}
