"""kubestow: a secondary Kubernetes scheduler. See docs/architecture.md for the layers."""
