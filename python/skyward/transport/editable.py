"""What importlib.metadata knows of the program's own packages, for nodes that get their modules: an
editable install keeps it in site-packages, which is not sent."""

import importlib.metadata
import json
import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

READ_BY_PROGRAMS = ("METADATA", "entry_points.txt", "top_level.txt")


def metadata_folders(places: Iterable[Path]) -> list[Path]:
    """The ``.dist-info`` folders of the editable installs in whose projects the places are."""
    projects = {}
    for found in importlib.metadata.distributions():
        project = _project_of(found)
        if project is None:
            continue
        for file in found.files or ():
            if file.name == "METADATA" and file.parent.name.endswith(".dist-info"):
                projects[Path(str(file.locate())).parent] = project
    if not projects:
        return []
    real = {Path(os.path.realpath(place)) for place in places}
    return [
        folder
        for folder, project in projects.items()
        if folder.is_dir() and any(place.is_relative_to(project) for place in real)
    ]


def _project_of(found: importlib.metadata.Distribution) -> Path | None:
    """The folder from which a distribution was installed with ``pip install -e``. Nodes get this
    package itself in another way."""
    text = found.read_text("direct_url.json")
    if not text:
        return None
    try:
        facts = json.loads(text)
        if not facts["dir_info"]["editable"] or found.metadata["Name"] == "skyward":
            return None
        return Path(os.path.realpath(unquote(urlsplit(facts["url"]).path)))
    except (ValueError, KeyError, TypeError):
        return None
