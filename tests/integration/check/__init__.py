"""Tests of `kubestow check` against an embedded API server."""
