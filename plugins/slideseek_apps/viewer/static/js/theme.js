// Runs before the page is drawn, to avoid a flash of the wrong theme. Not a module: modules run too late.
(() => {
  const kept = localStorage.getItem("slideseek-theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
})();
