"""Tests against a real kube-apiserver, built and started by `testing.control_plane`."""
