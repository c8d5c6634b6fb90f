"""The public face of kubestow: what plugins, tests and scripts import, and the entry points.

| module | for |
|---|---|
| `kubestow.plugin`, `kubestow.cel` | plugins |
| `kubestow.testing` | tests of plugins |
| `kubestow.offline`, `kubestow.sweeps` | scripts and notebooks |
| `kubestow.command`, `kubestow.pytest_plugin` | the command, and the fixture `cluster` |

All but the last row only hand on names of the packages behind them. Those have common names, and
whoever has a `scheduler` folder or a `config.py` of their own may have it earlier on the path. So
nothing here imports them before `kubestow.packages` has looked whose they are.
"""
