"""Entry point of the warden. The agent runs this file by path under `-I -S`, so that little is loaded."""

# The warden goes without pathlib, a quarter of its start-up.
# ruff: noqa: PTH100, PTH120

import os
import sys

if __name__ == "__main__":
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from dcron.warden.main import main

    main(sys.argv[1:])
