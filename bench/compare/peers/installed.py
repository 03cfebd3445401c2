"""Prints, as JSON, which Python this is and which peers it has. It imports none of them, which would take seconds."""
import json
import platform
from importlib import metadata

found = {"python": platform.python_version()}
for name in ("torch", "opacus", "jax"):
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
