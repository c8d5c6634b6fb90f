"""`python -m kubestow` is `kubestow`."""

from kubestow.command import main

if __name__ == "__main__":
    main()
