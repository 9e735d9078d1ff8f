"""A program that waits in PostgreSQL in a statement with a secret, and talks to Redis."""

from __future__ import annotations

import os

import psycopg
import redis

# Not in one piece in the source, whose lines are shown.
value = "c4n" + "4ry"
client = redis.Redis.from_url(os.environ["CANARY_REDIS_URL"])
client.set("canary-lock", "worker-7", ex=60)
connection = psycopg.connect(os.environ["CANARY_DATABASE_URL"], application_name="canary")
print("ready", flush=True)
try:
    connection.execute(f"SELECT '{value}-literal' /* {value}-comment */ FROM pg_sleep(60)")
finally:
    connection.close()
    client.close()
