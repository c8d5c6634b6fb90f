"""The functions of CEL and of its extension libraries that Kubernetes offers to expressions."""
