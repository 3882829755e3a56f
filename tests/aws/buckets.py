"""The emulated cloud's S3, which checks signatures and permissions, and who may use it there."""

import datetime
from typing import Any

from cloud import ALLOWED, Cloud, policy_of
from moto.core import DEFAULT_ACCOUNT_ID
from moto.iam import iam_backends
from moto.s3.models import s3_backends
from moto.sts import sts_backends

ROLE = "with-buckets"
LIFE_SECONDS = 3600


class Buckets:
    """Buckets with objects; somebody who may use them and EC2, and a role that may, too."""

    def __init__(self, cloud: Cloud, contents: dict[str, dict[str, str]]) -> None:
        self.store = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
        for bucket, objects in contents.items():
            self.store.create_bucket(bucket, "us-east-1")
            for key, text in objects.items():
                self.store.put_object(bucket, key, text.encode())
        users = iam_backends[DEFAULT_ACCOUNT_ID]["aws"]
        allowed = [*ALLOWED, "s3:*"]
        self.keys = cloud.user("with-buckets", allowed)
        self.role = users.create_role(
            ROLE, policy_of(["sts:AssumeRole"]), "/", None, "", [], "3600"
        )
        users.put_role_policy(ROLE, "p", policy_of(allowed))
        self.profile = users.create_instance_profile(ROLE, "/", [ROLE])

    def session(self) -> Any:
        """Keys with a token, as whoever assumes the role gets them."""
        sessions = sts_backends[DEFAULT_ACCOUNT_ID]["aws"]
        return sessions.assume_role("us-east-1", "test", self.role.arn, "", LIFE_SECONDS, "")

    def session_keys(self) -> dict[str, str]:
        session = self.session()
        return {
            "AWS_ACCESS_KEY_ID": session.access_key_id,
            "AWS_SECRET_ACCESS_KEY": session.secret_access_key,
            "AWS_SESSION_TOKEN": session.session_token,
        }

    def role_of_a_machine(self) -> dict[str, str]:
        """As a machine's metadata service tells it."""
        session = self.session()
        end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=LIFE_SECONDS)
        return {
            "Code": "Success",
            "Type": "AWS-HMAC",
            "AccessKeyId": session.access_key_id,
            "SecretAccessKey": session.secret_access_key,
            "Token": session.session_token,
            "Expiration": f"{end:%Y-%m-%dT%H:%M:%SZ}",
        }

    def text(self, bucket: str, key: str) -> str:
        found = self.store.get_object(bucket, key)
        assert found is not None, f"{bucket}/{key} is not there"
        text: str = found.value.decode()
        return text

    def close(self) -> None:
        self.store.reset()
        users = iam_backends[DEFAULT_ACCOUNT_ID]["aws"]
        users.remove_role_from_instance_profile(ROLE, ROLE)
        users.delete_instance_profile(ROLE)
        users.delete_role_policy(ROLE, "p")
        users.delete_role(ROLE)
        users.delete_access_key(self.keys["AWS_ACCESS_KEY_ID"], "with-buckets")
        users.delete_user_policy("with-buckets", "p")
        users.delete_user("with-buckets")
