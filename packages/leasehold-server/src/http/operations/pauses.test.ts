import type { Pause } from "leasehold/internal";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, it, onTestFinished } from "vitest";
import { openApp } from "../../../../../tests/support/app.js";
import { withLeasesApart } from "../../../../leasehold/src/control/index.js";
import { Pauses } from "./pauses.js";

const pause = (kind: Pause["kind"], name: string): Pause => ({
  namespace: "n",
  kind,
  name,
  actor: "a",
  reason: "r",
  since: "",
});
const key = (resource: string, namespace = "n") => ({ namespace, resource });

function open(leasesApart = false) {
  const env = manualEnv();
  let answer = async (): Promise<readonly Pause[]> => [];
  const control = { leasesApart, pauses: { list: () => answer() } };
  const pauses = new Pauses(control, env);
  onTestFinished(() => pauses.stop());
  return {
    env,
    pauses,
    answers: (next: () => Promise<readonly Pause[]>) => {
      answer = next;
    },
  };
}

it("refuses resources below a paused prefix, and paused resources only if their store does not", async () => {
  for (const apart of [false, true]) {
    const { pauses, answers } = open(apart);
    answers(async () => [pause("prefix", "billing/"), pause("resource", "r"), pause("queue", "q")]);
    expect(await pauses.covers(key("billing/1"))).toBe(true);
    expect(pauses.covers(key("billing"))).toBe(false);
    expect(pauses.covers(key("billing/1", "other"))).toBe(false);
    expect(pauses.covers(key("r"))).toBe(apart);
    expect(await pauses.openQueues("n", ["q", "p"])).toEqual(["p"]);
    expect(await pauses.openQueues("n", ["q"])).toEqual([""]);
    expect(await pauses.openQueues("other", ["q"])).toEqual(["q"]);
  }
});

it("grants nothing before the first read, then continues with the known pauses", async () => {
  const { env, pauses, answers } = open();
  answers(async () => Promise.reject(new Error("unavailable")));
  await expect(pauses.covers(key("r"))).rejects.toThrow("unavailable");
  await expect(pauses.openQueues("n", ["q"])).rejects.toThrow("unavailable");
  answers(async () => [pause("prefix", "r")]);
  expect(await pauses.covers(key("r"))).toBe(true);
  answers(async () => Promise.reject(new Error("unavailable")));
  await env.clock.advance(5_000);
  expect(pauses.covers(key("r"))).toBe(true);
  answers(async () => []);
  await env.clock.advance(20_000);
  expect(pauses.covers(key("r"))).toBe(false);
});

it("ignores a list that was read before the last one", async () => {
  const { pauses, answers } = open();
  let endFirst = (_: readonly Pause[]) => {};
  answers(
    () =>
      new Promise((resolve) => {
        endFirst = resolve;
      }),
  );
  const slow = pauses.refresh();
  answers(async () => [pause("prefix", "r")]);
  await pauses.refresh();
  endFirst([]);
  await slow;
  expect(pauses.covers(key("r"))).toBe(true);
});

it("pauses a resource whose lease is in another store than the pause", async () => {
  const env = manualEnv();
  const [leases, kept] = [await memory().open(env), await memory().open(env)];
  if (!kept.control) throw new Error("memory keeps a control");
  const control = withLeasesApart(kept.control, leases.leases);
  const app = await openApp({ env, leases: leases.leases, tasks: kept.tasks, control });
  onTestFinished(() => app.close());
  const acquire = async () =>
    (await app.ask("POST", "/v1/locks/acquire", { resource: "r", ownerId: "o" })).body;
  await app.ask("PUT", "/v1/pauses", { kind: "resource", name: "r", reason: "x" });
  expect(await acquire()).toMatchObject({ acquired: false, ownerId: "paused" });
  await app.ask("DELETE", "/v1/pauses?kind=resource&name=r");
  expect(await acquire()).toMatchObject({ acquired: true });
  const revoked = await app.ask("POST", "/v1/leases/revoke", [{ resource: "r", reason: "x" }]);
  expect(revoked.body).toMatchObject([{ status: "revoked" }]);
  const { body } = await app.ask("GET", "/v1/audit?action=lease.revoke");
  const phases = body.items.map(({ phase }: { phase: string }) => phase);
  expect(phases).toEqual(["result", "intent"]);
});
