"""Coverage-guided fuzzing of everything that reads untrusted bytes (atheris, libFuzzer).

    make fuzz SECONDS=600                      # every target for its share of the time
    python -m tests.fuzzing --target http      # one target

`targets` has a function for each kind of input, which handles only the errors that callers expect.
`corpus/TARGET` holds inputs that each reached new code; `test_corpus` replays them in `make test`,
without atheris.
"""
