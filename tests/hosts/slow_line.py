"""A line with latency and loss, in user space: works on kernels that cannot shape traffic.

Runs inside the router's network namespace (``slow_line.py MILLISECONDS LOSS_PER_CENT DEVICE…``):
packets that come from these devices are led into a tun device, held here for a while or dropped,
and put back through a second one, from where the router sends them on."""

import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 1, 0x1000
PACKET_BYTES = 2048


def open_tun(name: str) -> int:
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
    subprocess.run(["ip", "link", "set", name, "up", "txqueuelen", "5000"], check=True)
    return descriptor


def main() -> None:
    delay, loss = float(sys.argv[1]) / 1000, float(sys.argv[2]) / 100
    dice = random.Random(1)
    come, go = open_tun("come"), open_tun("go")
    subprocess.run(["ip", "route", "add", "default", "dev", "come", "table", "77"], check=True)
    for device in sys.argv[3:]:
        rule = ["ip", "rule", "add", "iif", device, "lookup", "77", "priority", "50"]
        subprocess.run(rule, check=True)
    print("ready", flush=True)
    held: list[tuple[float, int, bytes]] = []
    number = 0
    while True:
        wait = max(0.0, held[0][0] - time.monotonic()) if held else None
        readable, _, _ = select.select([come], [], [], wait)
        now = time.monotonic()
        for _ in range(256 if readable else 0):
            try:
                packet = os.read(come, PACKET_BYTES)
            except BlockingIOError:
                break
            if dice.random() >= loss:
                number += 1
                heapq.heappush(held, (now + delay, number, packet))
        while held and held[0][0] <= now:
            try:
                os.write(go, heapq.heappop(held)[2])
            except OSError:  # as a full queue of a real line: the packet is lost
                pass


main()
