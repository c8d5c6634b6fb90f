"""A shadow beside kube-scheduler on a real control plane: agreement, writes and cost."""
