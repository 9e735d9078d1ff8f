"""The parent: one supervisor process per host, the sole owner of its workers."""
