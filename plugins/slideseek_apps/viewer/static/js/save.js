// The Save menu. Files have pseudonyms unless real ids are asked for.
import { el, toast } from "./dom.js";

let identified = false;

// items: [text, work], where work gets whether real ids are wanted; null items are left out.
export function saveMenu(items) {
  const box = el("input", { type: "checkbox", id: "identified", checked: identified, onchange: () => { identified = box.checked; } });
  const menu = el("details", { class: "menu", id: "save" }, el("summary", { class: "button" }, "Save"),
    el("div", {}, ...items.filter(Boolean).map(([text, work]) => el("button", { class: "button", type: "button", onclick: () => run(menu, text, work) }, text)),
      el("label", { title: "Otherwise slides, patients and centres have pseudonyms, and files have no free columns" }, "With real ids", box)));
  return menu;
}

async function run(menu, text, work) {
  menu.open = false;
  menu.querySelector("summary").focus();
  toast(`Saving: ${text} …`);
  try {
    await work(identified);
    toast(`Saved: ${text}`);
  } catch (error) {
    toast([error.message, error.fix].filter(Boolean).join(": "));
  }
}
