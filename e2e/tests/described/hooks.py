"""What Schemathesis is told before each call: nobody waits half a minute for a job that never comes."""

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    if isinstance(case.body, dict) and case.body.get("wait") == "30s":
        case.body["wait"] = "10ms"
    if case.operation.path.endswith("/wait"):
        query = case.query or {}
        if query.get("timeout") in (None, "30s"):
            case.query = {**query, "timeout": "10ms"}
