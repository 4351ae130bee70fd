// The JSON API. Every failure is an Error with a `fix`: what to do next.
async function fetched(path, options = {}) {
  let answer;
  try {
    answer = await fetch(`api/${path}`, { credentials: "same-origin", ...options });
  } catch (cause) {
    if (cause.name === "AbortError") throw cause;
    throw failure("The server does not answer", "Check that 'slideseek serve' is still running.", 0);
  }
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  // The page itself sends only well-formed values: this one came from an edited or truncated address.
  if (answer.status === 422) throw failure("The address of this page is invalid", "Go back to the list of slides.", 422);
  throw failure(body.error || `The server answered ${answer.status}`, body.fix || "", answer.status);
}

const ask = async (path, options) => (await fetched(path, options)).json();

function failure(message, fix, status) {
  return Object.assign(new Error(message), { fix, status });
}

const sent = (method, body, signal) => ({ method, headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal });
const post = (path, body, signal) => ask(path, sent("POST", body, signal));

export const getArchive = () => ask("archive");
export const getReadiness = () => ask("readiness");
export const getSlide = (key, signal) => ask(`slides/${key}`, { signal });
export const getSlides = (parameters, signal) => ask(`slides?${parameters}`, { signal });
export const getFacets = (parameters, signal) => ask(`facets?${parameters}`, { signal });
export const getCompletions = (text, signal) => ask(`completions?${new URLSearchParams({ text })}`, { signal });
export const getPatchMap = (key, engine, signal) => ask(`slides/${key}/patches?${new URLSearchParams({ engine })}`, { signal });
export const getFiles = () => ask("files");
export const search = (body, signal) => post("search", body, signal);
export const explain = (body, signal) => post("explain", body, signal);
export const getPlaces = (body, signal) => post("places", body, signal);
export const getCalibration = (body) => post("calibration", body);
export const getRecent = () => ask("searches");
export const upload = (file) => ask("patches", { method: "POST", headers: { "content-type": file.type || "application/octet-stream" }, body: file });

export const getCollections = () => ask("collections");
export const makeCollection = (name) => post("collections", { name });
export const renameCollection = (number, name) => ask(`collections/${number}`, sent("PUT", { name }));
export const deleteCollection = (number) => ask(`collections/${number}`, { method: "DELETE" });
export const getHolding = (key) => ask(`slides/${key}/collections`);
export const collect = (number, key, note) => ask(`collections/${number}/slides/${key}`, sent("PUT", { note }));
export const discard = (number, key) => ask(`collections/${number}/slides/${key}`, { method: "DELETE" });
export const getAnnotations = (key, signal) => ask(`slides/${key}/annotations`, { signal });
export const putAnnotations = (key, body) => ask(`slides/${key}/annotations`, sent("PUT", body));

export const getFile = async (path, body) => (await fetched(path, body ? sent("POST", body) : {})).blob();

export const tileAddress = (slide, level, column, row) =>
  `api/slides/${slide.key}/tiles/${level}/${column}/${row}?v=${encodeURIComponent(slide.version)}`;
export const fieldAddress = (slide, [x, y, extent], side) =>
  `api/slides/${slide.key}/field?x=${Math.round(x)}&y=${Math.round(y)}&extent=${extent.toFixed(2)}&side=${side}&v=${encodeURIComponent(slide.version)}`;
export const patchAddress = (patch) => `api/patches/${patch}`;
