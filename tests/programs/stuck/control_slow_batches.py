"""DIAGNOSIS none.progressing: healthy but slow; one batch after another, with a pause between."""

import hashlib
import time
import zlib

from _stage import ready


def fingerprint(batch: int) -> str:
    rows = [f"{batch}/{row}".encode() * 50 for row in range(400)]
    packed = zlib.compress(b"\n".join(rows), 9)
    return hashlib.scrypt(packed[:64], salt=b"s", n=4096, r=8, p=1).hex()


def main() -> None:
    batch = 0
    ready()
    while True:
        fingerprint(batch)
        batch += 1
        time.sleep(0.015)


main()
