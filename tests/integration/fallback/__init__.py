"""KEP-3990 through the service, on an embedded cluster over HTTP, with a clock that steps."""
