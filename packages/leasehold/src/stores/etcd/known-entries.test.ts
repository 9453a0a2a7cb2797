import { expect, it } from "vitest";
import { MOST_KNOWN } from "../../store-kit/sightings.js";
import { manualEnv } from "../../testing/index.js";
import { KnownEntries } from "./known-entries.js";
import { type Entry, NOTHING } from "./records.js";

const TTL_MS = 10_000;
const MANY = 2 * MOST_KNOWN;

function held(modRevision: number, ttlMs = TTL_MS): Entry {
  const record = {
    leaseId: "a".repeat(48),
    holder: "h",
    token: 7,
    ttlMs,
    grantedAt: "",
    renewedAt: null,
    expiresAt: "",
    ended: null,
    metadata: null,
  };
  const owner = { key: "r/1", createRevision: 7, lease: "1", value: "h" };
  return { ...NOTHING, record, modRevision, owner };
}

function open() {
  const { clock } = manualEnv();
  const known = new KnownEntries(clock);
  const renew = (record: string, revision: number) =>
    known.set(record, { entry: held(revision), changes: 1 });
  const revisionOf = (record: string) => known.get(record)?.entry.modRevision;
  return { clock, known, renew, revisionOf };
}

it("knows each grant of this client until its TTL is over, however many there are", async () => {
  const { clock, renew, revisionOf } = open();
  for (let at = 0; at < MANY; at += 1) renew(`r${at}`, at + 1);
  await clock.advance(TTL_MS - 1);
  renew("another", 1);
  expect(revisionOf("r0")).toBe(1);
  expect(revisionOf(`r${MANY - 1}`)).toBe(MANY);
});

it("knows a grant on while it is renewed, and no longer after", async () => {
  const { clock, renew, revisionOf } = open();
  renew("left", 1);
  for (let at = 0; at < 9; at += 1) {
    renew("kept", at + 2);
    await clock.advance(TTL_MS / 3);
  }
  expect(revisionOf("kept")).toBe(10);
  expect(revisionOf("left")).toBeUndefined();
});

it("keeps a grant with a long TTL beside many with short ones", async () => {
  const { clock, known, renew, revisionOf } = open();
  known.set("long", { entry: held(1, 30 * TTL_MS), changes: 1 });
  for (let at = 0; at < 29; at += 1) {
    await clock.advance(TTL_MS);
    renew("short", at + 1);
  }
  expect(revisionOf("long")).toBe(1);
});

it("forgets a grant that is over", async () => {
  const { known, renew, revisionOf } = open();
  renew("deleted", 1);
  known.delete("deleted");
  expect(revisionOf("deleted")).toBeUndefined();
  renew("released", 1);
  known.set("released", { entry: { ...held(2), owner: null }, changes: 2 });
  expect(revisionOf("released")).toBe(2);
});

it("bounds what was only read", () => {
  const { known } = open();
  for (let at = 0; at < MANY; at += 1) known.set(`r${at}`, { entry: held(1), changes: 0 });
  expect(known.get("r0")).toBeUndefined();
  expect(known.get(`r${MANY - 1}`)).toBeDefined();
});
