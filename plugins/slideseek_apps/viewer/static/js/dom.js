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

export function thumbnail(slide, side, alt) {
  const picture = el("div", { class: "picture loading" });
  const image = el("img", { alt, loading: "lazy", decoding: "async", draggable: "false" });
  image.addEventListener("load", () => picture.classList.remove("loading"));
  image.addEventListener("error", () => {
    picture.classList.replace("loading", "missing");
    picture.replaceChildren("No picture: cannot read the file");
  });
  image.src = `api/slides/${slide.key}/thumbnail?side=${side}&v=${encodeURIComponent(slide.version)}`;
  picture.append(image);
  return picture;
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

export const fieldName = (name) => ({ label: "Diagnosis", center: "Centre", site: "Site" }[name] || name.replaceAll("_", " "));

export function round(number, unit = "") {
  const text = Number.isInteger(number) ? String(number) : Math.abs(number) >= 100 ? number.toFixed(1) : number.toPrecision(3);
  return unit ? `${text} ${unit}` : text;
}
