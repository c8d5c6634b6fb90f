"""Random worlds on a real API server: every decision of kube-scheduler held against ours.

`worlds` and `pods` draw; `proxy` listens to kube-scheduler and lets none of its writes through;
`rival` runs it and reads its mind from its log; `comparing` sets its decision beside ours.
"""
