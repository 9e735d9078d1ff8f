#!/bin/sh
# Run once by the postgres image, on an empty volume: the database of the tasks and the role that
# nodes and programs use. The role is no superuser: a task knows the address of the store.
set -eu
psql --no-psqlrc --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres <<'SQL'
\getenv password SUPERVISOR_DB_PASSWORD
CREATE ROLE supervisor LOGIN PASSWORD :'password';
CREATE DATABASE supervisor OWNER supervisor;
REVOKE CONNECT, TEMPORARY ON DATABASE supervisor FROM PUBLIC;
SQL
