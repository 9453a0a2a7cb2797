/** How long a session certainly lasts, over days. */
import { expect, it } from "vitest";
import { Lifetime } from "./connection-lifetime.js";

const SESSION_MS = 12_000;
const BEAT_MS = SESSION_MS / 12;
const DAY_MS = 24 * 3_600_000;

it("keeps up with the time, however long the session has lasted and however much is asked of it", () => {
  for (const everyMs of [BEAT_MS, 1]) {
    const lifetime = new Lifetime(SESSION_MS, 0);
    const untilMs = everyMs === 1 ? 60_000 : 3 * DAY_MS;
    for (let nowMs = 0; nowMs <= untilMs; nowMs += everyMs) {
      // A touch reaches the leader within a sixth of the session; the samples are a little apart.
      const oldestMs = nowMs - SESSION_MS / 6 - BEAT_MS - SESSION_MS / 100;
      const lastsMs = lifetime.lastsUntilMs(nowMs);
      if (lastsMs < Math.max(0, oldestMs) + SESSION_MS || lastsMs > nowMs + SESSION_MS) {
        expect.unreachable(`at ${nowMs} it lasts until ${lastsMs}`);
      }
      lifetime.touched({ sentMs: nowMs, answeredMs: nowMs + 1 });
    }
  }
});

it("counts no touch that the leader may not know of", () => {
  const lifetime = new Lifetime(SESSION_MS, 0);
  lifetime.touched({ sentMs: 1_000, answeredMs: 1_500 });
  expect(lifetime.lastsUntilMs(1_500)).toBe(SESSION_MS);
  expect(lifetime.lastsUntilMs(1_500 + SESSION_MS / 6 - 1)).toBe(SESSION_MS);
  expect(lifetime.lastsUntilMs(1_500 + SESSION_MS / 6)).toBe(1_000 + SESSION_MS);
});
