import os  # the first line
import subprocess
import sys


def say(what):
    os.write(1, f"{what} {os.environ.get('RANK')}\n".encode())  # whole: others write there too


say("runs")
if len(sys.argv) == 1:  # what a rank starts does not wait
    subprocess.run([sys.executable, __file__, "child"], check=True)
say("ends")
