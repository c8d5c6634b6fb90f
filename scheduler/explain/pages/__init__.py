"""The pages of the HTTPS server that explain: queue, pods, nodes, gangs, decisions, what-if."""
