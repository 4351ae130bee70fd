// Build elements. Text is always set as text, never as HTML: ids and labels come from other people's files.
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "selected") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

// Replace the content of an element. What had the focus keeps it: the same control is found again by its mark.
export function redraw(element, ...children) {
  const mark = element.contains(document.activeElement) ? focusMark(document.activeElement) : null;
  element.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  if (mark === null) return;
  const found = mark && element.querySelector(mark);
  if (found) found.focus({ preventScroll: true });
  else (element.closest("#content") ?? element).focus?.({ preventScroll: true });
}

function focusMark(element) {
  if (element.id) return `#${CSS.escape(element.id)}`;
  const marked = element.closest("[data-focus]");
  return marked ? `[data-focus="${CSS.escape(marked.dataset.focus)}"]` : "";
}

// address: of another picture of the slide than the whole of it.
export function thumbnail(slide, side, alt, address = "") {
  if (!slide.pixels) return el("div", { class: "picture plain" }, "Features only");
  const picture = el("div", { class: "picture loading" });
  const image = el("img", { alt, loading: "lazy", decoding: "async", draggable: "false" });
  image.addEventListener("load", () => picture.classList.remove("loading"));
  image.addEventListener("error", () => {
    picture.classList.replace("loading", "missing");
    picture.replaceChildren("No picture: cannot read the file");
  });
  image.src = address || `api/slides/${slide.key}/thumbnail?side=${side}&v=${encodeURIComponent(slide.version)}`;
  picture.append(image);
  return picture;
}

// Offer a file to be saved.
export function download(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// A dialog of the page, filled each time it is opened.
export function dialog(name) {
  const made = el("dialog", { "aria-label": name });
  document.body.append(made);
  // Where something else is the thing to do, as in a form, closing stands back.
  const close = (plain) => el("form", { method: "dialog" }, el("button", { class: plain ? "button" : "button primary" }, "Close"));
  return { element: made, show: (...children) => {
    const again = made.open;
    made.replaceChildren(el("h2", {}, name), ...children);
    made.append(close(made.querySelector(".primary") !== null));
    if (!again) made.showModal();
    else if (!made.contains(document.activeElement)) made.querySelector("input, button").focus();
  } };
}

export function problem(error, retry) {
  return el("div", { class: "problem", role: "alert" },
    el("strong", {}, error.message),
    error.fix ? el("span", { class: "fix" }, error.fix) : null,
    retry ? el("button", { class: "button", type: "button", onclick: retry }, "Try again") : null);
}

let hiding = 0;
export function toast(text) {
  const box = document.getElementById("toast");
  box.textContent = text;
  box.hidden = false;
  clearTimeout(hiding);
  hiding = setTimeout(() => { box.hidden = true; }, 4000);
}

/** Returns the name of a field as people read it: `blur_um` is "Blur (µm)". */
export function fieldName(name) {
  const words = { label: "diagnosis", center: "centre" }[name] || name.replace(/_um$/, " (µm)").replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

export function round(number, unit = "") {
  const text = Number.isInteger(number) ? String(number) : Math.abs(number) >= 100 ? number.toFixed(1) : number.toPrecision(3);
  return unit ? `${text} ${unit}` : text;
}

// Icons are drawn, since fonts differ in the signs they have.
const ICONS = {
  "zoom in": "M8 2v12M2 8h12", "zoom out": "M2 8h12", whole: "M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4", turn: "M13 8a5 5 0 1 1-1.6-3.7M13 1.5v3.3H9.7",
  screen: "M1.5 3h13v10h-13zM4 5.5h3M4 5.5v2.5M12 10.5H9M12 10.5V8", region: "M2.5 4.5h11v7h-11zM5 4.5v7", ruler: "M1.5 10.5l9-9 4 4-9 9zM4 8l1.5 1.5M6.5 5.5L8 7M9 3l1.5 1.5",
  rectangle: "M2.5 3.5h11v9h-11z", polygon: "M8 1.5l6 4.5-2.3 7.5H4.3L2 6z", close: "M3 3l10 10M13 3L3 13", yes: "M2.5 8.5l3.5 4 7.5-9", no: "M3 3l10 10M13 3L3 13",
};
export function icon(name) {
  const made = drawn("svg", { viewBox: "0 0 16 16", width: 15, height: 15, "aria-hidden": "true", class: "icon" });
  made.append(drawn("path", { d: ICONS[name] }));
  return made;
}

// Elements of SVG have a namespace of their own. The browser knows it: no address has to be written here.
const { namespaceURI } = new DOMParser().parseFromString("<svg></svg>", "text/html").querySelector("svg");
export function drawn(tag, attributes) {
  const made = document.createElementNS(namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  return made;
}
