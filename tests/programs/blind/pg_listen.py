"""DIAGNOSIS none.idle|blocked.external: LISTEN: a worker that waits for NOTIFY, the backend is
idle; nothing is wrong with it.
"""

import psycopg
from _stage import postgresql_dsn, ready

c = psycopg.connect(postgresql_dsn(), application_name="listener", autocommit=True)
c.execute("listen jobs")
ready()
for n in c.notifies():
    print(n)
