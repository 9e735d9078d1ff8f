"""The child: one OS process that runs one attempt at a time. Imports neither store nor web."""
