"""What the API's published specification says of requests and replies, held to strictly: fields
that it does not have are refused. It is no part of this repository: $SKYWARD_API_SPECS names its
folder, else it is looked for beside the clone."""

import json
import os
import re
from pathlib import Path
from typing import Any

import jsonschema

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("SKYWARD_API_SPECS", ROOT.parent / "shared/api-specs"))
FILE = FOLDER / "kubernetes/swagger-trimmed.json"


class Specification:
    def __init__(self) -> None:
        content = json.loads(FILE.read_text())
        self.definitions = content["definitions"]
        for definition in self.definitions.values():
            if "properties" in definition:
                definition["additionalProperties"] = False
        self.paths = [
            (re.compile("^" + re.sub(r"\{\w+\}", "[^/]+", path.rstrip("/")) + "$"), operations)
            for path, operations in content["paths"].items()
        ]
        self.validators: dict[str, jsonschema.Draft4Validator] = {}
        self.checked = 0
        self.problems: list[str] = []

    def _operation(self, method: str, path: str) -> dict[str, Any] | None:
        for pattern, operations in self.paths:
            if pattern.match(path.rstrip("/")) and method.lower() in operations:
                return dict(operations[method.lower()])
        return None

    def _check(self, value: Any, schema: dict[str, Any], where: str) -> None:
        self.checked += 1
        key = json.dumps(schema)
        if key not in self.validators:
            whole = {**schema, "definitions": self.definitions}
            self.validators[key] = jsonschema.Draft4Validator(whole)
        for error in self.validators[key].iter_errors(value):
            self.problems.append(f"{where} {'/'.join(map(str, error.path))}: {error.message}")

    def request(self, method: str, path: str, body: Any) -> list[str]:
        """What is wrong with it, in words."""
        before = len(self.problems)
        operation = self._operation(method, path)
        if operation is not None and body is not None:
            for parameter in operation.get("parameters", []):
                if parameter.get("in") == "body":
                    self._check(_plain(body), parameter["schema"], f"{method} {path}")
        return self.problems[before:]

    def reply(self, method: str, path: str, status: int, body: Any) -> None:
        operation = self._operation(method, path)
        if operation is None or not isinstance(body, dict):
            return
        # Refusals are a Status everywhere, as are the replies of some deletions.
        schema = {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Status"}
        if status < 400 and body.get("kind") != "Status":
            told = operation["responses"].get(str(status), {})
            schema = told.get("schema", schema)
        self._check(_plain(body), schema, f"{method} {path} {status}")


def _plain(value: Any) -> Any:
    """Without nulls, which mean the same as what is left out."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items() if one is not None}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def read() -> Specification | None:
    return Specification() if FILE.is_file() else None
