"""What agent and worker say to each other: the layouts of worker_protocol.h."""

import socket
import struct
import time

RUN, CREDIT, STOP, DROP, INSTANCE_INFO = 1, 2, 3, 4, 5
HELLO, RESULT, ITEM, OUTCOME = 16, 17, 18, 20
OK, RAISED, CANCELLED = 0, 1, 2
SOCKET, CANCEL_PIPE, SHARED, BELL = 3, 4, 5, 6
LEAVES = 117  # kWorkerLeavesCode
WITHDRAW_BIT, NOTICE_BIT = 1 << 63, 1 << 62
BEHIND_BIT, RING_BIT, GROUP_BIT = 1, 2, 4
BLOB_THRESHOLD = 64 << 10  # kBlobThresholdBytes: results of this size travel in shared memory
SMALL_BUFFER = 4 << 10  # buffers below stay inline even then
MOST_BUFFERS = 65536  # kMaxBuffers: of one message, the stream among them
RECEIVE_BYTES = 64 << 10  # malloc keeps memory of this size; more would be mapped again each time
SMALL_OUTCOME = 2032  # of a call within a group: what fits the ring, with its head
FINISHED = 512  # several windows: this process never holds more tasks
MAX_DESCRIPTORS = 253  # kernel limit of one message

HEAD = struct.Struct("<IBBHQ")  # length, kind, status, descriptors, task
RUN_HEAD = struct.Struct("<IBBHQ16sIII")  # ... function, body bytes, stream window, buffers
ONE_RUN = struct.Struct("<IBBHQ16sIIIQQQiI")  # the same with the entry of its first buffer
ENTRY = struct.Struct("<QQQiI")  # size, offset, blob, descriptor index, 0
ANSWER_HEAD = struct.Struct("<IBBHQQII")  # ... run ns, buffers, retained
SMALL_ANSWER = struct.Struct("<IBBHQQIIQQQiI")  # the same with one inline buffer
ELSEWHERE = HEAD.pack(12, 19, OK, 0, 0)
U64 = struct.Struct("<Q")
U32 = struct.Struct("<I")

clock = time.perf_counter_ns
ANCILLARY_BYTES = socket.CMSG_LEN(MAX_DESCRIPTORS * 4)


class Incoming:
    """A run message as it came; nothing of the user's is unpickled yet."""

    __slots__ = (
        "behind",
        "body",
        "buffers",
        "descriptors",
        "function",
        "group",
        "ring",
        "task",
        "window",
    )
