// Dialogs that start a search: past ones, and slide files of the server's folders.
import { getFiles, getRecent } from "./api.js";
import { dialog, el, problem } from "./dom.js";
import { go, noFilters, toQuery } from "./state.js";

export class Recent {
  constructor() { this.dialog = dialog("Recent searches"); }

  async show() {
    try {
      const found = await getRecent();
      const open = ({ address }) => {
        this.dialog.element.close();
        const plain = { k: 10, mode: "horizontal", same: false, apart: false, stains: false };
        const changes = Object.fromEntries(Object.entries(address).map(([name, value]) => [name, ["same", "apart", "stains", "case"].includes(name) ? true : name === "k" ? Number(value) : value]));
        go({ ...noFilters, vs: "", ...plain, ...toQuery(changes) });
      };
      const row = (one) => el("li", {},
        one.address ? el("button", { class: "link", type: "button", onclick: () => open(one) }, one.title) : el("span", { title: "This search cannot be repeated from the page" }, one.title),
        el("span", { class: "sub" }, `${one.asked.replace("T", " ").slice(0, 16)} · ${one.engine} · ${one.settings}`),
        one.hits.length ? el("span", { class: "sub" }, one.hits.join(", ")) : null);
      this.dialog.show(found.length ? el("ul", { class: "rows tall" }, ...found.map(row)) : el("p", { class: "sub" }, "No searches yet."));
    } catch (error) {
      this.dialog.show(problem(error));
    }
  }
}

export class Files {
  constructor() { this.dialog = dialog("Search with a slide file"); }

  async show() {
    this.dialog.show(el("p", { class: "sub", role: "status" }, "Looking through the folders …"));
    try {
      const files = await getFiles();
      const list = el("ul", { class: "rows tall" });
      const draw = (text) => {
        const words = text.toLowerCase().split(/\s+/);
        const found = files.filter(({ name }) => words.every((word) => name.toLowerCase().includes(word)));
        list.replaceChildren(...found.slice(0, 200).map(({ key, name }) => el("li", {}, el("button", { class: "link", type: "button", onclick: () => { this.dialog.element.close(); go(toQuery({ slide: key })); } }, name))));
        if (!found.length) list.replaceChildren(el("li", { class: "sub" }, "No slide file with this name."));
      };
      draw("");
      this.dialog.show(el("input", { type: "search", "aria-label": "Find a file", placeholder: "Find a file …", oninput: (event) => draw(event.target.value) }), list);
    } catch (error) {
      this.dialog.show(problem(error));
    }
  }
}
