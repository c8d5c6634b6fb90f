"""Controllers of the simulated cluster: what kubelets and the controller manager would do.

Each decides in plain synchronous code from what it has seen and the time it is given; `runner` is
the only module here that knows asyncio.
"""
