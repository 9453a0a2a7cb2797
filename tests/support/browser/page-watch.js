// Runs in a page of the console.

/**
 * Records the order in which a text arrives in an event, arrives in an answer, and is shown. So a test can
 * distinguish a change that an event announced from one that a later poll found.
 */
globalThis.watchFor = (text) => {
  globalThis.watched = [];
  const note = (what) => {
    if (globalThis.watched.some((before) => before.what === what)) return;
    globalThis.watched.push({ what, atMs: Math.round(performance.now()) });
  };
  // The streams are open already; whatever comes by them is decoded.
  const { decode } = TextDecoder.prototype;
  TextDecoder.prototype.decode = function (...input) {
    const decoded = decode.apply(this, input);
    if (decoded.includes(text)) note("event");
    return decoded;
  };
  const read = Response.prototype.text;
  Response.prototype.text = async function () {
    const body = await read.apply(this);
    if (body.includes(text)) note("answer");
    return body;
  };
  new MutationObserver(() => {
    if (document.querySelector("main")?.textContent.includes(text)) note("shown");
  }).observe(document.body, { childList: true, subtree: true, characterData: true });
};

/** Scrolls down, frame by frame, until the selector matches. @returns the largest number of rows on the way */
globalThis.scrollDownTo = async (selector) => {
  let most = 0;
  while (!document.querySelector(selector)) {
    window.scrollBy(0, document.documentElement.scrollHeight);
    await new Promise((resolve) => requestAnimationFrame(resolve));
    most = Math.max(most, document.querySelectorAll("[role=row]").length);
  }
  return most;
};
