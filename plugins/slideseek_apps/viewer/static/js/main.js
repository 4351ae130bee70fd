// Start: load the archive's metadata, then show the state in the address.
import { getArchive, getCompletions, upload } from "./api.js";
import { Browse } from "./browse.js";
import { Collections } from "./collections.js";
import { el, problem, toast } from "./dom.js";
import { startKeys } from "./keys.js";
import { Files, Recent } from "./recent.js";
import { go, listen, noFilters, state, toBrowse, toQuery } from "./state.js";
import { startWords } from "./words.js";
import { Work } from "./work.js";

const content = document.getElementById("content");
const text = document.getElementById("text");
const BROWSED = ["text", "page", "sort", "falling", "facet", "range", "collection", "view"];
let typing = 0;
const asked = (now) => Boolean(now.slide || now.patch || now.words);

async function start() {
  let archive;
  try {
    archive = await getArchive();
  } catch (error) {
    content.replaceChildren(problem(error, () => location.reload()));
    return;
  }
  document.getElementById("archive-name").textContent = `${archive.name} · ${archive.slides.toLocaleString("en")} slides`;
  const collections = new Collections(archive);
  const titled = (name) => { if (asked(state())) document.title = `${name ? `${name} · ` : ""}Search · ${archive.name}`; };
  const browse = new Browse(archive, collections), work = new Work(archive, collections, titled);

  const show = (now, before) => {
    if (!asked(now)) document.title = `${archive.name} · slideseek`;
    else if (!before || now.slide !== before.slide || now.patch !== before.patch || now.words !== before.words) titled("");
    text.value = now.text;
    const place = asked(now) ? work : browse;
    const entered = place.element.parentNode !== content;
    if (entered) {
      if (place === browse) work.leave();
      content.replaceChildren(place.element);
      // What had the focus is gone with the other view.
      if (before) content.focus({ preventScroll: true });
    }
    if (place === work) work.show(entered ? null : before);
    else if (entered || !before || BROWSED.some((name) => String(now[name]) !== String(before[name]))) browse.show();
  };
  listen(show);
  wire();
  wireCompletion();
  startWords(archive);
  const recent = new Recent();
  document.getElementById("recent").addEventListener("click", () => recent.show());
  document.getElementById("upload-label").hidden = !archive.with_pixels; // imported features cannot be made of an image
  const files = document.getElementById("files");
  files.hidden = !archive.files;
  if (archive.files) { const list = new Files(); files.addEventListener("click", () => list.show()); }
  collections.load();
  startKeys({ work, browse, theme: changeTheme });
  show(state(), null);
}

function wire() {
  document.getElementById("home").addEventListener("click", (event) => {
    event.preventDefault();
    go({ ...toBrowse, ...noFilters, page: 1 });
  });
  const find = () => go({ ...toBrowse, text: text.value.trim(), page: 1 }, { replace: !asked(state()) });
  text.addEventListener("input", () => { clearTimeout(typing); if (!asked(state())) typing = setTimeout(find, 250); });
  document.getElementById("find").addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(typing); find(); });
  document.getElementById("theme").addEventListener("click", changeTheme);
  const chosen = document.getElementById("upload");
  chosen.addEventListener("change", () => { if (chosen.files[0]) send(chosen.files[0]); chosen.value = ""; });
  document.addEventListener("click", (event) => {
    // A control that was drawn again is no longer in the page: its menu stays open.
    if (!event.target.isConnected) return;
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => { event.preventDefault(); if (event.dataTransfer?.files[0]) send(event.dataTransfer.files[0]); });
}

// Values of fields are offered while one types; choosing one filters by it.
function wireCompletion() {
  const list = document.getElementById("text-values");
  let asking = null, offered = new Map();
  text.addEventListener("input", async () => {
    const pick = offered.get(text.value);
    if (pick) {
      clearTimeout(typing);
      const { facet } = state();
      return void go({ ...toBrowse, text: "", facet: facet.includes(pick) ? facet : [...facet, pick], page: 1 });
    }
    asking?.abort();
    asking = new AbortController();
    const found = text.value.trim().length < 2 ? [] : await getCompletions(text.value.trim(), asking.signal).catch(() => []);
    offered = new Map(found.map(({ field, value }) => [`${field}=${value}`, `${field}=${value}`]));
    list.replaceChildren(...found.map(({ field, value, slides }) => el("option", { value: `${field}=${value}` }, `${slides} slides`)));
  });
}

async function send(file) {
  toast(`Uploading ${file.name} …`);
  try {
    const kept = await upload(file);
    toast(`${kept.width} × ${kept.height} px`);
    go(toQuery({ patch: kept.patch }));
  } catch (error) {
    toast([error.message, error.fix].filter(Boolean).join(": "));
  }
}

function changeTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("slideseek-theme", root.dataset.theme);
}

start();
