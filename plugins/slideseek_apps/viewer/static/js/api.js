// The JSON API. Every failure is an Error with a `fix`: what to do next.
async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(`api/${path}`, { credentials: "same-origin", ...options });
  } catch (cause) {
    if (cause.name === "AbortError") throw cause;
    throw failure("The server does not answer", "Check that 'slideseek serve' is still running.", 0);
  }
  if (answer.ok) return answer.json();
  const body = await answer.json().catch(() => ({}));
  // The page itself sends only well-formed values: this one came from an edited or truncated address.
  if (answer.status === 422) throw failure("The address of this page is invalid", "Go back to the list of slides.", 422);
  throw failure(body.error || `The server answered ${answer.status}`, body.fix || "", answer.status);
}

function failure(message, fix, status) {
  return Object.assign(new Error(message), { fix, status });
}

const post = (path, body, signal) =>
  ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal });

export const getArchive = () => ask("archive");
export const getSlide = (key, signal) => ask(`slides/${key}`, { signal });
export const getSlides = (parameters, signal) => ask(`slides?${parameters}`, { signal });
export const getFacets = (parameters, signal) => ask(`facets?${parameters}`, { signal });
export const search = (body, signal) => post("search", body, signal);
export const explain = (body, signal) => post("explain", body, signal);
export const upload = (file) => ask("patches", { method: "POST", headers: { "content-type": file.type || "application/octet-stream" }, body: file });

export const tileAddress = (slide, level, column, row) =>
  `api/slides/${slide.key}/tiles/${level}/${column}/${row}?v=${encodeURIComponent(slide.version)}`;
export const fieldAddress = (slide, [x, y, extent], side) =>
  `api/slides/${slide.key}/field?x=${x}&y=${y}&extent=${extent.toFixed(2)}&side=${side}&v=${encodeURIComponent(slide.version)}`;
export const patchAddress = (patch) => `api/patches/${patch}`;
