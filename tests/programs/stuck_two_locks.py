"""Two threads take two locks in opposite order; the main thread waits for them."""

import threading

first, second = threading.Lock(), threading.Lock()
both_hold_one = threading.Barrier(3)


def move(held: threading.Lock, wanted: threading.Lock) -> None:
    with held:
        both_hold_one.wait()
        with wanted:
            print("never printed")


threads = [
    threading.Thread(target=move, args=pair, name=f"move-{number}")
    for number, pair in enumerate(((first, second), (second, first)))
]
for thread in threads:
    thread.start()
both_hold_one.wait()
print("ready", flush=True)
for thread in threads:
    thread.join()
