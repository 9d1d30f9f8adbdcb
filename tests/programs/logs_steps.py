"""A rank that takes a step every 50 ms, and logs each."""

import logging
import time

logging.basicConfig(format="%(asctime)s - %(levelname)s - %(message)s", level="INFO")
step = 0
while True:
    step += 1
    logging.info("step %d loss 0.25", step)
    time.sleep(0.05)
