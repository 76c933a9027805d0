"""Names by which a recording says of spans of OpenTelemetry what operations do not have by themselves.

The bridge that records spans, and conversions to and from OTLP, agree by this module.  It is as light as it can be,
since programs that are recorded load it.  The names are such that attributes hardly ever have them.
"""

from __future__ import annotations

TRACE_ID, SPAN_ID, PARENT_ID = "traceId", "spanId", "parentSpanId"
"""The arguments with the ids of a span and its parent, in hexadecimal, as OTLP has them; of a link, the first two."""

KIND = "span.kind"
"""The argument with the kind of a span that is not internal."""

KINDS = ("internal", "server", "client", "producer", "consumer")
"""The kinds in the order of OTLP, where they have numbers from 1 on."""

NAME = "span.name"
"""The argument with the last name of a span whose name has changed."""

STATUS, MESSAGE = "otel.status_code", "otel.status_description"
"""The arguments with the status of a span, unless it is not set, and with the reason of an error.

https://opentelemetry.io/docs/specs/otel/common/mapping-to-non-otlp/#span-status
"""

STATUSES = ("OK", "ERROR")
"""The status in the order of OTLP, where they have numbers from 1 on."""

LINK = "span.link"
"""The name of an instant that is a link to another span."""

MORE = "span.attributes"
"""The name of an instant that has further attributes of a span, which has more than one event holds."""

OWNER = "span.id"
"""The argument of an instant with the id of its span, where that is not the innermost one on the track."""
