// Jupyter's widgets look for their fonts beside their own modules: these stand in vendor/.
requirejs.config({ baseUrl: new URL("vendor/", document.currentScript.src).href });
