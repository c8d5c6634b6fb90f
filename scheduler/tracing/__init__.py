"""Traces of scheduling attempts by OpenTelemetry, an optional extra (`kubestow[otel]`).

`start` builds what `kubestow.tracing` asks for; without that key nothing of this package runs and
no library of OpenTelemetry is imported. Only `attempts` and `export` import them, and only `start`
imports those two. Engine, queue and plugins know nothing of traces: subclasses of scheduling loop
and binding cycle (`traced`) begin and end the spans, and the receiver of the engine's measurements
makes spans of the extension points.
"""
