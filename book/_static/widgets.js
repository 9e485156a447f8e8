// Where the widgets' manager finds its fonts: beside itself, whichever page has loaded it.
// It asks require.js for its own address, which is else taken to be relative to the page.
require.config({ baseUrl: new URL("vendor/", document.currentScript.src).href });
