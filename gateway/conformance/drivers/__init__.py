"""Programs that make a client do what a case asks for: `python -m gateway.conformance.drivers.NAME ADDRESS`.

Each runs with one version of its client on its path.  It says who it is in its first line of JSON, see
gateway.conformance.driving.Introduction; then every line of JSON that it hears is a call, answered by a line
`["ok", result]` or `["error", type, text]`.  A call is a table with its name under `call`, and its arguments.
"""
