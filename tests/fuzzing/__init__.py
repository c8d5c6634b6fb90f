"""Coverage-guided fuzzing of everything that reads bytes of others (atheris, libFuzzer).

    make fuzz SECONDS=600                      # every target for its share of the time
    python -m tests.fuzzing --target http      # one target

`targets` has a function for each kind of input, which lets only the errors through that callers
expect. `corpus/TARGET` holds inputs that reached code of their own; `test_corpus` replays them in
`make test`, without atheris.
"""
