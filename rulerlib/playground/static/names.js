// ipywidgets gives a slider's handle no name, and a widget made in Python cannot; so the page
// copies each row's label to whatever in it can be reached by keyboard and has no name yet.
(() => {
  const name = () => document.querySelectorAll(
    ".ruler-play [role=slider]:not([aria-label]), .ruler-play .widget-readout:not([aria-label])"
  ).forEach((part) => {
    const row = part.closest(".widget-slider, .jupyter-widgets");
    const label = row && row.querySelector("label, .widget-label");
    if (label && label.textContent.trim()) {
      part.setAttribute("aria-label", label.textContent.trim());
    }
  });
  new MutationObserver(name).observe(document.body, {childList: true, subtree: true});
  name();
})();
