"""`python -m scheduler` is `kubestow`."""

import sys
from pathlib import Path

# `-m` puts the working directory first on the path; a folder called `plugins` or `config` there
# would be imported in place of ours.
if not sys.flags.safe_path and Path(sys.path[0]).resolve() != Path(__file__).resolve().parents[1]:
    del sys.path[0]

from scheduler.cli.main import main

if __name__ == "__main__":
    main()
