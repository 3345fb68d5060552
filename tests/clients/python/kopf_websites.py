"""An operator written with kopf for the custom resource websites.example.com.

It gives every website a ConfigMap and a status, keeps both right, answers to a field of its own, and cleans up.
"""

import kopf
from kubernetes import client, config


@kopf.on.startup()
def connect(settings: kopf.OperatorSettings, **_):
    config.load_kube_config()
    settings.persistence.finalizer = "example.com/kopf"


@kopf.on.create("example.com", "v1", "websites")
@kopf.on.resume("example.com", "v1", "websites")
def make(name, namespace, spec, body, patch, **_):
    page = client.V1ConfigMap(
        metadata=client.V1ObjectMeta(name=f"{name}-page"),
        data={"domain": spec["domain"], "image": spec["image"]},
    )
    kopf.adopt(manifest := client.ApiClient().sanitize_for_serialization(page), owner=body)
    try:
        client.CoreV1Api().create_namespaced_config_map(namespace, manifest)
    except client.exceptions.ApiException as error:
        if error.status != 409:
            raise
    patch.status["replicas"] = spec["replicas"]
    patch.status["conditions"] = [{"type": "Ready", "status": "True"}]


@kopf.on.field("example.com", "v1", "websites", field="spec.replicas")
def scaled(old, new, patch, **_):
    if old is not None:
        patch.status["replicas"] = new


@kopf.on.delete("example.com", "v1", "websites")
def clean(name, namespace, **_):
    client.CoreV1Api().delete_namespaced_config_map(f"{name}-page", namespace)
