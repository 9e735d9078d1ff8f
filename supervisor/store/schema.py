"""The tables, as portable SQLAlchemy Core: SQLite and PostgreSQL read the same definitions.

Secret kept here: names, types and indexes of what is stored. Times are aware UTC in Python, integer
microseconds on SQLite, timestamptz on PostgreSQL. Every query of a verb or page has its index here.
The store's own modules use it; nobody above them sees a column.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Dialect,
    Float,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    text,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

from supervisor.model.states import State

#: The revision that this code reads and writes (the newest file in migrations/versions).
SCHEMA_VERSION = "0005"

#: Which audit rows are acts of people, as the index of them has it.
BY_PEOPLE = "operator <> 'supervisor' AND reason <> 'submitted'"

#: `queues.priority` of the row that stands for the queue as a whole.
WHOLE_QUEUE = -1

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_micros(moment: datetime | None) -> int | None:
    """Encode a time as SQLite keeps it.

    Raises: ValueError for a naive datetime, which would name another moment on another host.
    """
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise ValueError(f"a time without an offset cannot be stored: {moment!r}")
    return (moment - EPOCH) // _MICROSECOND


def from_micros(micros: int | None) -> datetime | None:
    """Decode what `to_micros` wrote."""
    return None if micros is None else EPOCH + timedelta(microseconds=micros)


class Moment(TypeDecorator[datetime]):
    """An aware UTC time."""

    impl = BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        kind = BigInteger() if dialect.name == "sqlite" else DateTime(timezone=True)
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        micros = to_micros(value)  # refuses naive input on every backend
        return micros if dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None or dialect.name == "sqlite":
            return from_micros(value)
        moment: datetime = value
        return moment.astimezone(UTC)


def _id(name: str, **how: Any) -> Column[str]:
    return Column(name, String(64), **how)


def _partial(name: str, *columns: Any, where: str, unique: bool = False) -> Index:
    condition = text(where)
    return Index(name, *columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


_ROW_ID = BigInteger().with_variant(Integer(), "sqlite")  # only INTEGER is SQLite's own row id
_STATES = ", ".join(f"'{state}'" for state in State)

metadata = MetaData()

tasks = Table(
    "tasks",
    metadata,
    _id("task_id", primary_key=True),
    Column("type", String(200), nullable=False),
    Column("queue", String(200), nullable=False),
    Column("priority", SmallInteger, nullable=False),
    Column("state", String(10), nullable=False),
    Column("reason", String(40), nullable=False),
    Column("run_after", Moment, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("retry_count", Integer, nullable=False),
    Column("crash_count", Integer, nullable=False),
    Column("quarantined", Boolean(create_constraint=False), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("ended_at", Moment),
    Column("timeout", Float),
    Column("soft_timeout", Float),
    Column("max_retries", Integer),
    Column("dedup_key", String(512)),
    Column("dedup_held", Boolean(create_constraint=False), nullable=False),
    Column("dedup_ttl", Float),
    Column("dedup_until", Moment),
    Column("submitted_by", String(200)),
    Column("tags", Text),
    _id("parent_id"),
    Column("mark_kind", String(10)),
    Column("mark_by", String(200)),
    Column("mark_reason", Text),
    Column("mark_at", Moment),
    Column("params", Text, nullable=False),
    Column("traceparent", String(55)),  # where in a trace it was submitted
    CheckConstraint(f"state IN ({_STATES})", name="tasks_state_known"),
    # A claim seeks each (queue, priority, type) that has PENDING rows, oldest due first: its cost
    # depends neither on future rows nor on rows of types the node does not know.
    _partial(
        "tasks_due", "queue", "priority", "type", "run_after", "task_id", "state",
        where="state = 'PENDING'",
    ),
    _partial("tasks_dedup", "dedup_key", where="dedup_held", unique=True),
    _partial(
        "tasks_marked", "mark_kind", where="mark_kind IS NOT NULL AND state = 'RUNNING'"
    ),
    Index("tasks_by_state", "state", "task_id"),
    Index("tasks_by_type", "type", "task_id"),
    _partial("tasks_by_parent", "parent_id", "task_id", where="parent_id IS NOT NULL"),
    sqlite_with_rowid=False,  # one page less to sync for each submit
)  # fmt: skip

attempts = Table(
    "attempts",
    metadata,
    _id("task_id", primary_key=True),
    Column("attempt", Integer, primary_key=True),
    _id("node_id", nullable=False),
    _id("worker_id", nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("start_ticks", BigInteger, nullable=False),
    Column("claimed_at", Moment, nullable=False),
    Column("started_at", Moment),
    Column("ended_at", Moment),
    Column("timeout", Float),
    Column("soft_timeout", Float),
    Column("outcome", String(10)),
    Column("reason", String(40)),
    Column("error_type", Text),
    Column("error", Text),
    Column("traceback", Text),
    Column("result", Text),
    Column("usage", Text),
    Column("proof", Text),
    Column("effects_unknown", Boolean(create_constraint=False)),
    Column("verdict", Text),
    Column("detail", Text),
    Column("traceparent", String(55)),  # its own span, where its node writes traces
    sqlite_with_rowid=False,
)

attempt_logs = Table(
    "attempt_logs",
    metadata,
    _id("task_id", primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("log_tail", Text, nullable=False),
)

checkpoints = Table(
    "checkpoints",
    metadata,
    _id("task_id", primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("value", Text, nullable=False),
    Column("at", Moment, nullable=False),
)

audit_log = Table(
    "audit_log",
    metadata,
    Column("id", _ROW_ID, primary_key=True, autoincrement=True),
    _id("task_id"),  # NULL: an act on a queue or node
    Column("attempt", Integer),
    Column("at", Moment, nullable=False),
    Column("from_state", String(10)),
    Column("to_state", String(10)),  # NULL: a note, not a move
    Column("operator", String(200), nullable=False),
    Column("reason", String(40), nullable=False),
    Column("note", Text),
    Index("audit_of_task", "task_id", "id"),
    # What people did; those who submit are left out, and so is every row of the hot path.
    _partial("audit_of_people", "id", where=BY_PEOPLE),
)

outbox = Table(
    "outbox",
    metadata,
    _id("task_id", primary_key=True),
    # The attempts that came before: a task enters PENDING at most once for each.
    Column("event_id", Integer, primary_key=True, autoincrement=False),
    Column("event_type", String(40), nullable=False),
    Column("run_after", Moment, nullable=False),
    Column("created_at", Moment, nullable=False),
    sqlite_with_rowid=False,
)

queues = Table(
    "queues",
    metadata,
    Column("queue", String(200), primary_key=True),
    Column("priority", SmallInteger, primary_key=True, autoincrement=False),
    Column("paused", Boolean(create_constraint=False), nullable=False),
    Column("by", String(200)),
    Column("reason", Text),
    Column("at", Moment, nullable=False),
    sqlite_with_rowid=False,
)

nodes = Table(
    "nodes",
    metadata,
    _id("node_id", primary_key=True),
    Column("node_name", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("start_ticks", BigInteger, nullable=False),
    Column("boot_id", Text, nullable=False),
    Column("pid_ns", BigInteger, nullable=False),
    Column("version", Text, nullable=False),
    Column("listen", Text, nullable=False),
    Column("started_at", Moment, nullable=False),
    Column("ended_at", Moment),
    Column("note", Text),
    # On a store that nodes share, by its own clock: until when this node owns what it runs.
    Column("lease_until", Moment),
    Column("renewed_at", Moment),
    Column("skew_s", Float),
    _partial("nodes_unended", "started_at", where="ended_at IS NULL"),
)

#: Which node may do what only one should at a time; the term tells one leader from the next.
leaders = Table(
    "leaders",
    metadata,
    Column("role", String(40), primary_key=True),
    _id("node_id", nullable=False),
    Column("term", BigInteger, nullable=False),
    Column("lease_until", Moment, nullable=False),
)

#: What is true of the store as a whole: `identity`, and `oldest_code`, the schema version of the
#: oldest code that may still run on these tables.
store_facts = Table(
    "store_facts",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("value", Text, nullable=False),
)

#: What nodes have said of the types they know; a row outlives its node.
task_types = Table(
    "task_types",
    metadata,
    Column("type", String(200), primary_key=True),
    Column("queue", String(200)),  # NULL: the type names none
    _id("node_id"),  # NULL: its node knows the type no more
    Column("seen_at", Moment, nullable=False),
    Column("secret_params", Text),  # names, as JSON; NULL: none, or from a node before 0005
    sqlite_with_rowid=False,
)

#: Which types each node knows now; rows go with the node.
node_types = Table(
    "node_types",
    metadata,
    _id("node_id", primary_key=True),
    Column("type", String(200), primary_key=True),
    sqlite_with_rowid=False,
)

workers = Table(
    "workers",
    metadata,
    _id("worker_id", primary_key=True),
    _id("node_id", nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("start_ticks", BigInteger, nullable=False),
    Column("started_at", Moment, nullable=False),
    Column("ended_at", Moment),
    Column("exit", Text),
    Index("workers_of_node", "node_id", "started_at"),
    Index("workers_by_start", "started_at"),
    _partial("workers_living", "started_at", where="ended_at IS NULL"),
)

autopsies = Table(
    "autopsies",
    metadata,
    _id("autopsy_id", primary_key=True),
    _id("task_id"),
    Column("attempt", Integer),
    _id("node_id", nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("path", Text, nullable=False),
    Column("status", String(20), nullable=False),
    Column("verdict", String(40)),
    Column("diagnosis", String(40)),
    Column("diagnosis_json", Text),
    Column("created_at", Moment, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("ms", Integer, nullable=False),
    Index("autopsies_of_task", "task_id", "created_at"),
    Index("autopsies_by_time", "created_at"),
)

web_users = Table(
    "web_users",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("password", Text, nullable=False),
    Column("role", String(10), nullable=False),
    Column("sees_autopsies", Boolean(create_constraint=False), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("created_by", String(200), nullable=False),
    Column("changed_at", Moment, nullable=False),
)

#: Of a session only the hash of its key is kept.
web_sessions = Table(
    "web_sessions",
    metadata,
    Column("key_hash", String(64), primary_key=True),
    Column("user_name", String(64), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("ends_at", Moment, nullable=False),
    Index("web_sessions_of_user", "user_name"),
    Index("web_sessions_by_end", "ends_at"),
)

api_tokens = Table(
    "api_tokens",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("token_hash", String(64), nullable=False),
    Column("role", String(10), nullable=False),
    Column("sees_autopsies", Boolean(create_constraint=False), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("created_by", String(200), nullable=False),
    Column("ends_at", Moment),
    Index("api_tokens_by_hash", "token_hash", unique=True),
)

#: What people ask of a node, by way of the store; a node answers each once.
node_orders = Table(
    "node_orders",
    metadata,
    _id("order_id", primary_key=True),
    _id("node_id", nullable=False),
    Column("kind", String(20), nullable=False),
    _id("task_id"),
    Column("attempt", Integer),
    Column("operator", String(200), nullable=False),
    Column("reason", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("answered_at", Moment),
    Column("answer", Text),
    _partial("node_orders_open", "node_id", "created_at", where="answered_at IS NULL"),
    Index("node_orders_of_task", "task_id", "created_at"),
    Index("node_orders_of_node", "node_id", "created_at"),
)

#: What a node saw of itself and its workers, a row every few seconds, kept for an hour.
vitals = Table(
    "vitals",
    metadata,
    _id("node_id", primary_key=True),
    Column("at", Moment, primary_key=True),
    Column("document", Text, nullable=False),
    Index("vitals_by_time", "at"),
    sqlite_with_rowid=False,
)

#: An act on all tasks of a filter: carried out in steps by one web process after the other.
bulk_acts = Table(
    "bulk_acts",
    metadata,
    _id("bulk_id", primary_key=True),
    Column("verb", String(20), nullable=False),
    Column("query", Text, nullable=False),
    Column("operator", String(200), nullable=False),
    Column("reason", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("done", BigInteger, nullable=False),
    Column("refused", BigInteger, nullable=False),
    Column("answers", Text, nullable=False),  # how many got which answer, and examples
    _id("next_id"),  # where it goes on
    Column("holder", String(64)),
    Column("held_until", Moment),
    Column("ended_at", Moment),
    Column("ended_by", String(200)),  # who stopped it before its end
    _partial("bulk_acts_open", "created_at", where="ended_at IS NULL"),
    Index("bulk_acts_by_time", "created_at"),
)

#: What Alertmanager has told; one row for each time that an alert began.
alerts = Table(
    "alerts",
    metadata,
    Column("fingerprint", String(64), primary_key=True),
    Column("starts_at", Moment, primary_key=True),
    Column("name", String(200), nullable=False),
    Column("severity", String(40), nullable=False),
    Column("labels", Text, nullable=False),
    Column("annotations", Text, nullable=False),
    Column("ends_at", Moment),
    Column("received_at", Moment, nullable=False),
    Index("alerts_by_time", "starts_at"),
    _partial("alerts_firing", "starts_at", where="ends_at IS NULL"),
    sqlite_with_rowid=False,
)
