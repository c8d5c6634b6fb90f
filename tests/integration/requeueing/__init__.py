"""The table of upstream's queue integration tests (queueing hints), as data and replayed."""
