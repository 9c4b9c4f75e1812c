"""Run `dcron` with a screen that waits for answers as long as a busy machine needs: nothing typed expires."""

from dcron.__main__ import main
from dcron.tui.keys import input_queue
from dcron.tui.reads import requests
from tests.support.patience import PATIENCE

if __name__ == "__main__":
    input_queue.LONGEST = PATIENCE
    requests.EXPIRY = PATIENCE
    main()
