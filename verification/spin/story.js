// What happened on the way to an error: the lines that the model prints while SPIN follows the trail.

const STEP = /^(?:- tick|(?:store|network|operator|client \d): )/;
const CYCLE = "<<<<<START OF CYCLE";
/** Repeated blocks of at most so many lines are left out of a story without an end. */
const LONGEST_BLOCK = 4;

/**
 * @param {string} text what SPIN prints
 * @param {boolean} isLiveness whether the trail ends in a cycle
 * @returns {{ broken: string, story: string[] }}
 */
export function storyOf(text, isLiveness) {
  const lines = text.split("\n").map((line) => line.trim());
  const end = lines.findIndex((line) => line.startsWith("spin: trail ends"));
  const before = end < 0 ? lines : lines.slice(0, end);
  const broken = before.find((line) => line.startsWith("broken: "))?.slice("broken: ".length);
  if (!isLiveness) return { broken: broken ?? "unknown", story: steps(before) };
  const begin = before.findIndex((line) => line.startsWith(CYCLE));
  const lead = begin < 0 ? before : before.slice(0, begin);
  const cycle = begin < 0 ? [] : before.slice(begin);
  return {
    broken: "GRANTED_AT_LAST",
    story: [
      ...withoutRepeats(withoutTicks(steps(lead))),
      "from here on, for ever:",
      ...withoutRepeats(withoutTicks(steps(cycle))),
    ],
  };
}

/**
 * @param {string[]} lines
 * @returns {string[]} one for each step, ticks added up
 */
function steps(lines) {
  /** @type {string[]} */
  const story = [];
  let ticks = 0;
  const addTicks = () => {
    if (ticks > 0) story.push(ticks === 1 ? "- 1 tick" : `- ${ticks} ticks`);
    ticks = 0;
  };
  for (const line of lines.filter((one) => STEP.test(one))) {
    if (line === "- tick") {
      ticks += 1;
      continue;
    }
    addTicks();
    const isGrant = /: (?:GRANTED|RENEWED), /.test(line);
    const plain = isGrant ? line : line.replace(/, token \d+, \d+ ticks left$/, "");
    story.push(plain.replace(/\b1 ticks\b/, "1 tick"));
  }
  addTicks();
  return story;
}

/** Of a story without an end, in which time passes at every step. */
const withoutTicks = (/** @type {string[]} */ story) =>
  story.filter((line) => !line.startsWith("- "));

/**
 * A cycle takes any number of turns, and says no more in the second one than in the first.
 * @param {string[]} story
 */
function withoutRepeats(story) {
  /** @type {string[]} */
  const kept = [];
  for (const line of story) {
    kept.push(line);
    for (let length = 1; length <= LONGEST_BLOCK; length += 1) {
      const last = kept.slice(-length);
      const before = kept.slice(-2 * length, -length);
      if (before.length === length && last.every((one, at) => one === before[at]))
        kept.splice(-length);
    }
  }
  return kept;
}
