// Collections of slides with notes: a filter of the list, and a dialog to keep a slide.
import { collect, deleteCollection, discard, getCollections, getHolding, makeCollection, renameCollection } from "./api.js";
import { dialog, el, problem, toast } from "./dom.js";
import { go, noHit, state } from "./state.js";

export class Collections {
  constructor(archive) {
    this.writable = archive.writable;
    this.all = [];
    this.dialog = dialog("Keep this slide");
  }

  async load() {
    this.all = await getCollections().catch(() => []);
  }

  name(number) {
    return this.all.find((one) => String(one.id) === number)?.name ?? "";
  }

  // The collections as a filter of the list of slides.
  facet() {
    if (!this.all.length) return null;
    const current = state().collection;
    return el("div", { class: "facet", role: "group", "aria-label": "Collections" }, el("h2", {}, "Collections"),
      ...this.all.map((one) => el("label", {},
        el("input", { type: "checkbox", checked: current === String(one.id), "data-focus": `collection ${one.id}`, onchange: (event) => go({ collection: event.target.checked ? String(one.id) : "", page: 1, ...noHit }) }),
        el("span", { class: "value", title: one.name }, one.name), el("span", { class: "count" }, String(one.slides)))));
  }

  // What can be done with a collection that is shown.
  actions(number) {
    if (!this.writable) return null;
    const rename = async () => {
      const name = prompt("Name of the collection", this.name(number));
      if (name && await tried(() => renameCollection(number, name))) this.onchange?.();
    };
    const remove = async () => {
      if (confirm(`Delete the collection “${this.name(number)}” and its notes? The slides stay.`) && await tried(() => deleteCollection(number))) go({ collection: "", page: 1 });
    };
    return el("span", { class: "choice" }, el("button", { class: "button", type: "button", id: "rename", onclick: rename }, "Rename"), el("button", { class: "button", type: "button", id: "delete", onclick: remove }, "Delete"));
  }

  button(slide) {
    if (!this.writable || !slide?.key) return null;
    return el("button", { class: "button", type: "button", "data-focus": `keep ${slide.key}`, title: "Keep this slide in a collection, with a note", onclick: () => this.keep(slide) }, "Keep …");
  }

  async keep(slide) {
    try {
      await this.load();
      const { notes } = await getHolding(slide.key);
      const chosen = el("select", { id: "keep-in", "aria-label": "Collection" }, ...this.all.map((one) => el("option", { value: String(one.id) }, one.name)), el("option", { value: "" }, "New collection …"));
      const name = el("input", { type: "text", id: "keep-name", maxlength: 200, placeholder: "Name of the new collection", "aria-label": "Name of the new collection" });
      const text = el("textarea", { id: "keep-note", rows: 4, maxlength: 5000, "aria-label": "Note", placeholder: "Note" });
      const drop = el("button", { class: "button", type: "button", onclick: () => done(() => discard(chosen.value, slide.key), "Taken out") }, "Take out");
      const show = () => { name.hidden = chosen.value !== ""; text.value = notes[chosen.value] ?? ""; drop.hidden = notes[chosen.value] === undefined; };
      const done = async (work, said) => { if (await tried(work)) { this.dialog.element.close(); toast(said); await this.load(); } };
      const save = () => done(async () => collect(chosen.value || (await makeCollection(name.value)).id, slide.key, text.value), "Kept");
      const held = Object.keys(notes)[0];
      if (held) chosen.value = held;
      chosen.addEventListener("change", show);
      show();
      this.dialog.show(el("p", { class: "sub" }, slide.id), el("div", { class: "form" }, chosen, name, text, el("span", { class: "choice" }, el("button", { class: "button primary", type: "button", id: "keep-save", onclick: save }, "Save"), drop)));
    } catch (error) {
      this.dialog.show(problem(error));
    }
  }
}

async function tried(work) {
  try {
    await work();
    return true;
  } catch (error) {
    toast([error.message, error.fix].filter(Boolean).join(": "));
    return false;
  }
}
