/** Verification of the audit chain over HTTP. */
import type { AuditLog } from "leasehold/internal";
import { manualClock } from "leasehold/testing";
import { expect, it, onTestFinished } from "vitest";
import { openApp } from "../../../../../tests/support/server/app.js";
import { Verifications } from "./verifying.js";

const PATH = "/v1/audit/verify";

it("verifies again after a verification that failed", async () => {
  const { ask, stores, close } = await openApp();
  onTestFinished(close);
  const { control } = stores;
  if (!control) throw new Error("no control");
  const { read } = control.audit;
  control.audit.read = async () => {
    throw new Error("the database is restarting");
  };
  expect((await ask("GET", PATH)).status).toBe(500);
  expect((await ask("GET", PATH)).status).toBe(500);
  control.audit.read = read;
  expect(await ask("GET", PATH)).toMatchObject({ status: 200, body: { ok: true } });
});

const HASH = "0".repeat(64);

/** A chain whose reads wait until they may go on. */
function slowChain() {
  let goOn = () => {};
  const mayRead = new Promise<void>((resolve) => (goOn = resolve));
  let begun = () => {};
  const isReading = new Promise<void>((resolve) => (begun = resolve));
  let reads = 0;
  const read = async () => {
    reads += 1;
    begun();
    await mayRead;
    return [];
  };
  return { read, goOn: () => goOn(), isReading, reads: () => reads };
}

it("refuses a second verification of the tenant while the first one runs", async () => {
  const { ask, stores, close } = await openApp();
  onTestFinished(close);
  const { control } = stores;
  if (!control) throw new Error("no control");
  const { read, goOn, isReading, reads } = slowChain();
  control.audit.read = read;
  const first = ask("GET", PATH);
  await isReading;
  expect(await ask("GET", PATH)).toMatchObject({ status: 429, body: { code: "OVERLOADED" } });
  goOn();
  expect([(await first).status, reads()]).toEqual([200, 1]);
  expect((await ask("GET", PATH)).status).toBe(200);
});

it("verifies for one tenant after the other, and not for callers that have given up", async () => {
  const clock = manualClock();
  const verifications = new Verifications(clock);
  const { read, goOn, isReading, reads } = slowChain();
  const chain = { read, head: async () => ({ seq: 0, hash: HASH }) } as unknown as AuditLog;
  const verify = (namespace: string, seq: number, timeoutMs: number) =>
    verifications.verify(chain, namespace, [{ seq, hash: HASH }, "start"], timeoutMs);
  const first = verify("a", 0, 1_000);
  await isReading;
  const second = verify("b", 1, 5_000);
  const third = verify("c", 2, 1_000);
  const refused = expect(third).rejects.toMatchObject({ code: "OVERLOADED" });
  const fourth = verify("d", 3, 5_000);
  await clock.advance(2_000);
  expect(reads()).toBe(1);
  goOn();
  await Promise.all([first, second, refused, fourth]);
  expect(reads()).toBe(3);
});

it("verifies what follows an export, whose end must be given", async () => {
  const { ask, stores, close } = await openApp();
  onTestFinished(close);
  const entry = { namespace: "n", actor: "cli:me", action: "lease.revoke", target: "r" };
  const done = { ...entry, reason: null, phase: "done", details: "{}" } as const;
  const [first, second] = (await stores.control?.audit.append([done, done, done])) ?? [];
  const from = (seq?: number, hash?: string) =>
    ask("GET", `${PATH}?seq=${seq}&hash=${hash}&from=export`);
  expect(await from(second?.seq, second?.hash)).toMatchObject({ body: { ok: true, seq: 3 } });
  expect(await from(second?.seq, first?.hash)).toMatchObject({ body: { ok: false, seq: 2 } });
  const refused = { status: 422, body: { errors: [{ path: "from" }] } };
  expect(await ask("GET", `${PATH}?from=export`)).toMatchObject(refused);
});
