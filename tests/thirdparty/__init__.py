"""kubestow beside third-party controllers, each built from its published Go module.

Kueue, Karpenter, the descheduler and kwok run as they are, with their custom resource definitions,
webhooks and RBAC, against the real control plane of `tests.envtest`.
"""
