"""The bridge from autoscalers' events to the pod condition NodeProvisioningInProgress.

`Decisions` is pure and plans patches; `NodeProvisioningBridge` watches and writes. See KEP-3990 and
docs/node-provisioning-bridge.md.
"""
