// What a search found: the votes, and one list of hits per engine, as pictures or as a table.
import { fieldAddress } from "./api.js";
import { el, fieldName, icon, problem, redraw, round, thumbnail } from "./dom.js";

// answers: per engine. marks: by key, true for relevant. shown: what the page does with a hit.
export function drawResults(element, { answers, marks, view, hit, by, actions }) {
  const found = answers.filter((one) => one.answer);
  const versus = answers.length > 1;
  const ranks = new Map(found.map(({ engine, answer }) => [engine, new Map(answer.hits.map((one) => [one.slide.key, one.rank]))]));
  const parts = [actions.marksBar()];
  if (versus && found.length > 1) parts.push(el("p", { class: "sub", id: "common", role: "status" }, agreement(ranks)));
  parts.push(el("div", { class: "lists" }, ...answers.map((one) => list(one, found.length > 1 ? ranks : null, versus, { marks, view, hit, by, actions }))));
  const { scrollTop } = element;
  redraw(element, ...parts);
  element.scrollTop = scrollTop;
}

function agreement(ranks) {
  const all = [...ranks.values()];
  const common = [...all[0].keys()].filter((key) => all.every((one) => one.has(key))).length;
  const most = Math.max(...all.map((one) => one.size));
  return `${common} of ${most} hits found by ${all.length === 2 ? "both" : `all ${all.length}`} engines`;
}

function list({ engine, answer, error, waiting, places }, ranks, versus, { marks, view, hit, by, actions }) {
  const head = el("div", { class: "list-head" },
    el("h2", {}, versus ? engine : "Similar slides"),
    answer ? el("span", { class: "time", title: `${answer.candidates} slides compared` }, `${answer.candidates.toLocaleString("en")} compared · ${answer.milliseconds.toFixed(1)} ms`) : null);
  if (error) return el("div", { class: "list" }, head, problem(error, actions.retry));
  if (!answer) {
    return el("div", { class: "list", "aria-busy": "true" }, head, waiting ? el("p", { class: "note", role: "status" }, el("span", { class: "spinner" }), ` ${waiting}`) : null,
      el("div", { class: "hits" }, ...Array.from({ length: 6 }, () => el("div", { class: "hit skeleton" }))));
  }
  if (!answer.hits.length) {
    return el("div", { class: "list" }, head, el("div", { class: "empty" }, el("p", {}, answer.candidates ? "No hits." : "No slides pass these conditions."),
      el("p", {}, "Search the whole archive, or remove a condition.")));
  }
  const hits = answer.hits.map((one) => ({ ...one, engine, unit: answer.unit, current: hit === one.slide.key && by === engine, mark: marks.get(one.slide.key), place: places?.[one.slide.key], elsewhere: elsewhere(ranks, engine, one.slide.key) }));
  return el("div", { class: "list", "data-engine": engine }, head,
    el("div", { class: "votes" }, ...Object.entries(answer.votes).map(([field, one]) => vote(field, one, engine, actions))),
    ...answer.notes.map((text) => el("p", { class: "note" }, text)),
    view === "table" ? table(hits, actions) : el("ol", { class: "hits" }, ...hits.map((one) => card(one, actions))));
}

// Where the other engines have a hit: text, and whether all of them have it.
function elsewhere(ranks, engine, key) {
  if (!ranks) return null;
  const others = [...ranks].filter(([name]) => name !== engine);
  const found = others.filter(([, rank]) => rank.has(key));
  const all = found.length === others.length;
  if (!found.length) return { text: "only here", all };
  return { text: others.length === 1 ? `rank ${found[0][1].get(key)} in the other` : found.map(([name, rank]) => `${name}: ${rank.get(key)}`).join(", "), all };
}

function vote(field, one, engine, actions) {
  const { value, agreeing, hits, confidence } = one;
  const bar = el("i");
  bar.style.width = `${100 * confidence}%`;
  return el("div", { class: "vote" },
    el("div", { class: "what" }, `${fieldName(field)} by vote`,
      el("button", { class: "link", type: "button", "data-focus": `vote ${engine} ${field}`, onclick: () => actions.explainVote(field, one, engine) }, "How sure?")),
    el("div", { class: "value" }, value),
    el("div", { class: "share" }, `${agreeing} of ${hits} hits agree · ${Math.round(100 * confidence)}%`),
    el("div", { class: "meter" }, bar));
}

const open = (one, actions) => () => actions.open(one.slide.key, one.engine);

function agreeMark(agrees) {
  if (agrees === null) return null;
  return agrees ? el("span", { class: "mark same", title: "Same diagnosis as the query" }, "✓\u00a0") : el("span", { class: "mark other", title: "Different diagnosis from the query" }, "≠\u00a0");
}

function judge({ slide, mark, engine, rank }, actions) {
  const button = (good, sign, text) => el("button", { class: `judge ${good ? "good" : "bad"}`, type: "button", "aria-pressed": String(mark === good), "data-focus": `judge ${engine} ${slide.key} ${good}`,
    "aria-label": `Hit ${rank} is ${text}`, title: `Mark as ${text}`, onclick: () => actions.mark(slide.key, mark === good ? null : good) }, icon(sign));
  return el("span", { class: "judges" }, button(true, "yes", "relevant"), button(false, "no", "not relevant"));
}

function card(one, actions) {
  const { rank, slide, distance, agrees, place, elsewhere: other, current, unit } = one;
  const around = place && [place[0] - place[2], place[1] - place[2], 3 * place[2]];
  const picture = thumbnail(slide, 384, "", place ? fieldAddress(slide, around, 384) : "");
  picture.append(el("span", { class: "rank" }, String(rank)));
  if (place) picture.append(el("span", { class: "place" }, "matching place"), el("span", { class: "place-box", "aria-hidden": "true" }));
  return el("li", { class: `hit${one.mark === undefined ? "" : one.mark ? " relevant" : " rejected"}${other?.all ? " agreed" : ""}`, "aria-current": current ? "true" : "false", "data-key": slide.key },
    el("button", { class: "open", type: "button", onclick: open(one, actions), "data-focus": `hit ${one.engine} ${slide.key}`, "aria-label": `Hit ${rank}: ${slide.label || slide.id}, distance ${round(distance)}` },
      picture,
      el("span", { class: "words" },
        el("span", { class: "label" }, agreeMark(agrees), slide.label || "No diagnosis"),
        el("span", { class: "sub", title: slide.id }, [slide.site, slide.patient].filter(Boolean).join(" · ") || slide.id),
        el("span", { class: "distance" }, `distance ${round(distance, unit)}`),
        other ? el("span", { class: "elsewhere" }, other.text) : null)),
    judge(one, actions));
}

function table(hits, actions) {
  return el("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": "Table of hits" }, el("table", { class: "slide-table" },
    el("thead", {}, el("tr", {}, ...["Rank", "Id", "Distance", "Relevant?", "Diagnosis", "Site", "Patient"].map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, ...hits.map((one) => el("tr", { class: `hit row${one.mark === undefined ? "" : one.mark ? " relevant" : " rejected"}`, "aria-current": one.current ? "true" : "false", "data-key": one.slide.key },
      el("td", {}, String(one.rank)),
      el("th", { scope: "row" }, el("button", { class: "link open", type: "button", "data-focus": `hit ${one.engine} ${one.slide.key}`, onclick: open(one, actions) }, one.slide.id)),
      el("td", { class: "number" }, round(one.distance, one.unit)), el("td", {}, judge(one, actions)),
      el("td", { class: "label" }, agreeMark(one.agrees), one.slide.label), el("td", {}, one.slide.site), el("td", {}, one.slide.patient))))));
}
