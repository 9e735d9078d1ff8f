"""What the databases know about the patient: PostgreSQL, Redis and SQLite, asked from outside."""
