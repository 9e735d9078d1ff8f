"""The store: where tasks, attempts and their audit are kept. The row is the truth.

`open_store` opens it, `Ledger` is its only writer, `Reader` is what people look through.
"""

from supervisor.store.engine import Store, is_present, open_store
from supervisor.store.ledger import Ledger, Look, Transaction, new_task_id
from supervisor.store.reader import Reader
from supervisor.store.record import AutopsyRecord, Orphan, WorkerRecord
from supervisor.store.sqlite import store_path
from supervisor.store.view import HistoryLine, TaskFilter, TaskLine, TaskPage, TaskView

__all__ = [
    "AutopsyRecord",
    "HistoryLine",
    "Ledger",
    "Look",
    "Orphan",
    "Reader",
    "Store",
    "TaskFilter",
    "TaskLine",
    "TaskPage",
    "TaskView",
    "Transaction",
    "WorkerRecord",
    "is_present",
    "new_task_id",
    "open_store",
    "store_path",
]
