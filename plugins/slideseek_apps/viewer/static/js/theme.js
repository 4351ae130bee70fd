// Runs before the page is drawn, so that the chosen theme never flashes. Not a module: modules run too late.
(function () {
  const kept = localStorage.getItem("slideseek-theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
})();
