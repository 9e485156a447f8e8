// The language that the controls speak.

const NAMED = ["title", "aria-label"];

// What stood on the controls before anything else came to stand there: [node, attribute, text].
let english;

function collect(form) {
  const walker = document.createTreeWalker(form, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
  english = [];
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node.nodeType === Node.TEXT_NODE) english.push([node, null, node.data]);
    else for (const name of NAMED) {
      if (node.hasAttribute(name)) english.push([node, name, node.getAttribute(name)]);
    }
  }
}

// Let a form speak: `words` has what stands there instead of each of its English texts.
export function speak(form, words) {
  if (!english) collect(form);
  for (const [node, name, text] of english) {
    const said = text.replace(text.trim(), (known) => words[known] ?? known);
    if (name) node.setAttribute(name, said);
    else node.data = said;
  }
}
