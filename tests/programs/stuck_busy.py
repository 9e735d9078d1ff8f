"""The main thread counts for ever and gives nothing back."""


def count() -> None:
    number = 0
    print("ready", flush=True)
    while True:
        number += 1
        if number > 1_000_000:
            number = 0


count()
