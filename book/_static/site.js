// What the theme leaves out for readers who use a keyboard or a screen reader.

// The arrows that fold the table of contents say what they fold.
for (const summary of document.querySelectorAll("nav details > summary:not([aria-label])")) {
  const link = summary.closest("li")?.querySelector("a");
  summary.setAttribute("aria-label", `Pages within ${link?.textContent.trim() || "this chapter"}`);
}

// What a button or a fold says is its name: the theme has others.
for (const said of document.querySelectorAll(".search-button-field, details.hide > summary")) said.removeAttribute("aria-label");

// The logo stands beside the table of contents, in no landmark.
const side = document.querySelector(".bd-sidebar-primary");
if (side && !side.hasAttribute("role")) {
  side.setAttribute("role", "complementary");
  side.setAttribute("aria-label", "The book");
}

// A table that does not fit beside the page's contents gets their room.
const wide = (table) => table.scrollWidth > table.clientWidth + 1;
if ([...document.querySelectorAll(".bd-article table")].some(wide)) document.documentElement.classList.add("wide");

// What moves sideways can be reached and moved by keys.
function reachable() {
  for (const box of document.querySelectorAll(".bd-article :is(table, pre, div.cell_output)")) {
    const moves = box.scrollWidth > box.clientWidth && getComputedStyle(box).overflowX !== "visible";
    if (moves) box.tabIndex = 0;
    else if (box.getAttribute("tabindex") === "0") box.removeAttribute("tabindex");
  }
}
addEventListener("load", reachable);

// A figure that fits a phone has small letters: a touch shows it in its own size, and another one back.
for (const figure of document.querySelectorAll(".bd-article div.cell_output > img")) {
  figure.addEventListener("click", () => figure.classList.toggle("whole"));
}
document.fonts.ready.then(reachable);
addEventListener("resize", reachable);
addEventListener("click", () => setTimeout(reachable));

// The search quotes what a page says, not its buttons and its table of contents.
if (typeof Search !== "undefined") {
  // Lessons come before the reference.
  Scorer.score = ([page, , , , score]) => score - (page.startsWith("book/reference/") ? 30 : 0);
  const text = Search.htmlToText;
  Search.htmlToText = (source, anchor) => {
    const page = new DOMParser().parseFromString(source, "text/html");
    const article = page.querySelector("article.bd-article");
    if (article) page.querySelector('[role="main"]')?.replaceChildren(article);
    // A formula is quoted without the marks that MathJax looks for.
    for (const formula of page.querySelectorAll(".math")) formula.textContent = formula.textContent.replace(/\\[()[\]]/g, "");
    // Words of two cells or lines would else run into each other.
    for (const part of page.querySelectorAll("td, th, li, dt, dd, p, pre, :is(h1, h2, h3, h4)")) part.append(" ");
    return text(page.documentElement.outerHTML, anchor);
  };
}
