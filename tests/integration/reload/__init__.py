"""The running scheduler takes over changed files, on the embedded server."""
