"""The page of `kubestow ui`: a server on loopback, what it answers from, and the files it serves.

`server` speaks HTTP with the browser, `questions` says what may be asked, a source answers:
`live` asks the scheduler, `recorded` a finished run. `static` holds the page itself.
"""
