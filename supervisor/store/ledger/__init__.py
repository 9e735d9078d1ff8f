"""Every write to the store, as verbs: the state and its audit row in one transaction, or nothing.

Secret kept here: in which order rows are written. Invariants: no move outside the transition table;
an attempt ends once; whoever lost a race gets an ordinary answer; this package is the sole writer.
A node groups many verbs in one `transaction()`; clients use one for each act.
"""

from supervisor.store.ledger.submit import new_task_id
from supervisor.store.ledger.transaction import Ledger, Look, Transaction

__all__ = ["Ledger", "Look", "Transaction", "new_task_id"]
