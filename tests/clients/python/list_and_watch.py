"""Lists and watches with the official Python client.

Usage: list_and_watch.py NAMESPACE, with KUBECONFIG set. Prints one line per step; any surprise is an error.
"""

import sys

from kubernetes import client, config, watch


def main(namespace: str) -> None:
    config.load_kube_config()
    core = client.CoreV1Api()

    names = {item.metadata.name for item in core.list_namespace().items}
    assert {"default", "kube-system", "kube-public", "kube-node-lease"} <= names, names
    print("namespaces", len(names))

    labels = {"app": "python"}
    for name in ["one", "two", "three"]:
        body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels=labels), data={"name": name})
        core.create_namespaced_config_map(namespace, body)
    page = core.list_namespaced_config_map(namespace, label_selector="app=python", limit=2)
    assert len(page.items) == 2 and page.metadata._continue, page.metadata
    rest = core.list_namespaced_config_map(
        namespace, label_selector="app=python", limit=2, _continue=page.metadata._continue
    )
    assert [item.metadata.name for item in page.items + rest.items] == ["one", "three", "two"]
    print("listed", len(page.items) + len(rest.items))

    core.patch_namespaced_config_map("one", namespace, {"data": {"name": "changed"}})
    core.delete_namespaced_config_map("two", namespace)
    expected = [("MODIFIED", "one"), ("DELETED", "two")]
    seen = []
    for event in watch.Watch().stream(
        core.list_namespaced_config_map,
        namespace,
        label_selector="app=python",
        resource_version=rest.metadata.resource_version,
        timeout_seconds=20,
    ):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == len(expected):
            break
    assert seen == expected, seen
    print("watched", len(seen))

    try:
        core.read_namespaced_config_map("two", namespace)
        raise AssertionError("a deleted object was read")
    except client.exceptions.ApiException as error:
        assert error.status == 404, error
    print("done")


if __name__ == "__main__":
    main(sys.argv[1])
