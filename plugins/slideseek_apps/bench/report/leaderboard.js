"use strict";
(() => {
  const body = document.querySelector("tbody");
  const rows = [...body.rows];
  const fields = ["dataset", "protocol", "site"].map((name) => document.getElementById(name));
  const text = document.getElementById("text");
  const count = document.getElementById("count");
  const heads = [...document.querySelectorAll("thead th[data-kind]")];

  function show() {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of body.rows) {
      const fits = fields.every((field) => !field.value || row.dataset[field.id] === field.value) &&
        words.every((word) => row.dataset.words.includes(word));
      row.hidden = !fits;
      if (fits) shown += 1;
    }
    count.textContent = `${shown} of ${rows.length} rows`;
  }

  function sort(head) {
    const column = head.cellIndex;
    const numeric = head.dataset.kind === "number";
    const first = numeric && head.dataset.better !== "lower" ? "descending" : "ascending";
    const now = head.getAttribute("aria-sort");
    const wanted = now === null ? first : now === "ascending" ? "descending" : "ascending";
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", wanted);
    const sign = wanted === "ascending" ? 1 : -1;
    const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    rows.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (!numeric) return sign * x.localeCompare(y);
      if (x === "" || y === "") return (x === "") - (y === "");  // unknown numbers stay below, both ways
      return sign * (Number(x) - Number(y));
    });
    body.append(...rows);
    show();
  }

  for (const head of heads) {
    const button = head.querySelector("button");
    button.disabled = false;
    button.addEventListener("click", () => sort(head));
  }
  for (const field of [...fields, text]) field.addEventListener("input", show);
  // Numbers compare within one dataset, protocol and site, so the page begins with the first of each.
  for (const field of fields) field.selectedIndex = field.options.length > 1 ? 1 : 0;
  document.getElementById("filters").hidden = false;
  sort(document.getElementById("macro"));
})();
