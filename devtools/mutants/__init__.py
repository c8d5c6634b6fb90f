"""Mutation testing: do the tests notice small faults in the product?

- `mutating` finds the places where a fault can be made, and draws some of them
- `marking` writes calls of `hits` beside these places, to find the tests that reach each of them
- `plugin` runs chosen tests within time limits, inside the pytest of a mutant
- `running` runs the tests on copies of the tree
- `__main__` is the command
"""
