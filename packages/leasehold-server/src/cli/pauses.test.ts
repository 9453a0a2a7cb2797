/** Which pauses a command names, and for whom they count. */
import { type LeaseStores, StoreMisconfiguredError, StoreUnavailableError } from "leasehold";
import type { Pause } from "leasehold/internal";
import { expect, it } from "vitest";
import { enforcedBy, ifPermitted, pausesFor, refusesHere } from "./pauses.js";

const pause = (kind: Pause["kind"], name: string): Pause => ({
  namespace: "n",
  kind,
  name,
  actor: "a",
  reason: "r",
  since: "",
});

/** Stores with pauses of their own, beside their leases or apart from them, or with those of a server. */
function storesOf(kept: "beside" | "apart" | "server" | "none", list = async () => [] as Pause[]) {
  const pauses = { list };
  const control = { pauses, leasesApart: kept === "apart" };
  if (kept === "none") return {} as LeaseStores;
  return (kept === "server" ? { operator: { pauses } } : { control }) as unknown as LeaseStores;
}

it.each([
  ["beside", "resource", "store", true],
  ["beside", "prefix", "servers", false],
  ["beside", "queue", "servers", false],
  ["apart", "resource", "servers", false],
  ["apart", "prefix", "servers", false],
  ["server", "resource", "servers", true],
  ["server", "prefix", "servers", true],
] as const)("pauses kept %s: that of a %s is enforced by the %s", (kept, kind, by, here) => {
  const stores = storesOf(kept);
  expect([enforcedBy({ kind }, stores), refusesHere({ kind }, stores)]).toEqual([by, here]);
});

it("finds the pauses of a resource wherever they are kept; undefined if nowhere", async () => {
  const all = [pause("resource", "a/b"), pause("resource", "a"), pause("prefix", "a/")];
  for (const kept of ["beside", "apart", "server"] as const) {
    const stores = storesOf(kept, async () => all);
    const found = await pausesFor({ namespace: "n", resource: "a/b" }, stores);
    expect(found).toEqual([all[0], all[2]]);
  }
  expect(await pausesFor({ namespace: "n", resource: "a" }, storesOf("none"))).toBeUndefined();
});

it("does without what a key may not read, and fails where a retry may help or the program is wrong", () => {
  expect(ifPermitted(new StoreMisconfiguredError("the key may not read it"))).toBeUndefined();
  const unavailable = new StoreUnavailableError("it is down", { outcome: "none" });
  const bug = new TypeError("x is not a function");
  for (const error of [unavailable, bug]) expect(() => ifPermitted(error)).toThrow(error);
});

it("fails where the pauses cannot be read: the resource may be paused", async () => {
  const forbidden = new StoreMisconfiguredError("the key may not read the pauses");
  const unavailable = new StoreUnavailableError("it is down", { outcome: "none" });
  const bug = new TypeError("x is not a function");
  const found = (error: Error) =>
    pausesFor(
      { namespace: "n", resource: "r" },
      storesOf("server", () => Promise.reject(error)),
    );
  for (const error of [forbidden, unavailable, bug]) await expect(found(error)).rejects.toBe(error);
});
