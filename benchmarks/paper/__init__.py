"""`make paper TRACES=FOLDER`: the tables and curves of the FGD paper, by the plugins of an example.

Weng et al., Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent (USENIX ATC 2023). docs/paper.md describes the experiment and its results.
"""
