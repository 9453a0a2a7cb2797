import type { GrantRecord } from "leasehold/internal/wire";
import { describe, expect, it } from "vitest";
import { axisOf, holderBars, percentOf, serverNowMs, ticksOf } from "./holder-bars.js";

const NOW = Date.parse("2030-01-01T00:01:00Z");
const at = (seconds: number) => new Date(NOW - 60_000 + seconds * 1_000).toISOString();

function grant(token: number, from: number, changes: Partial<GrantRecord>): GrantRecord {
  return {
    holder: `h${token}`,
    grantId: `g${token}`,
    token,
    state: "live",
    ttlMs: 10_000,
    remainingMs: 0,
    grantedAt: at(from),
    renewedAt: null,
    expiresAt: null,
    endedAt: null,
    metadata: null,
    renewals: null,
    ...changes,
  };
}

const live = grant(4, 50, { remainingMs: 4_000, expiresAt: at(64) });
const expired = grant(3, 30, { state: "expired", expiresAt: at(40) });
const revoked = grant(2, 20, { state: "revoked", endedAt: at(25) });
const released = grant(1, 0, { state: "released", endedAt: at(15) });
const all = [live, expired, revoked, released];

describe("bars of holders", () => {
  const bars = holderBars(all, NOW);

  it("run from the grant to its end, the last one until now", () => {
    const seconds = bars.map(({ startMs, endMs }) =>
      [startMs, endMs].map((ms) => ((ms ?? 0) - NOW) / 1_000 + 60),
    );
    expect(seconds).toEqual([
      [50, 60],
      [30, 40],
      [20, 25],
      [0, 15],
    ]);
    expect(bars.map(({ untilMs }) => untilMs)).toEqual([NOW + 4_000, null, null, null]);
  });

  it("state the gap before each grant, and why it ended", () => {
    expect(bars.map(({ vacantMs }) => vacantMs)).toEqual([10_000, 5_000, 5_000, null]);
    expect(bars.map(({ ending }) => ending)).toEqual([
      null,
      "expired, then acquired by h4",
      "revoked by an operator",
      "released by its holder",
    ]);
    expect(holderBars([expired], NOW)[0]?.ending).toMatch(/not renewed in time/);
    const blocking = grant(5, 55, { state: "revoked", expiresAt: at(65), freeInMs: 5_000 });
    expect(holderBars([blocking], NOW)[0]?.ending).toMatch(/blocked until its expiry/);
    const over = grant(5, 55, {
      state: "revoked",
      expiresAt: at(59),
      freeInMs: 5_000,
      endedAt: null,
    });
    expect(holderBars([over], NOW)[0]?.endMs).toBe(Date.parse(at(59)));
  });

  it("have no position on the axis if the store reports no times", () => {
    const [bar] = holderBars([grant(1, 0, { grantedAt: null })], NOW);
    expect(bar).toMatchObject({ startMs: null, vacantMs: null });
  });

  it("use the server's clock", () => {
    expect(serverNowMs(all, 7_000, 7_500)).toBe(NOW + 500);
    expect(serverNowMs([released], 7_000, 7_500)).toBe(7_500);
  });

  it("have an axis that spans all of them or has a given length", () => {
    const axis = axisOf(bars, NOW, null);
    expect(axis).toEqual({ fromMs: NOW - 60_000, toMs: NOW + 4_000 });
    expect(percentOf(axis, NOW - 28_000)).toBe(50);
    expect(percentOf(axis, NOW - 90_000)).toBe(0);
    expect(axisOf(bars, NOW, 30_000)).toEqual({ fromMs: NOW - 30_000, toMs: NOW + 4_000 });
    const long = { ...live, remainingMs: 600_000, expiresAt: at(660) };
    expect(axisOf(holderBars([long, released], NOW), NOW, null).toMs).toBe(NOW + 12_000);
    const [old] = holderBars([released], NOW);
    expect(axisOf(old ? [old] : [], NOW, null).toMs).toBe(NOW - 45_000);
  });

  it("have an axis with ticks at whole steps", () => {
    const axis = { fromMs: NOW - 59_000, toMs: NOW };
    const steps = ticksOf(axis, 6).map((ms) => (ms - NOW) / 1_000);
    expect(steps).toEqual([-50, -40, -30, -20, -10, 0]);
    expect(ticksOf({ fromMs: 0, toMs: 40 * 86_400_000 }, 5).length).toBeLessThanOrEqual(6);
  });
});
