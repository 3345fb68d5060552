"""An operator written with kopf that stands back for one of higher priority: it signs ConfigMaps with its own."""

import sys

import kopf

PRIORITY = next(word.removeprefix("--priority=") for word in sys.argv if word.startswith("--priority="))


@kopf.on.create("v1", "configmaps", labels={"kopf": "peers"})
@kopf.on.update("v1", "configmaps", labels={"kopf": "peers"}, field="data.word")
def sign(new, patch, **_):
    patch.metadata.labels["signed-by"] = PRIORITY


@kopf.on.delete("v1", "configmaps", labels={"kopf": "peers"})
def hold(**_):
    """That there is one makes the framework add its finalizer."""
