"""DIAGNOSIS blocked.db_query: SQLAlchemy runs a server-side procedure (DO … loop) that does not
end.
"""

import psycopg
import sqlalchemy as sa
from _stage import postgresql_dsn, ready

e = sa.create_engine(
    "postgresql+psycopg://",
    creator=lambda: psycopg.connect(
        postgresql_dsn(), application_name="etl", options="-c client_connection_check_interval=500"
    ),
)


def refresh():
    with e.connect() as c:
        c.execute(
            sa.text(
                "do $$ begin loop perform count(*) from pg_class;"
                " perform pg_sleep(0.02); end loop; end $$"
            )
        )


ready()
refresh()
