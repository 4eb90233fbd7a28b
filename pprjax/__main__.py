"""`python -m pprjax`: the same as `pprjax`."""

import sys

from pprjax.cli import main

sys.exit(main())
