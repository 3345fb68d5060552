"""Admission webhooks, written with Flask as their documentation shows.

Usage: admission_webhook.py CERTIFICATE KEY [PORT]. Prints the port on which it listens.

/mutate gives every object a label, and every pod another container. /validate refuses ConfigMaps with a key `forbidden`,
scales above five, and the deletion of what is labelled as protected; it warns of a key `deprecated`.
"""

import base64
import json
import logging
import sys

from flask import Flask, jsonify, request
from werkzeug.serving import make_server

app = Flask(__name__)


def answer(review, **fields):
    response = {"uid": review["request"]["uid"], "allowed": True, **fields}
    return jsonify({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})


@app.post("/mutate")
def mutate():
    review = request.get_json()
    obj = review["request"]["object"]
    labels = obj["metadata"].get("labels", {})
    operations = []
    if "team" not in labels:
        operations.append({"op": "add", "path": "/metadata/labels", "value": {**labels, "team": "unknown"}})
    if obj["kind"] == "Pod" and len(obj["spec"]["containers"]) == 1:
        operations.append({"op": "add", "path": "/spec/containers/-", "value": {"name": "proxy", "image": "proxy"}})
    if not operations:
        return answer(review)
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return answer(review, patchType="JSONPatch", patch=patch)


def refused(review, message, code=403):
    return answer(review, allowed=False, status={"code": code, "message": message})


@app.post("/validate")
def validate():
    review = request.get_json()
    asked = review["request"]
    if asked["operation"] == "DELETE":
        old = asked["oldObject"]
        if old["metadata"].get("labels", {}).get("protected") == "yes":
            return refused(review, f"{old['kind']} {old['metadata']['name']} is protected")
        return answer(review)
    obj = asked["object"]
    if asked["kind"]["kind"] == "Scale":
        if obj["spec"].get("replicas", 0) > 5:
            return refused(review, f"{asked['resource']['resource']} scale to five at most")
        return answer(review)
    data = obj.get("data", {})
    if "forbidden" in data:
        return refused(review, "the key forbidden is not allowed")
    return answer(review, warnings=["the key deprecated goes away"] if "deprecated" in data else [])


if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    certificate, key, *port = sys.argv[1:]
    server = make_server("127.0.0.1", int(port[0]) if port else 0, app, threaded=True, ssl_context=(certificate, key))
    print(server.port, flush=True)
    server.serve_forever()
