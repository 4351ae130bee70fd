// What a search found: the votes, and one list of hits per engine.
import { el, fieldName, problem, round, thumbnail } from "./dom.js";

export function drawResults(element, { answers, open, hit, by, retry }) {
  const found = answers.filter((one) => one.answer);
  const versus = answers.length > 1;
  const ranks = found.map(({ answer }) => new Map(answer.hits.map((one) => [one.slide.key, one.rank])));
  const parts = [];
  if (versus && found.length === 2) {
    const common = [...ranks[0].keys()].filter((key) => ranks[1].has(key)).length;
    const most = Math.max(ranks[0].size, ranks[1].size);
    parts.push(el("p", { class: "sub", id: "common" }, `${common} of ${most} hits found by both engines`));
  }
  parts.push(el("div", { class: "lists" }, ...answers.map((one, at) => list(one, found.length === 2 ? ranks[1 - at] : null, versus, { open, hit, by, retry }))));
  element.replaceChildren(...parts);
}

function list({ engine, answer, error, waiting }, elsewhere, versus, { open, hit, by, retry }) {
  const head = el("div", { class: "list-head" },
    el("h2", {}, versus ? engine : "Similar slides"),
    answer ? el("span", { class: "time", title: `${answer.candidates} slides compared` }, `${answer.candidates.toLocaleString("en")} compared · ${answer.milliseconds.toFixed(1)} ms`) : null);
  if (error) return el("div", { class: "list" }, head, problem(error, retry));
  if (!answer) {
    return el("div", { class: "list", "aria-busy": "true" }, head, waiting ? el("p", { class: "note" }, el("span", { class: "spinner" }), ` ${waiting}`) : null,
      el("div", { class: "hits" }, ...Array.from({ length: 6 }, () => el("div", { class: "hit skeleton" }))));
  }
  if (!answer.hits.length) {
    return el("div", { class: "list" }, head, el("div", { class: "empty" }, el("p", {}, answer.candidates ? "No hits." : "No slides pass these conditions."),
      el("p", {}, "Search the whole archive, or remove a condition.")));
  }
  return el("div", { class: "list", "data-engine": engine }, head,
    el("div", { class: "votes" }, ...Object.entries(answer.votes).map(([field, one]) => vote(field, one))),
    ...answer.notes.map((text) => el("p", { class: "note" }, text)),
    el("div", { class: "hits" }, ...answer.hits.map((one) => card(one, answer, elsewhere, hit === one.slide.key && by === engine, () => open(one.slide.key, engine)))));
}

function vote(field, { value, agreeing, hits, confidence }) {
  const bar = el("i");
  bar.style.width = `${100 * confidence}%`;
  return el("div", { class: "vote", title: `The most common ${fieldName(field).toLowerCase()} among the hits` },
    el("div", { class: "what" }, `${fieldName(field)} by vote`),
    el("div", { class: "value" }, value),
    el("div", { class: "share" }, `${agreeing} of ${hits} hits agree · ${Math.round(100 * confidence)}%`),
    el("div", { class: "meter" }, bar));
}

function card({ rank, slide, distance, agrees }, answer, elsewhere, current, open) {
  const picture = thumbnail(slide, 384, "");
  picture.append(el("span", { class: "rank" }, String(rank)));
  const mark = agrees === null ? null : agrees
    ? el("span", { class: "mark same", title: "Same diagnosis as the query" }, "✓ ")
    : el("span", { class: "mark other", title: "Different diagnosis from the query" }, "≠ ");
  const other = elsewhere === null ? null : el("span", { class: "elsewhere" }, elsewhere.has(slide.key) ? `rank ${elsewhere.get(slide.key)} in the other` : "only here");
  return el("button", { class: "hit", type: "button", "aria-current": current ? "true" : "false", "data-key": slide.key, onclick: open,
    "aria-label": `Hit ${rank}: ${slide.label || slide.id}, distance ${round(distance)}` },
    picture,
    el("span", { class: "words" },
      el("span", { class: "label" }, mark, slide.label || "No diagnosis"),
      el("span", { class: "sub", title: slide.id }, [slide.site, slide.patient].filter(Boolean).join(" · ") || slide.id),
      el("span", { class: "distance" }, `distance ${round(distance, answer.unit)}`),
      other));
}
