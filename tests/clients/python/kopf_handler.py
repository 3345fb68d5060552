"""An operator written with kopf: it copies the data of labelled ConfigMaps in upper case, and cleans up after them."""

import kopf
from kubernetes import client, config


@kopf.on.startup()
def connect(**_):
    config.load_kube_config()


@kopf.on.create("v1", "configmaps", labels={"kopf": "source"})
@kopf.on.update("v1", "configmaps", labels={"kopf": "source"})
def copy(name, namespace, body, **_):
    core = client.CoreV1Api()
    data = {key: value.upper() for key, value in (body.get("data") or {}).items()}
    copied = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=f"{name}-upper"), data=data)
    try:
        core.create_namespaced_config_map(namespace, copied)
    except client.exceptions.ApiException as error:
        if error.status != 409:
            raise
        core.patch_namespaced_config_map(f"{name}-upper", namespace, {"data": data})


@kopf.on.delete("v1", "configmaps", labels={"kopf": "source"})
def clean(name, namespace, **_):
    client.CoreV1Api().delete_namespaced_config_map(f"{name}-upper", namespace)
