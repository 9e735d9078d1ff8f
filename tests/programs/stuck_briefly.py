"""Looks stuck until its standard input is closed, then exits with code 3."""

import sys

print("ready", flush=True)
sys.stdin.read()
sys.exit(3)
