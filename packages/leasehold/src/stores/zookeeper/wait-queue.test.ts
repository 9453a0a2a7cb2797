/** For how long a free lock is reserved for those who waited for it. */
import { expect, it } from "vitest";
import { RESERVED_MS, reservedForMs } from "../../lease/index.js";
import { manualClock } from "../../testing/index.js";
import type { LockState, Talk } from "./transactions.js";
import { WaitQueue } from "./wait-queue.js";

const KEY = { namespace: "default", resource: "r" };
const talk = { paths: { lock: () => "/default/r" } } as unknown as Talk;

/** The lock since the change with this zxid. */
const freeSince = (zxid: number): LockState => {
  const [pzxid, mzxid] = [Buffer.alloc(8), Buffer.alloc(8)];
  pzxid.writeUInt32BE(zxid, 4);
  const stat = { pzxid, mzxid } as unknown as NonNullable<LockState["stat"]>;
  return { stat, record: null };
};

it("counts each vacancy of a lock from its own beginning", async () => {
  const clock = manualClock();
  const queue = new WaitQueue(clock, undefined as never, undefined as never);
  const left = (zxid: number) => reservedForMs(1) - queue.freeForMs(talk, KEY, freeSince(zxid), 0);
  expect(left(1)).toBe(RESERVED_MS);
  await clock.advance(RESERVED_MS - 1);
  expect(left(1)).toBe(1);
  await clock.advance(1);
  expect(left(1)).toBe(0);
  // It was granted meanwhile, and is free again.
  expect(left(2)).toBe(RESERVED_MS);
});
