"""Every request and every reply, held to what the vendor published.

The specifications are no part of this repository: $SKYWARD_API_SPECS names their folder, else it is
looked for beside the clone. Without them, tests say that they checked nothing.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import requests
import yaml
from openapi_core import Config, OpenAPI
from openapi_core.contrib.requests import RequestsOpenAPIRequest, RequestsOpenAPIResponse

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("SKYWARD_API_SPECS", ROOT.parent / "shared/api-specs"))


def read(path: str) -> Any:
    file = FOLDER / path
    if not file.is_file():
        pytest.skip(f"the vendor's {path} is not here; $SKYWARD_API_SPECS names the folder")
    text = file.read_text()
    readers = {".yaml": yaml.safe_load, ".json": json.loads}
    return readers.get(file.suffix, str)(text)


class Specification:
    def __init__(self, content: Any, url: str) -> None:
        self.api = OpenAPI.from_dict(
            {**content, "servers": [{"url": url}]},
            config=Config(
                spec_validator_cls=None,
                extra_media_type_deserializers={"application/problem+json": json.loads},
            ),
        )
        self.checked = 0
        # What the double refused may be wrong on purpose.
        self.good: Callable[[int], bool] = lambda status: status < 400

    def check(self, request: requests.PreparedRequest, response: requests.Response) -> None:
        asked = RequestsOpenAPIRequest(request)
        if self.good(response.status_code):
            self.api.validate_request(asked)
        self.api.validate_response(asked, RequestsOpenAPIResponse(response))
        self.checked += 1


@contextlib.contextmanager
def watching(specification: Specification) -> Iterator[Specification]:
    """All that this process sends, whoever sends it, but for the double's controls."""
    send = requests.Session.send

    def send_and_check(
        session: requests.Session, request: requests.PreparedRequest, **options: Any
    ) -> requests.Response:
        response = send(session, request, **options)
        if "/_double/" not in str(request.url):
            response.content  # noqa: B018  # read before anybody streams it
            specification.check(request, response)
        return response

    with mock.patch.object(requests.Session, "send", send_and_check):
        yield specification


def lacking(recorded: Any, ours: Any, where: str = "") -> list[str]:
    """What a recorded answer of the real cloud has and ours does not, or has as another type."""
    if isinstance(recorded, dict) and isinstance(ours, dict):
        found = []
        for name, value in recorded.items():
            if name not in ours:
                found.append(f"{where}/{name}")
            else:
                found += lacking(value, ours[name], f"{where}/{name}")
        return found
    if isinstance(recorded, list) and isinstance(ours, list):
        return lacking(recorded[0], ours[0], f"{where}[]") if recorded and ours else []
    if recorded is None or ours is None:
        return []
    numbers = int | float
    same = isinstance(recorded, type(ours)) or (
        isinstance(recorded, numbers) and isinstance(ours, numbers)
    )
    return [] if same else [f"{where}: {type(ours).__name__}"]
