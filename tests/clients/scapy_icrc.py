"""Has scapy build each packet of a capture again, with an invariant CRC of its own."""

import sys

from scapy.contrib.roce import BTH
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapReader

count = agreeing = 0
for frame, _ in RawPcapReader(sys.argv[1]):
    packet = Ether(frame)
    # None means that it is computed when the packet is built.
    packet[BTH].icrc = None
    count += 1
    if bytes(packet) == frame:
        agreeing += 1
    else:
        packet.show()
print(f"{agreeing} of {count} packets agree")
