"""Run `dcron` with a screen that waits for answers as long as a busy machine needs: nothing typed expires."""

from dcron.__main__ import main
from dcron.tui import host
from dcron.tui.keys import input_queue
from tests.support.patience import PATIENCE

if __name__ == "__main__":
    input_queue.LONGEST = PATIENCE
    host.EXPIRY = PATIENCE
    main()
