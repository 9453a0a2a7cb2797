import { manualClock } from "leasehold/testing";
import { expect, it } from "vitest";
import { bodyBytesOf, TenantLoads } from "./tenant-load.js";

const KIB = 1_024;

function setUp(limits: Partial<ConstructorParameters<typeof TenantLoads>[1]> = {}) {
  const clock = manualClock();
  const none = { tenantInFlight: null, tenantBodyBytes: null, allBodyBytes: null };
  const loads = new TenantLoads(clock, { ...none, ...limits });
  /** How many of these requests are admitted, one after the other. */
  const admitted = (
    count: number,
    tenant: string | null,
    load: Parameters<TenantLoads["enter"]>[1],
    { actor = "key:1", bytes = 0 } = {},
  ) => {
    const entered = Array.from({ length: count }, () =>
      loads.enter(tenant, load, { actor, bytes }),
    );
    return entered.filter((one) => typeof one !== "string");
  };
  return { clock, loads, admitted };
}

it("bounds the requests of each tenant in flight, by what they do", () => {
  const { admitted } = setUp({ tenantInFlight: 8 });
  const demands = admitted(10, "a", "demands");
  expect(demands).toHaveLength(8);
  expect(admitted(10, "a", "metrics")).toHaveLength(4);
  expect(admitted(10, "b", "demands")).toHaveLength(8);
  for (const leave of demands.slice(0, 3)) leave();
  expect(admitted(10, "a", "demands")).toHaveLength(3);
});

it("reserves a quarter of what keeps leases for keys that have renewed a live one", async () => {
  const { clock, loads, admitted } = setUp({ tenantInFlight: 8 });
  loads.noteRenewed("key:live");
  expect(admitted(10, "a", "keeps", { actor: "key:bogus" })).toHaveLength(6);
  expect(admitted(10, "a", "keeps", { actor: "key:live" })).toHaveLength(2);
  await clock.advance(1_200_000);
  loads.forget();
  expect(admitted(10, "c", "keeps", { actor: "key:live" })).toHaveLength(8);
  // A key that has renewed nothing for long is like any other.
  await clock.advance(1);
  loads.forget();
  expect(admitted(10, "b", "keeps", { actor: "key:live" })).toHaveLength(6);
});

it("bounds the bytes of a tenant's bodies, but no small body, and always takes one alone", () => {
  const { admitted } = setUp({ tenantBodyBytes: 100 * KIB });
  const large = admitted(10, "a", "demands", { bytes: 40 * KIB });
  expect(large).toHaveLength(2);
  expect(admitted(10, "a", "demands", { bytes: 16 * KIB })).toHaveLength(10);
  expect(admitted(10, "a", "keeps", { bytes: 40 * KIB })).toHaveLength(2);
  expect(admitted(10, "b", "demands", { bytes: 400 * KIB })).toHaveLength(1);
  for (const leave of large) leave();
  expect(admitted(10, "a", "demands", { bytes: 40 * KIB })).toHaveLength(2);
});

it("bounds the bytes of all bodies, also of callers that cannot be distinguished", () => {
  const { admitted } = setUp({ tenantInFlight: 1, tenantBodyBytes: 1, allBodyBytes: 100 * KIB });
  const [first, ...others] = admitted(10, null, "demands", { bytes: 30 * KIB });
  expect(others).toHaveLength(2);
  expect(admitted(1, "a", "keeps", { bytes: 30 * KIB })).toHaveLength(0);
  expect(admitted(10, null, "demands")).toHaveLength(10);
  first?.();
  expect(admitted(2, "a", "keeps", { bytes: 30 * KIB })).toHaveLength(1);
});

it("says why it refuses", () => {
  const { loads, admitted } = setUp({ tenantInFlight: 1, tenantBodyBytes: 1, allBodyBytes: 1 });
  admitted(1, "a", "demands");
  const enter = (bytes: number, load: "demands" | "keeps" = "demands") =>
    loads.enter("a", load, { actor: "key:1", bytes });
  expect(enter(0)).toContain("has 1 such requests in flight");
  expect(enter(20 * KIB)).toContain("are reading have 1 bytes together".replace("are", "is"));
});

it.each<[Record<string, string>, number]>([
  [{}, 0],
  [{ "content-length": "5" }, 5],
  [{ "content-length": "5000" }, 1_000],
  [{ "content-length": "nonsense" }, 1_000],
  [{ "transfer-encoding": "chunked" }, 1_000],
])("takes a body with %j for %i bytes", (headers, bytes) => {
  expect(bodyBytesOf(new Headers(headers), 1_000)).toBe(bytes);
});
