"""`python -m scheduler` is `kubestow`."""

from scheduler.cli import main

if __name__ == "__main__":
    main()
