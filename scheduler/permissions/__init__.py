"""The permissions that the configuration needs, which of them are missing, and what follows.

`declarations` lists the permissions, `rbac` prints them as rules, `state` keeps what is missing,
`reviewer` asks the API server.
"""
