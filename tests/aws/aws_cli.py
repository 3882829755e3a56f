"""A stand-in for the AWS CLI and its Session Manager plugin: carries an SSH connection to a machine
of the emulated cloud, as `aws ssm start-session` does. Installed as `aws` by test_sessions.py, and
run by ssh with the driver's environment.

Stricter than the real ones: one command line is right, and no other. It asks the cloud for the
machine with the credentials and the address that it finds as the real one does, and writes a line
for each session into the file `sessions` beside itself. The first session of a machine is refused,
as its agent has not reported yet.
"""

import os
import shutil
import socket
import sys
import threading
from pathlib import Path

import boto3
from botocore.exceptions import ClientError

HERE = Path(__file__).resolve().parent
SSH_PORT = 22


def command_line(target: str, region: str) -> list[str]:
    words = ["ssm", "start-session", "--target", target]
    words += ["--document-name", "AWS-StartSSHSession", "--parameters", f"portNumber={SSH_PORT}"]
    return [*words, "--region", region]


def refuse(why: str) -> None:
    print(f"\n{why}", file=sys.stderr)
    sys.exit(254)


def copy(read: "socket.socket | int", write: "socket.socket | int") -> None:
    while True:
        data = os.read(read, 65536) if isinstance(read, int) else read.recv(65536)
        if not data:
            break
        if isinstance(write, int):
            while data:
                data = data[os.write(write, data) :]
        else:
            write.sendall(data)
    if not isinstance(write, int):
        write.shutdown(socket.SHUT_WR)


def main() -> None:
    words = sys.argv[1:]
    target, region = (words[3], words[9]) if len(words) == 10 else ("", "")
    if words != command_line(target, region) or not target.startswith("i-"):
        refuse(f"Unknown options: {words}")
    if shutil.which("session-manager-plugin") is None:
        refuse("SessionManagerPlugin is not found.")
    with (HERE / "sessions").open("a") as file:
        file.write(f"{target} {region}\n")
    if (HERE / "denied").exists():
        refuse(
            "An error occurred (AccessDeniedException) when calling the StartSession operation: "
            "nobody may"
        )
    if (HERE / "sessions").read_text().splitlines().count(f"{target} {region}") == 1:
        refuse(
            "An error occurred (TargetNotConnected) when calling the StartSession operation: "
            f"{target} is not connected."
        )
    try:
        told = boto3.client("ec2", region_name=region).describe_instances(InstanceIds=[target])
    except ClientError as error:
        refuse(str(error))
    machine = told["Reservations"][0]["Instances"][0]
    connection = socket.create_connection((machine["PrivateIpAddress"], SSH_PORT), timeout=10)
    connection.settimeout(None)
    threading.Thread(target=copy, args=(0, connection), daemon=True).start()
    copy(connection, 1)


main()
