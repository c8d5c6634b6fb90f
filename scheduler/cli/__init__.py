"""The command line, top of the stack: `kubestow`, `kube-scheduler`, `python -m scheduler`."""
