"""DIAGNOSIS none.progressing: healthy; six threads queue for one lock, and each gets its turn."""

import threading
import time

from _stage import ready


class Till:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.served = 0

    def serve(self) -> None:
        while True:
            with self.lock:
                time.sleep(0.004)
                self.served += 1


till = Till()
queue = [threading.Thread(target=till.serve, name=f"customer-{number}") for number in range(6)]
for customer in queue:
    customer.start()
time.sleep(0.2)
ready()
for customer in queue:
    customer.join()
