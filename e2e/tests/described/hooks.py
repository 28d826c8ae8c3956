"""What Schemathesis is told before each call: nobody waits half a minute for a job that never comes,
and nothing is sent beyond this machine."""

import schemathesis

# Where the document's examples send jobs, and where nobody listens.
ELSEWHERE, NOWHERE = "https://example.com", "http://127.0.0.1:9"


@schemathesis.hook
def before_call(context, case, kwargs):
    case.body = local(case.body)
    if isinstance(case.body, dict) and case.body.get("wait") == "30s":
        case.body["wait"] = "10ms"
    if case.operation.path.endswith("/wait"):
        query = case.query or {}
        if query.get("timeout") in (None, "30s"):
            case.query = {**query, "timeout": "10ms"}


def local(value):
    if isinstance(value, dict):
        return {name: local(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [local(inner) for inner in value]
    if isinstance(value, str):
        return value.replace(ELSEWHERE, NOWHERE)
    return value
