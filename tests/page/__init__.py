"""The page of `kubestow ui` in a real Chromium (`make page`)."""
