"""Tests against a real kube-apiserver, built and started by `devtools.control_plane`."""
