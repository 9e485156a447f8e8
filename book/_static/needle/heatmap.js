// The heatmap of the page "Move the needle": how much was found, by depth and length.

import { element } from "./element.js";

// Draw the answers of one kind of prompt into the table that `place` holds; `current` is the setting
// that is being asked, if it is of that kind. A click on a cell calls `go` with its length, its
// column and its last answer.
export function heatmap(place, answers, current, { page, say, counted, whereabouts, go }) {
  const lengths = new Set(answers.map((one) => one.setting.length));
  if (current) lengths.add(current.length);
  const rows = [...lengths].sort((a, b) => a - b).map((length) => {
    const cells = page.rows.map((_, column) => {
      const here = answers.filter((one) =>
        one.setting.length === length && page.bins[one.setting.depth] === column);
      const [found, of] = ["found", "of"].map((name) =>
        here.reduce((sum, one) => sum + one[name], 0));
      const button = element("button", [], { type: "button" });
      button.addEventListener("click", () => go(length, column, here.at(-1)));
      const where = whereabouts({ depth: here.at(-1)?.setting.depth ?? page.rows[column], length });
      const unseen = (text) => element("span", text, { class: "unseen" });
      if (here.length) {
        const [fill, ink] = page.shades[Math.round(((page.shades.length - 1) * found) / of)];
        button.style.background = fill;
        button.style.color = ink;
        const sign = of > 1 ? `${found}/${of}` : found ? "✓" : "✗";
        const told = say("cell", { found, of });
        button.append(element("span", sign, { "aria-hidden": "true" }), unseen(told));
        button.setAttribute("aria-label", `${told} ${where}`);
      } else if (current?.length === length && page.bins[current.depth] === column) {
        button.append("…");
      } else {
        button.append(unseen(say("not asked")));
        button.setAttribute("aria-label", `${say("not asked")} ${where}`);
      }
      return element("td", button);
    });
    return element("tr", [element("th", counted(length), { scope: "row" }), ...cells]);
  });
  const body = place.querySelector("tbody");
  const all = () => [...body.querySelectorAll("button")];
  const focused = all().indexOf(document.activeElement);
  body.replaceChildren(...rows);
  all()[focused]?.focus();
  place.hidden = !rows.length;
}
