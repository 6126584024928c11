"""``python -m eupg`` is ``eupg``."""

import sys

from eupg.cli.main import main

sys.exit(main())
