"""Amazon's services on loopback: moto's server, in this very process, made stricter where the real
ones are, and with dials for what goes wrong.

What is added to moto: client tokens that are honoured, the parameters of the images that pools
start from, a price list, the service that tells a caller its address. Signatures and permissions
are checked by moto itself.
"""

import contextlib
import io
import json
import logging
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs

# Three calls without credentials: they make the user that all others need.
os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = "3"
os.environ["MOTO_ENABLE_AMI_VALIDATION"] = "1"
os.environ["MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION"] = "1"

import boto3
from machines import Machines
from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2 import ec2_backends
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.instances import InstanceBackend
from moto.iam import iam_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.ssm import ssm_backends
from moto.ssm.models import Parameter
from werkzeug.serving import make_server

REGION = "us-east-1"
IMAGE_NAMES = (
    "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id",
    "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id",
)
ON_DEMAND = {"c5.large": 0.085, "m5.large": 0.096, "p4d.24xlarge": 21.957642, "t3.small": 0.0208}
ADDRESS = 0.005  # of each public address, beside them
SPOT = {"m5.large": 0.0384, "p4d.24xlarge": 6.5873}
OTHER_SPOT = 9.0


def documented_rights() -> list[str]:
    """The rights of the policy that docs/guide/aws.md says is enough. Its conditions and resources
    are left out: moto knows neither the tags of a thing nor `ec2:CreateAction`."""
    page = (Path(__file__).parents[2] / "docs/guide/aws.md").read_text()
    policy = json.loads(page.split("```json\n")[1].split("```")[0])
    return sorted({right for statement in policy["Statement"] for right in statement["Action"]})


ALLOWED = documented_rights()

Start = Callable[[str, list[tuple[str, str]]], Any]


@dataclass
class Request:
    service: str
    action: str
    parameters: dict[str, str]
    region: str = ""


@dataclass
class Faults:
    """What goes wrong. Each is asked for every request, in this order."""

    # A refusal in the services' own form: (code, status), or None.
    refuse: Callable[[Request], tuple[str, int] | None] = lambda request: None
    # The request is carried out, and its reply lost.
    lose_reply: Callable[[Request], bool] = lambda request: False
    # Called before and after each request.
    before: Callable[[Request], None] = lambda request: None
    after: Callable[[Request], None] = lambda request: None
    # The address that callers are said to have; empty: the one that they have.
    caller: str = ""


@dataclass
class Place:
    """Where the programs run that use the cloud, and how they reach it from there."""

    url: str
    prefix: list[str] = field(default_factory=list)  # what their command lines begin with


class Computers(Protocol):
    """What machines are made of: called with the emulator's lock held."""

    directory: Path

    def start(self, instance: Any) -> None: ...
    def stop(self, instance_id: str) -> None: ...
    def stop_all(self) -> None: ...


@dataclass
class Cloud:
    url: str
    keys: dict[str, str]
    machines: Machines
    place: Place
    front: "Front" = field(repr=False)
    computers: Computers
    requests: list[Request] = field(default_factory=list)
    faults: Faults = field(default_factory=Faults)
    _looker: dict[str, str] = field(default_factory=dict)

    @property
    def cache(self) -> Path:
        return self.machines.directory / "cache"

    def counts(self) -> Counter[str]:
        return Counter(request.action for request in self.requests)

    def environment(self, home: Path) -> dict[str, str]:
        """For a program that shall see this cloud and nothing else of Amazon's."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            **self.keys,
            "AWS_ENDPOINT_URL": self.place.url,
            "AWS_ENDPOINT_URL_CHECKIP": self.place.url + "/checkip",
            "AWS_EC2_METADATA_DISABLED": "true",
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            # What is for sale is asked for once; a test of that has a cache of its own.
            "XDG_CACHE_HOME": str(self.cache),
        }

    def client(self, service: str, region: str = REGION) -> Any:
        """For the test's own looks: of somebody who may do anything."""
        self._looker = self._looker or self.user("looks", ["*"])
        return boto3.client(
            service,
            region_name=region,
            endpoint_url=self.url,
            aws_access_key_id=self._looker["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self._looker["AWS_SECRET_ACCESS_KEY"],
        )

    def user(self, name: str, allowed: list[str]) -> dict[str, str]:
        """Another one, who may do that and nothing else."""
        users = iam_backends[DEFAULT_ACCOUNT_ID]["aws"]
        users.create_user("us-east-1", name)
        users.put_user_policy(name, "p", policy_of(allowed))
        key = users.create_access_key(name)
        return {
            "AWS_ACCESS_KEY_ID": key.access_key_id,
            "AWS_SECRET_ACCESS_KEY": key.secret_access_key,
        }

    def backend(self, region: str = REGION) -> Any:
        return ec2_backends[DEFAULT_ACCOUNT_ID][region]

    def standing(self, region: str = REGION) -> list[Any]:
        """Machines that cost something."""
        return [
            instance
            for reservation in self.backend(region).reservations.values()
            for instance in reservation.instances
            if instance.state not in ("terminated", "shutting-down")
        ]

    def groups(self, region: str = REGION) -> list[Any]:
        return [
            group
            for groups in self.backend(region).groups.values()
            for group in groups.values()
            if group.name.startswith("skyward")
        ]

    def volumes(self, region: str = REGION) -> list[Any]:
        return list(self.backend(region).volumes.values())

    def leftovers(self, region: str = REGION) -> dict[str, int]:
        return {
            "instances": len(self.standing(region)),
            "groups": len(self.groups(region)),
            "volumes": len(self.volumes(region)),
        }

    def reset(self) -> None:
        self.computers.stop_all()
        for backend in (self.backend(REGION), self.backend("us-west-2")):
            backend.reset()
        self.requests.clear()
        self.faults = Faults()


def price_list(wanted: dict[str, Any]) -> dict[str, Any]:
    """What GetProducts answers: texts in the text."""
    filters = {one["Field"]: one["Value"] for one in wanted.get("Filters", [])}
    region = filters.get("regionCode", REGION)
    scale = 1.0 if region == REGION else 1.1
    rows = [
        {
            "product": {"attributes": {"instanceType": name, "regionCode": region}},
            "terms": {
                "OnDemand": {
                    "A": {
                        "priceDimensions": {
                            "B": {"pricePerUnit": {"USD": f"{price * scale:.10f}"}, "unit": "Hrs"}
                        }
                    }
                }
            },
        }
        for name, price in ON_DEMAND.items()
        if filters.get("productFamily") == "Compute Instance"
    ]
    return {"FormatVersion": "aws_v1", "PriceList": [json.dumps(row) for row in rows]}


def with_spot_prices(reply: bytes) -> bytes:
    """For moto every spot machine costs next to nothing. The length of the reply stays."""

    def priced(item: re.Match[str]) -> str:
        price = SPOT.get(item["type"], OTHER_SPOT)
        return item[0].replace("<spotPrice>0.00001", f"<spotPrice>{price:.5f}")

    one = r"<item>(?:(?!</item>).)*<instanceType>(?P<type>[^<]*)<(?:(?!</item>).)*</item>"
    return re.sub(one, priced, reply.decode(), flags=re.DOTALL).encode()


class Front:
    """Stands before moto's application: answers what moto does not have, and plays the faults."""

    def __init__(self) -> None:
        self.moto = DomainDispatcherApplication(create_backend_app)
        self.cloud: Cloud | None = None
        self.lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start: Start) -> Any:
        request = self.read(environ)
        cloud = self.cloud
        if cloud is None:
            return self.moto(environ, start)
        with self.lock:
            cloud.requests.append(request)
            faults = cloud.faults
            faults.before(request)
            refused = faults.refuse(request)
            if refused is not None:
                return self.refuse(*refused, start)
            if not faults.lose_reply(request):
                reply = self.answer(request, environ, start)
                faults.after(request)
                return reply
            self.answer(request, environ, lambda status, headers, *rest: None)
            faults.after(request)
        start("502 Bad Gateway", [("Content-Type", "text/plain")])
        return [b""]

    def answer(self, request: Request, environ: dict[str, Any], start: Any) -> list[bytes]:
        if request.service == "checkip":
            start("200 OK", [("Content-Type", "text/plain")])
            told = self.cloud.faults.caller if self.cloud else ""
            return [(told or environ["REMOTE_ADDR"]).encode() + b"\n"]
        if request.service == "pricing":
            start("200 OK", [("Content-Type", "application/x-amz-json-1.1")])
            return [json.dumps(price_list(request.parameters)).encode()]
        reply = list(self.moto(environ, start))
        if request.action == "DescribeSpotPriceHistory":
            reply = [with_spot_prices(b"".join(reply))]
        return reply

    @staticmethod
    def refuse(code: str, status: int, start: Start) -> list[bytes]:
        start(f"{status} Refused", [("Content-Type", "text/xml")])
        return [
            (
                f"<Response><Errors><Error><Code>{code}</Code><Message>for the test</Message>"
                "</Error></Errors><RequestID>r-1</RequestID></Response>"
            ).encode()
        ]

    @classmethod
    def read(cls, environ: dict[str, Any]) -> Request:
        request = cls.read_parameters(environ)
        scope = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].split("/")
        request.region = scope[2] if len(scope) > 2 else ""
        return request

    @staticmethod
    def read_parameters(environ: dict[str, Any]) -> Request:
        if environ["PATH_INFO"].startswith("/checkip"):
            return Request("checkip", "CheckIp", {})
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        target = environ.get("HTTP_X_AMZ_TARGET", "")
        if target:
            service, action = target.split(".")
            names = {"AmazonSSM": "ssm", "AWSPriceListService": "pricing"}
            return Request(names.get(service, service), action, json.loads(body))
        form = {name: values[0] for name, values in parse_qs(body.decode(errors="replace")).items()}
        return Request("query", form.get("Action", environ["PATH_INFO"]), form)


def honour_client_tokens(cloud: Cloud) -> Callable[[], None]:
    """The same token gives the same machines; a machine that starts is given something to run on.
    Returns what undoes it."""
    plain = InstanceBackend.run_instances
    ended = InstanceBackend.terminate_instances

    def run_instances(self: Any, image_id: str, count: int, *rest: Any, **kwargs: Any) -> Any:
        token = kwargs.get("client_token")
        for reservation in self.reservations.values():
            if token and any(one.client_token == token for one in reservation.instances):
                if reservation.instances[0].instance_type != kwargs.get("instance_type"):
                    raise EC2ClientError("IdempotentParameterMismatch", "another request")
                return reservation
        reservation = plain(self, image_id, count, *rest, **kwargs)
        for instance in reservation.instances:
            cloud.computers.start(instance)
        return reservation

    def terminate_instances(self: Any, instance_ids: list[str]) -> Any:
        for instance_id in instance_ids:
            cloud.computers.stop(instance_id)
        # Amazon ends a machine twice without a word.
        all_of_them = self.get_multi_instances_by_id(instance_ids)
        gone = [one for one in all_of_them if one.state == "terminated"]
        standing = [one.id for one in all_of_them if one not in gone]
        return (ended(self, standing) if standing else []) + [(one, one._state) for one in gone]

    InstanceBackend.run_instances = run_instances  # type: ignore[method-assign]
    InstanceBackend.terminate_instances = terminate_instances  # type: ignore[method-assign]

    def undo() -> None:
        InstanceBackend.run_instances = plain  # type: ignore[method-assign]
        InstanceBackend.terminate_instances = ended  # type: ignore[method-assign]

    return undo


def publish_images() -> None:
    """As Canonical and Amazon do. The images themselves are moto's."""
    for region in (REGION, "us-west-2"):
        image = next(
            one
            for one in ec2_backends[DEFAULT_ACCOUNT_ID][region].describe_images()
            if "ubuntu" in one.name
        )
        parameters = ssm_backends[DEFAULT_ACCOUNT_ID][region]._parameters
        for name in IMAGE_NAMES:
            parameters[name].append(
                Parameter(
                    account_id=DEFAULT_ACCOUNT_ID,
                    name=name,
                    value=image.id,
                    parameter_type="String",
                    description="",
                    allowed_pattern=None,
                    keyid=None,
                    last_modified_date=0,
                    version=1,
                    data_type="text",
                )
            )


def policy_of(allowed: list[str]) -> str:
    statement = {"Effect": "Allow", "Action": allowed, "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def make_user(url: str, allowed: list[str], name: str = "skyward-test") -> dict[str, str]:
    """Somebody who may do that and nothing else; uses the three calls that need nobody."""
    iam = boto3.client(
        "iam",
        region_name=REGION,
        endpoint_url=url,
        aws_access_key_id="nobody",
        aws_secret_access_key="nothing",
    )
    iam.create_user(UserName=name)
    iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=policy_of(allowed))
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return {
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
    }


@contextlib.contextmanager
def clouds(directory: Path, network: int) -> Iterator[Cloud]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # not a line for each request
    front = Front()
    machines = Machines(directory, network)
    with serve(front, "127.0.0.1") as url:
        keys = make_user(url, ALLOWED)
        publish_images()
        cloud = Cloud(url, keys, machines, Place(url), front, machines)
        undo = honour_client_tokens(cloud)
        front.cloud = cloud
        try:
            yield cloud
        finally:
            machines.stop_all()
            undo()


@contextlib.contextmanager
def serve(front: Front, address: str, descriptor: int | None = None) -> Iterator[str]:
    """Listens there, or on the socket that is bound to it already; the address for clients."""
    server = make_server(address, 0, front, threaded=True, fd=descriptor)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{address}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
