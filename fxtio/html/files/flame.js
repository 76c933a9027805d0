"use strict";

// Runs in the frame of a flame graph, before speedscope, which takes the whole window of the frame.
(() => {
  const { title, view, profile } = JSON.parse(document.querySelector("script").textContent);

  // In a notebook, the page is in a frame that may store nothing; speedscope would store its settings.
  try {
    window.localStorage;
  } catch {
    Object.defineProperty(window, "localStorage", { value: { getItem: () => null, setItem: () => {} } });
  }

  // The import of pprof files looks for a module of Node.js by eval, and does without if that fails.  The content
  // security policy would report it.
  window.eval = undefined;

  // With `localProfilePath`, speedscope offers loadFileFromBase64 and adds a script that is to call it.  It is called
  // here instead, and no script is added.
  location.hash = `#view=${view}&localProfilePath=none`;
  document.head.appendChild = (node) => {
    if (node.localName !== "script") {
      return Node.prototype.appendChild.call(document.head, node);
    }
    window.speedscope.loadFileFromBase64(title, profile);
    return node;
  };

  // Speedscope moves and zooms with the wheel.  Before it is clicked, the wheel scrolls the page instead.
  window.addEventListener(
    "wheel",
    (event) => {
      if (!document.hasFocus()) {
        event.stopImmediatePropagation();
      }
    },
    { capture: true },
  );
})();
