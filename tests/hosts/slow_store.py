"""A file system (FUSE) that is empty, and whose store takes a while: what was written is there only
`seconds` after the unmount, when the file `noted` appears.

    python3 slow_store.py place noted seconds [user]

With a user's number, nobody but that user may look into it, not even root.
"""

import ctypes
import errno
import os
import struct
import sys
import time

INIT, GETATTR, STATFS, FORGET, INTERRUPT, DESTROY = 26, 3, 17, 2, 36, 38
HEADER = struct.Struct("<IIQ")  # of a request: size, kind, number
ANSWER = struct.Struct("<IiQ")
DIRECTORY = 0o40755

place, noted, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
libc = ctypes.CDLL(None, use_errno=True)
device = os.open("/dev/fuse", os.O_RDWR)
user = sys.argv[4] if len(sys.argv) > 4 else ""
whose = f"user_id={user},group_id={user}" if user else "user_id=0,group_id=0,allow_other"
options = f"fd={device},rootmode=40000,{whose}"
if libc.mount(b"slow", place.encode(), b"fuse.slow", 0, options.encode()) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))


def answer(number: int, body: bytes = b"", error: int = 0) -> None:
    os.write(device, ANSWER.pack(ANSWER.size + len(body), -error, number) + body)


while True:
    try:
        request = os.read(device, 1 << 20)
    except OSError as gone:
        assert gone.errno == errno.ENODEV, gone
        break
    _, kind, number = HEADER.unpack_from(request)
    if kind == INIT:  # version 7.31, and nothing beyond it
        answer(number, struct.pack("<IIII HH II HH 7I", 7, 31, 0, 0, 8, 6, 4096, 1, 1, 0, *[0] * 7))
    elif kind == GETATTR:
        attributes = struct.pack(
            "<6Q 10I", 1, 0, 0, 0, 0, 0, 0, 0, 0, DIRECTORY, 2, 0, 0, 0, 4096, 0
        )
        answer(number, struct.pack("<QII", 0, 0, 0) + attributes)
    elif kind not in (FORGET, INTERRUPT):
        answer(number, error=errno.ENOSYS)
    if kind == DESTROY:
        break
time.sleep(seconds)  # on a worker's machine: on its way to the store
with open(noted, "w") as file:
    file.write("stored")
