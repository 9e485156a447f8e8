// ipywidgets gives the handle of a slider no accessible name. This script copies the label of each
// row to the handles and readouts that have none.
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
