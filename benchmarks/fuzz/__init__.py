"""Random worlds on a real API server: every decision of kube-scheduler held against ours.

`worlds` and `pods` draw; `proxy` listens to kube-scheduler and lets none of its writes through;
`kube_scheduler` runs it and reads its decisions from its log; `comparing` compares them with ours.
"""
