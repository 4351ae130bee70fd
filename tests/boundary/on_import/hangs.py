"""A module that does not finish importing."""

import time

for _ in range(1200):  # not one long sleep: in a thread it cannot be interrupted
    time.sleep(0.05)
