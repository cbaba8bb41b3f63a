#!/usr/bin/env python3
"""The OpenAPI document against a real server, with a validator that is not ours.

The document is sound (OpenAPI 3.1, JSON Schema 2020-12); every operation in it is called and answers with success and,
where it can, with an error; every answer and every server-sent event is as the document says, with nothing in it that the
document does not name; and what the document does not name is answered with 404 or 405.
"""
import copy
import hashlib
import io
import json
import re
import sys
import tarfile

try:
    import jsonschema
except ImportError:
    print("python3-jsonschema is not installed")
    sys.exit(77)

from bole import Bole, UnixConnection

SPEC = "name: one\nreplicas: 2\ngpus: 1\ncpus: 0.1\ncommand: |\n  echo BOLE progress epoch=1 epochs=2 loss=0.5\n" \
       "  mkdir -p c/1; echo BOLE checkpoint path=c/1 epoch=1\n  echo out; echo err >&2; exit 3\n" \
       "env: {A: b}\nports: [80]\nmounts: ['/usr:/data:ro']\ncheckpoint: {path: c, every: 1}\nlabels: {a: b}\n"


def closed(schema):
    """The same schema, in which a property that is not named is an error."""
    schema = copy.deepcopy(schema)

    def walk(node):
        if isinstance(node, dict):
            if "properties" in node and isinstance(node["properties"], dict) and node.get("type") == "object":
                node.setdefault("additionalProperties", False)
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)
    walk(schema)
    return schema


class Contract:
    def __init__(self, document):
        self.document = document
        self.strict = closed(document)
        self.answered = {}  # operation id: statuses seen
        self.events = {}    # operation id: events seen
        self.checked = 0

    def operation(self, method, target):
        path = target.split("?")[0]
        for pattern, methods in self.document["paths"].items():
            regex = re.sub(r"\\\{[^/]*\\\}|\{[^/]*\}", "[^/]+", pattern)
            if re.fullmatch(regex, path) and method.lower() in methods:
                return self.strict["paths"][pattern][method.lower()]
        return None

    def resolve(self, node):
        while "$ref" in node:
            target = self.strict
            for part in node["$ref"].lstrip("#/").split("/"):
                target = target[part]
            node = target
        return node

    def validate(self, schema, value, what):
        root = {"$schema": "https://json-schema.org/draft/2020-12/schema", "components": self.strict["components"], **schema}
        errors = [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:300]}"
                  for e in jsonschema.Draft202012Validator(root).iter_errors(value)]
        assert not errors, f"{what}: {errors[:5]}"
        self.checked += 1

    def check(self, method, target, status, headers, body):
        operation = self.operation(method, target)
        what = f"{method} {target}: {status}"
        if operation is None:
            assert status in (404, 405), f"{what}: answered, and not documented"
            return self.validate({"$ref": "#/components/schemas/ErrorView"}, json.loads(body), what)
        self.answered.setdefault(operation["operationId"], set()).add(status)
        if status < 400:
            assert str(status) in operation["responses"], f"{what}: this status is not documented"
        outcome = self.resolve(operation["responses"].get(str(status), operation["responses"]["default"]))
        if method == "HEAD":
            return None
        content = outcome.get("content", {}).get("application/json")
        if content is None:
            assert not body, f"{what}: a body where none is documented: {body[:200]}"
            return None
        assert headers.get("content-type") == "application/json", f"{what}: {headers.get('content-type')}"
        return self.validate(content["schema"], json.loads(body), what)

    def check_event(self, target, name, data):
        operation = self.operation("GET", target)
        kinds = operation["responses"]["200"]["content"]["text/event-stream"]["x-events"]
        assert name in kinds, f"{target}: an event that is not documented: {name}"
        self.events.setdefault(operation["operationId"], set()).add(name)
        self.validate(kinds[name]["data"], json.loads(data), f"{target}: {name}")


class Caller:
    def __init__(self, bole, contract):
        self.bole, self.contract = bole, contract

    def __call__(self, method, target, body=None, expect=None):
        connection = UnixConnection(str(self.bole.home / "bole.sock"))
        text = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        connection.request(method, target, text, {})
        response = connection.getresponse()
        data = response.read()
        connection.close()
        headers = {name.lower(): value for name, value in response.getheaders()}
        self.contract.check(method, target, response.status, headers, data)
        assert expect is None or response.status == expect, f"{method} {target}: {response.status}: {data[:300]}"
        return json.loads(data) if data else None

    def follow(self, target, until):
        """Reads events until one of this name came."""
        connection = UnixConnection(str(self.bole.home / "bole.sock"))
        connection.request("GET", target, None, {"Accept": "text/event-stream"})
        response = connection.getresponse()
        assert response.status == 200 and response.getheader("content-type").startswith("text/event-stream")
        name = None
        for line in iter(response.readline, b""):
            line = line.decode().rstrip("\n")
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                self.contract.check_event(target, name, line[6:])
                if name == until:
                    break
        connection.close()


def check_document(document):
    """What OpenAPI 3.1 asks of a document. (Debian has no schema of it.)"""
    assert re.fullmatch(r"3\.1\.\d+", document["openapi"])
    assert document["info"]["title"] and document["info"]["version"]
    known = {"openapi", "info", "jsonSchemaDialect", "servers", "paths", "webhooks", "components", "security", "tags",
             "externalDocs"}
    assert set(document) <= known, set(document) - known
    ids = set()
    for path, methods in document["paths"].items():
        assert path.startswith("/")
        for method, operation in methods.items():
            assert method in ("get", "put", "post", "delete", "options", "head", "patch", "trace"), method
            extra = set(operation) - {"tags", "summary", "description", "externalDocs", "operationId", "parameters",
                                      "requestBody", "responses", "callbacks", "deprecated", "security", "servers"}
            assert not extra, f"{path}: {extra}"
            assert operation["operationId"] not in ids, operation["operationId"]
            ids.add(operation["operationId"])
            check_parameters(path, operation)
            assert operation["responses"]
            for status, response in operation["responses"].items():
                assert re.fullmatch(r"[1-5](\d\d|XX)|default", status), status
                assert "$ref" in response or response["description"]
    for name, scheme in document["components"]["securitySchemes"].items():
        assert scheme["type"] == "http" and scheme["scheme"] == "bearer", name
    for requirement in document["security"]:
        assert set(requirement) <= set(document["components"]["securitySchemes"])
    check_references(document, document)
    for name, schema in document["components"]["schemas"].items():
        assert re.fullmatch(r"[a-zA-Z0-9._-]+", name)
        jsonschema.Draft202012Validator.check_schema(schema)
        for required in schema.get("required", []):
            assert required in schema["properties"], f"{name}: {required} is required and not described"


def check_parameters(path, operation):
    places = [(p["name"], p["in"]) for p in operation.get("parameters", [])]
    assert len(places) == len(set(places)), path
    inside = set(re.findall(r"\{([^}]+)\}", path))
    assert inside == {name for name, place in places if place == "path"}, path
    for parameter in operation.get("parameters", []):
        assert parameter["in"] in ("path", "query", "header", "cookie")
        assert parameter["in"] != "path" or parameter["required"] is True
        jsonschema.Draft202012Validator.check_schema(parameter["schema"])


def check_references(document, node):
    if isinstance(node, dict):
        if "$ref" in node:
            target = document
            assert node["$ref"].startswith("#/"), node["$ref"]
            for part in node["$ref"][2:].split("/"):
                assert part in target, f"{node['$ref']} leads nowhere"
                target = target[part]
        for value in node.values():
            check_references(document, value)
    elif isinstance(node, list):
        for value in node:
            check_references(document, value)


def archive():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        entry = tarfile.TarInfo("hello.txt")
        entry.size = 5
        tar.addfile(entry, io.BytesIO(b"hello"))
    return out.getvalue()


def request_of(spec, **more):
    return {"spec": spec, "file_name": "bole.yaml", "directory": "/tmp", **more}


def call_everything(call, bole):
    for path in ("version", "status", "openapi.json", "nodes", "gpus", "topology", "queues", "policy", "jobs", "jobs?all=1",
                 "events"):
        call("GET", f"/v1/{path}", expect=200)
    submit_all_ways(call)
    job = call("POST", "/v1/jobs", request_of(SPEC, request_id="same"), expect=201)["jobs"][0]["id"]
    assert call("POST", "/v1/jobs", request_of(SPEC, request_id="same"), expect=201)["jobs"][0]["existed"]
    call.follow(f"/v1/jobs/{job}/logs", "end")
    call("GET", f"/v1/jobs/{job}", expect=200)
    for query in ("", "?rank=1", "?tail=1", "?since=0", "?attempt=1"):
        call("GET", f"/v1/jobs/{job}/logs{query}", expect=200)
    for query in ("?rank=7", "?tail=x", "?nope=1"):
        call("GET", f"/v1/jobs/{job}/logs{query}", expect=400)
    call("GET", f"/v1/jobs/{job}/logs?attempt=9", expect=404)
    call("POST", f"/v1/jobs/{job}/stop", expect=409)
    tells_its_progress(call, bole)
    holds_and_waits(call)
    uploads(call)
    shares(call)
    operates(call)
    errors(call)
    call("GET", "/v1/events?from=1&limit=3", expect=200)
    call("GET", "/v1/events?kind=job.submitted", expect=200)
    call("GET", "/v1/events?limit=0", expect=400)
    call.follow("/v1/events?from=1", "event")


def submit_all_ways(call):
    call("POST", "/v1/jobs", request_of("name: x\ngpus: 1\ncommand: x", dry_run=True), expect=200)
    call("POST", "/v1/jobs", request_of("name: x\ngpus: 9\ncommand: x"), expect=422)
    call("POST", "/v1/jobs", request_of("name: x\ncomand: x"), expect=400)
    missing = call("POST", "/v1/jobs", request_of("name: x\ncommand: x\nenv: [NOT_THERE]"), expect=400)
    assert missing["missing_env"] == ["NOT_THERE"], missing
    for body in (b"{", b"{}", b"[]", b'{"spec": 7}', b'{"spec": "x", "nope": 1}', b"\xff"):
        call("POST", "/v1/jobs", body, expect=400)
    call("POST", "/v1/jobs", b" " * (2 * 1024 * 1024 + 1), expect=413)


def tells_its_progress(call, bole):
    spec = "name: tells\ncommand: echo BOLE progress epoch=1 epochs=2 loss=0.5; until test -e go; do sleep 0.1; done"
    job = call("POST", "/v1/jobs", request_of(spec), expect=201)["jobs"][0]["id"]
    call.follow(f"/v1/jobs/{job}/logs", "progress")
    assert call("GET", f"/v1/jobs/{job}", expect=200)["summary"]["progress"]["done"] == 1
    (bole.home / "work" / str(job) / "go").touch()
    call.follow(f"/v1/jobs/{job}/logs", "end")


def holds_and_waits(call):
    """A job that holds all GPUs, and one that waits for them: what only then is in the answers."""
    holder = call("POST", "/v1/jobs", request_of("name: holder\ngpus: 4\ncommand: sleep 600"), expect=201)["jobs"][0]["id"]
    call("POST", "/v1/jobs", request_of("name: waiter\ngpus: 1\ncommand: 'true'"), expect=201)
    Bole.wait_until(lambda: call("GET", f"/v1/jobs/{holder}")["summary"]["state"] == "RUNNING", "the holder runs", 30)
    waiting = call("GET", "/v1/jobs/waiter", expect=200)
    assert waiting["reasons"], waiting
    assert all("job" in gpu for gpu in call("GET", "/v1/gpus", expect=200)["gpus"])
    call("POST", "/v1/jobs/holder/stop", {"grace": 0}, expect=202)
    call.follow("/v1/jobs/waiter/logs", "end")
    call("GET", f"/v1/jobs/{holder}", expect=200)
    call("GET", "/v1/jobs?state=cancelled,succeeded", expect=200)
    call("GET", "/v1/jobs?state=asleep", expect=400)


def uploads(call):
    data = archive()
    name = hashlib.sha256(data).hexdigest()
    call("HEAD", f"/v1/uploads/{name}", expect=404)
    call("PUT", f"/v1/uploads/{name}", data, expect=201)
    call("PUT", f"/v1/uploads/{name}", data, expect=200)
    call("HEAD", f"/v1/uploads/{name}", expect=200)
    call("PUT", f"/v1/uploads/{'0' * 64}", data, expect=400)
    call("PUT", "/v1/uploads/nothing", data, expect=400)
    job = call("POST", "/v1/jobs", request_of("name: brings\ncommand: cat hello.txt", upload=name), expect=201)["jobs"][0]["id"]
    call.follow(f"/v1/jobs/{job}/logs", "end")


def shares(call):
    lab = "queues:\n  lab: {guaranteed: {gpus: 8, A100: 2, cpus: 1, memory: 1GiB}, limit: {H100: 1}, preemption: lower-priority,\n" \
          "        per_user: {gpus: 1, running: 2}, queues: {nlp: {}}}\n"
    answer = call("PUT", "/v1/policy", {"text": lab, "file_name": "lab.yaml", "dry_run": True}, expect=200)
    assert answer["changes"] and answer["warnings"], answer
    call("PUT", "/v1/policy", {"text": lab}, expect=200)
    call("GET", "/v1/queues", expect=200)
    assert call("GET", "/v1/policy", expect=200)["text"] == answer["text"]
    job = call("POST", "/v1/jobs", request_of("name: x\nqueue: nlp\nspot: true\ncommand: 'true'"), expect=201)["jobs"][0]["id"]
    call.follow(f"/v1/jobs/{job}/logs", "end")
    call("POST", "/v1/jobs", request_of("name: x\nqueue: nowhere\ncommand: x"), expect=404)
    call("PUT", "/v1/policy", {"text": "queues: []"}, expect=400)
    call("PUT", "/v1/policy", {"text": "queues: {}", "nope": 1}, expect=400)
    call("PUT", "/v1/policy", {"text": "queues: {}"}, expect=200)


def operates(call):
    node = call("GET", "/v1/nodes", expect=200)["nodes"][0]["name"]
    drained = call("POST", f"/v1/nodes/{node}/health",
                   {"health": "draining", "gpu": 1, "lasts": 3_600_000_000, "why": "too hot"}, expect=200)
    assert drained["health"] == "healthy", drained
    gpu = call("GET", "/v1/gpus", expect=200)["gpus"][1]
    assert gpu["health"] == "draining" and gpu["why"] == "too hot" and gpu["healthy_at"] > 0, gpu
    assert call("POST", f"/v1/nodes/{node}/health", {"health": "down"}, expect=200)["health"] == "down"
    job = call("POST", "/v1/jobs", request_of("name: late\ngpus: 4\ncommand: 'true'\narray: 0-1%1"), expect=201)["jobs"][0]
    assert job["count"] == 2, job
    call("POST", "/v1/jobs", request_of("name: after\nafter: late\ncommand: 'true'", dry_run=True), expect=200)
    assert call("GET", "/v1/jobs/late?expect=1", expect=200)["reasons"]
    call("GET", "/v1/jobs/late?expect=maybe", expect=400)
    for part in ({"health": "healthy"}, {"health": "healthy", "gpu": 1}):
        call("POST", f"/v1/nodes/{node}/health", part, expect=200)
    call.follow("/v1/jobs/late[1]/logs".replace("[", "%5B").replace("]", "%5D"), "end")
    call("POST", f"/v1/nodes/{node}/health", {"health": "unwell"}, expect=400)
    call("POST", f"/v1/nodes/{node}/health", {"health": "down", "gpu": 9}, expect=404)
    call("POST", "/v1/nodes/nowhere/health", {"health": "down"}, expect=404)
    labelled = call("POST", f"/v1/nodes/{node}/labels", {"set": [["disk", "ssd"]]}, expect=200)
    assert ["disk", "ssd"] in labelled["labels"], labelled
    call("POST", f"/v1/nodes/{node}/labels", {"remove": ["disk"]}, expect=200)
    call("POST", f"/v1/nodes/{node}/labels", {"remove": ["disk"]}, expect=404)
    assert call("GET", "/v1/snapshot", expect=200)["jobs"]
    call("GET", "/v1/snapshot?nope=1", expect=400)


def errors(call):
    for target in ("/", "/v1", "/v2/jobs", "/v1/nothing", "/v1/jobs/1/nothing"):
        call("GET", target, expect=404)
    for method, target in (("DELETE", "/v1/jobs/1"), ("PUT", "/v1/jobs"), ("POST", "/v1/status")):
        call(method, target, expect=405)
    call("GET", "/v1/jobs/nobody", expect=404)
    call("GET", "/v1/jobs/nobody/logs", expect=404)
    call("POST", "/v1/jobs/nobody/stop", expect=404)
    for path in ("version", "status", "openapi.json", "nodes", "gpus", "topology", "queues", "policy"):
        call("GET", f"/v1/{path}?nope=1", expect=400)
    call("POST", "/v1/shutdown?stop_jobs=maybe", expect=400)


def main():
    with Bole(sys.argv[1]) as bole:
        bole.up()
        document = bole.get("/v1/openapi.json")
        check_document(document)
        contract = Contract(document)
        call = Caller(bole, contract)
        call_everything(call, bole)
        call("POST", "/v1/shutdown", expect=202)
        assert bole.server.wait(60) == 0
        bole.server = None
        ids = {o["operationId"]: o for methods in document["paths"].values() for o in methods.values()}
        for name, operation in ids.items():
            seen = contract.answered.get(name, set())
            assert any(status < 400 for status in seen), f"{name} was never answered with success"
            assert any(status >= 400 for status in seen), f"{name} was never answered with an error"
            documented = {int(status) for status in operation["responses"] if status != "default"}
            assert documented <= seen, f"{name}: documented and never seen: {documented - seen}"
        assert contract.events["logs"] >= {"line", "state", "end", "progress"}, contract.events
        assert contract.events["events"] == {"event"}
        print(f"{len(ids)} operations, {contract.checked} answers and events as the document says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
