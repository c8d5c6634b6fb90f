"""The integration table of requeueing (queue-and-events.md 9.9), as data and replayed."""
