"""Prints a line whenever the health of an interface of a running node changes, until Ctrl-C.

    python watch_health.py [SOCKET]
"""

import re
import sys
import time

import finerail

control = finerail.Control(sys.argv[1] if len(sys.argv) > 1 else None)
before = {}
try:
    while True:
        shown = control.show("net")
        pairs = re.findall(r"-\s+nid: (\S+).*?health value: (\d+)", shown, re.DOTALL)
        now = {nid: int(health) for nid, health in pairs}
        for nid, health in now.items():
            if before.get(nid) != health:
                print(f"{time.strftime('%H:%M:%S')} {nid} {health}", flush=True)
        before = now
        time.sleep(1)
except KeyboardInterrupt:
    pass
