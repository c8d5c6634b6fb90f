"""The running process: wiring, event handlers, scheduling loop, binding cycles, endpoints."""
