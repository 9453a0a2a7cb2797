// Tabs with the same title follow each other, and the choice is remembered.

const KEY = "leasehold-tabs";
const KEPT = 20;

/** @returns {string[]} titles that the reader chose, the last one first */
function remembered() {
  try {
    return /** @type {string[]} */ (JSON.parse(localStorage.getItem(KEY) ?? "[]"));
  } catch {
    return []; // Storage is blocked, or another program wrote the key.
  }
}

/** @param {string} title */
function remember(title) {
  const titles = [title, ...remembered().filter((each) => each !== title)];
  try {
    localStorage.setItem(KEY, JSON.stringify(titles.slice(0, KEPT)));
  } catch {
    // The tabs of this page follow all the same.
  }
  return titles;
}

/**
 * Opens one tab of each group: the title that comes first in the list.
 * @param {readonly string[]} titles
 */
function open(titles) {
  for (const group of document.querySelectorAll(".vp-code-group")) {
    const labels = [...group.querySelectorAll(":scope > .tabs > label")];
    const inGroup = labels.map((label) => label.getAttribute("data-title") ?? "");
    const title = titles.find((each) => inGroup.includes(each));
    if (title === undefined) continue;
    const at = inGroup.indexOf(title);
    const inputs = group.querySelectorAll(":scope > .tabs > input");
    const input = /** @type {HTMLInputElement | undefined} */ (inputs[at]);
    if (input) input.checked = true;
    for (const [index, block] of [...group.querySelectorAll(":scope > .blocks > *")].entries())
      block.classList.toggle("active", index === at);
  }
}

/** Opens the tabs that the reader chose before. */
export const restoreTabs = () => open(remembered());

/** Follows what the reader chooses, by mouse or keyboard. */
export function followTabs() {
  document.addEventListener("change", ({ target }) => {
    if (!(target instanceof HTMLInputElement)) return;
    if (!target.matches(".vp-code-group > .tabs > input")) return;
    const title = target.labels?.[0]?.getAttribute("data-title");
    if (!title) return;
    const before = target.getBoundingClientRect().top;
    open(remember(title));
    // Groups above may have changed their height: the chosen tab stays in place.
    window.scrollBy({ top: target.getBoundingClientRect().top - before, behavior: "instant" });
  });
}
