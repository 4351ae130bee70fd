// Start: load the archive's metadata, then show the state in the address.
import { getArchive, upload } from "./api.js";
import { Browse } from "./browse.js";
import { problem, toast } from "./dom.js";
import { startKeys } from "./keys.js";
import { go, listen, state, toBrowse, toQuery } from "./state.js";
import { Work } from "./work.js";

const content = document.getElementById("content");
const text = document.getElementById("text");
const BROWSED = ["text", "page", "sort", "facet"];
const asked = (now) => Boolean(now.slide || now.patch);

async function start() {
  let archive;
  try {
    archive = await getArchive();
  } catch (error) {
    content.replaceChildren(problem(error, () => location.reload()));
    return;
  }
  document.getElementById("archive-name").textContent = `${archive.name} · ${archive.slides.toLocaleString("en")} slides`;
  const browse = new Browse(), work = new Work(archive);

  const show = (now, before) => {
    document.title = asked(now) ? `Search · ${archive.name}` : `${archive.name} · slideseek`;
    text.value = now.text;
    const place = asked(now) ? work : browse;
    const entered = place.element.parentNode !== content;
    if (entered) {
      if (place === browse) work.leave();
      content.replaceChildren(place.element);
    }
    if (place === work) work.show(entered ? null : before);
    else if (entered || !before || BROWSED.some((name) => String(now[name]) !== String(before[name]))) browse.show();
  };
  listen(show);
  wire();
  startKeys({ work, browse, theme: changeTheme });
  show(state(), null);
}

function wire() {
  document.getElementById("home").addEventListener("click", (event) => {
    event.preventDefault();
    go({ ...toBrowse, text: "", facet: [], page: 1 });
  });
  let typing = 0;
  const find = () => go({ ...toBrowse, text: text.value.trim(), page: 1 }, { replace: !asked(state()) });
  text.addEventListener("input", () => { clearTimeout(typing); if (!asked(state())) typing = setTimeout(find, 250); });
  document.getElementById("find").addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(typing); find(); });
  document.getElementById("theme").addEventListener("click", changeTheme);
  const chosen = document.getElementById("upload");
  chosen.addEventListener("change", () => { if (chosen.files[0]) send(chosen.files[0]); chosen.value = ""; });
  document.addEventListener("click", (event) => {
    const menu = document.querySelector(".ask details[open]");
    if (menu && !menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => { event.preventDefault(); if (event.dataTransfer?.files[0]) send(event.dataTransfer.files[0]); });
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
