// What the vote of the hits means, and how often it is right in this archive.
import { getCalibration } from "./api.js";
import { dialog, el, fieldName, problem } from "./dom.js";

const made = {};

export async function explainVote(field, vote, body) {
  made.dialog ??= dialog("How sure is this?");
  const name = fieldName(field).toLowerCase();
  const share = Math.round(100 * vote.confidence);
  const said = [
    el("p", {}, el("strong", {}, `${vote.agreeing} of ${vote.hits} hits`), ` have the ${name} “${vote.value}”. Their share, ${share} %, is the confidence of the vote. It says how much the hits agree, not how likely the ${name} is.`),
  ];
  made.dialog.show(...said, el("p", { class: "sub", role: "status" }, el("span", { class: "spinner" }), " Searching with slides of the archive whose answer is known …"));
  try {
    const found = (await getCalibration(body))[field];
    const same = found?.searched ? el("p", {}, `Of ${found.searched} slides of this archive whose hits agreed just as much, the vote was right for `, el("strong", {}, `${found.right} (${percent(found.right, found.searched)})`), ".")
      : el("p", {}, "No slide of this archive that was tried has hits that agree just as much, so how often such a vote is right is not known.");
    const all = found?.all_searched ? el("p", {}, `Over all ${found.all_searched} slides tried, it was right for ${found.all_right} (${percent(found.all_right, found.all_searched)}).`) : null;
    made.dialog.show(...said, same, all ?? "", el("p", { class: "sub" }, "Measured now, with the same engine, number of hits and filters; each slide’s own patient is left out. An encoder that was trained on these slides is right more often here than on new ones."));
  } catch (error) {
    made.dialog.show(...said, problem(error));
  }
}

const percent = (part, whole) => `${Math.round((100 * part) / whole)} %`;
