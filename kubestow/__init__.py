"""The entry points of kubestow: the command, and the pytest plugin.

Both must start beside other people's code. The packages behind them have common names, and whoever
has a `scheduler` folder or a `config.py` of their own may have it earlier on the path. So nothing
here imports those packages before `kubestow.packages` has looked whose they are.
"""
