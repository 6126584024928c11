"""``python -m eupg_reproduction``."""

import sys

from eupg_reproduction.cli import main

if __name__ == "__main__":
    sys.exit(main())
