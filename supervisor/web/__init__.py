"""The pages and the HTTP API that people meet the supervisor in, a process of its own."""
