"""Counts the messages of a capture by sender and type.

    python count_messages.py CAPTURE.pcap
"""

import sys
from collections import Counter

import finerail

counts = Counter(
    (message["src_nid"], message["what"])
    for message in finerail.capture(sys.argv[1])
    if message["what"] in ("PUT", "GET", "REPLY", "ACK")
)
for (nid, what), count in sorted(counts.items()):
    print(f"{nid:24} {what:6} {count:8}")
