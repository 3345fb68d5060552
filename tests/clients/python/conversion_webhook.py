"""A conversion webhook for appconfigs.example.com, written with Flask as its documentation shows.

Usage: conversion_webhook.py CERTIFICATE KEY [PORT [ADDRESS]]. Prints the port on which it listens.

v1 has `spec.config`; v2 has the same under `spec.configuration.settings`, beside `spec.configuration.version`, which v1
keeps in an annotation.
"""

import copy
import logging
import sys

from flask import Flask, jsonify, request
from werkzeug.serving import make_server

VERSION = "example.com/configuration-version"

app = Flask(__name__)


def to_v2(obj):
    spec = obj["spec"]
    annotations = obj["metadata"].get("annotations", {})
    configuration = {"settings": spec.pop("config", {})}
    if VERSION in annotations:
        configuration["version"] = annotations.pop(VERSION)
        if not annotations:
            del obj["metadata"]["annotations"]
    spec["configuration"] = configuration


def to_v1(obj):
    spec = obj["spec"]
    configuration = spec.pop("configuration", {})
    spec["config"] = configuration.get("settings", {})
    if configuration.get("version"):
        obj["metadata"].setdefault("annotations", {})[VERSION] = configuration["version"]


@app.post("/convert")
def convert():
    review = request.get_json()
    wanted = review["request"]["desiredAPIVersion"]
    converted = []
    for obj in review["request"]["objects"]:
        obj = copy.deepcopy(obj)
        if obj["apiVersion"] != wanted:
            if obj["spec"].get("appName") == "unconvertible":
                return answer(review, {"status": "Failure", "message": "this one stays as it is"}, [])
            {"example.com/v1": to_v1, "example.com/v2": to_v2}[wanted](obj)
            obj["apiVersion"] = wanted
        converted.append(obj)
    return answer(review, {"status": "Success"}, converted)


def answer(review, result, converted):
    response = {"uid": review["request"]["uid"], "result": result, "convertedObjects": converted}
    return jsonify({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response})


if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    certificate, key, *rest = sys.argv[1:]
    port, address = (*rest, "0", "127.0.0.1")[:2] if len(rest) != 1 else (rest[0], "127.0.0.1")
    server = make_server(address, int(port), app, threaded=True, ssl_context=(certificate, key))
    print(server.port, flush=True)
    server.serve_forever()
