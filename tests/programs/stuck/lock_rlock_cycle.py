"""DIAGNOSIS deadlock.in_process: two documents are linked to each other, each locks itself."""

import threading
import time

from _stage import ready


class Document:
    def __init__(self) -> None:
        self.guard = threading.RLock()
        self.linked: list[Document] = []

    def link(self, other: "Document") -> None:
        with self.guard:
            self.touch()
            time.sleep(0.2)
            other.touch()
            self.linked.append(other)

    def touch(self) -> None:
        with self.guard:
            self.changed = True


contract, invoice = Document(), Document()
editors = [
    threading.Thread(target=contract.link, args=(invoice,), name="editor-contract"),
    threading.Thread(target=invoice.link, args=(contract,), name="editor-invoice"),
]
for editor in editors:
    editor.start()
time.sleep(0.4)
ready()
for editor in editors:
    editor.join()
