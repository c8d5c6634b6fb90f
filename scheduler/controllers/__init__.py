"""Controllers that run beside scheduling and write what they maintain to the API server."""
