"""kubestow: a secondary Kubernetes scheduler. See DESIGN in docs/architecture.md for the layers."""
