"""The store: where tasks, attempts and their audit are kept. The row is the truth.

`open_store` opens it, `Ledger` is its only writer, `Reader` is what people look through.
"""

from supervisor.store.engine import Store, open_store
from supervisor.store.ledger import Ledger, Transaction

__all__ = ["Ledger", "Store", "Transaction", "open_store"]
