"""Two replicas on a real control plane under random faults, checked by the audit log.

    python -m benchmarks.robustness --rounds 300

Each round creates pods, lets a random fault happen meanwhile (processes killed or stopped, the API
server or etcd restarted or stopped, connections stalled or reset, a wall clock set forward or back)
and, once the fault has ended, waits until every pod is bound. The API server's audit log and its
objects then say whether a pod was bound twice, a node filled beyond its capacity, a pod lost, or
anything written by a replica that no longer held the Lease.
"""
